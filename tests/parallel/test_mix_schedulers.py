"""The rules by which jobs with deadlines are served, on a clock that is made up."""

from __future__ import annotations

import math
from statistics import fmean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from _mixes import MS, Expected, random_mix, scattered
from edgewise.core.mix import Block, Job, Network
from edgewise.parallel.mix.bound import best_hits, load
from edgewise.parallel.mix.desk import Desk
from edgewise.parallel.mix.schedulers import RULES
from edgewise.parallel.mix.simulate import arrivals, simulate


@st.composite
def mixes(draw: st.DrawFn) -> tuple[list[Network], Expected, int]:
    devices = draw(st.integers(1, 4))
    networks, expected = [], []
    for place in range(draw(st.integers(1, 4))):
        took = draw(st.lists(st.one_of(st.none(), st.floats(1, 40)), min_size=devices, max_size=devices))
        row: list[float | None] = [None if ms is None else ms * MS for ms in took]
        row[draw(st.integers(0, devices - 1))] = draw(st.floats(1, 40)) * MS
        kind = draw(st.sampled_from(["periodic", "poisson"]))
        rate, deadline = draw(st.floats(2, 120)), draw(st.integers(1, 100))
        networks.append(Network(f"n{place}", "", rate, deadline * MS, "poisson" if kind == "poisson" else "periodic"))
        expected.append(row)
    return networks, expected, draw(st.integers(0, 1000))


def played(
    name: str, networks: list[Network], expected: Expected, seed: int, seconds: float = 0.5, **more: object
) -> Block:
    desk = Desk(expected, [network.deadline_ns for network in networks])
    jobs = arrivals(networks, seconds, seed)
    return simulate(desk, RULES[name], jobs, scattered(expected, seed), name=name, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", RULES)
@settings(max_examples=40, deadline=None)
@given(mixes())
def test_every_job_once_on_a_device_that_can_and_one_at_a_time(
    name: str, mix: tuple[list[Network], Expected, int]
) -> None:
    networks, expected, seed = mix
    block = played(name, networks, expected, seed)
    jobs = arrivals(networks, 0.5, seed)
    assert [each.job for each in block.served] == jobs
    until: dict[int, int] = {}
    for each in sorted((s for s in block.served if s.device is not None), key=lambda s: s.began_ns or 0):
        assert each.device is not None and each.began_ns is not None and each.ended_ns is not None
        assert expected[each.job.network][each.device] is not None and not each.dropped
        assert each.job.arrival_ns <= each.began_ns < each.ended_ns
        assert until.get(each.device, 0) <= each.began_ns
        until[each.device] = each.ended_ns


@pytest.mark.parametrize("name", RULES)
@settings(max_examples=20, deadline=None)
@given(mixes(), st.integers(1, 400))
def test_what_a_lost_device_held_is_served_or_dropped_all_the_same(
    name: str, mix: tuple[list[Network], Expected, int], at_ms: int
) -> None:
    networks, expected, seed = mix
    block = played(name, networks, expected, seed, dies=[(0, at_ms * MS)])
    assert [each.job for each in block.served] == arrivals(networks, 0.5, seed)
    assert all(each.device != 0 or (each.ended_ns or 0) <= at_ms * MS for each in block.served)


@given(mixes())
@settings(max_examples=30, deadline=None)
def test_first_come_first_served_never_drops_and_keeps_the_order_of_a_lone_device(
    mix: tuple[list[Network], Expected, int],
) -> None:
    networks, expected, seed = mix
    block = played("fifo", networks, [[max(ns for ns in row if ns is not None)] for row in expected], seed)
    began = [each.began_ns for each in block.served if each.began_ns is not None]
    assert not any(each.dropped for each in block.served) and began == sorted(began)


@st.composite
def waiting(draw: st.DrawFn) -> Desk:
    """Jobs that have all arrived, on one device that can be in time with all of them."""
    takes = draw(st.lists(st.integers(1, 9), min_size=1, max_size=5))
    order = draw(st.permutations(range(len(takes))))
    desk = Desk([[ms * MS] for ms in takes], [10**10] * len(takes))
    at = 0.0
    for place, network in enumerate(order):
        at += takes[network] * 2 * MS
        desk.arrive(Job(len(order) - place, network, 0, round(at)))
    return desk


@given(waiting())
@settings(max_examples=60, deadline=None)
def test_alone_and_with_time_enough_the_earliest_deadline_begins(desk: Desk) -> None:
    (chosen,) = RULES["latency-aware"](desk, 0)
    assert chosen == (min(desk.waiting, key=lambda job: job.deadline_ns), 0)


def test_a_slow_device_stays_idle_where_a_job_would_be_late_on_it() -> None:
    desk = Desk([[5.0 * MS, 30.0 * MS]], [20 * MS])
    desk.arrive(Job(0, 0, 0, 20 * MS))
    desk.give(desk.waiting[0], 0, 0)
    desk.arrive(Job(1, 0, 1 * MS, 21 * MS))
    assert RULES["fifo"](desk, 1 * MS)[0][1] == 1
    assert RULES["latency-aware"](desk, 1 * MS) == []


def test_a_quick_device_is_kept_for_what_only_it_can_do_in_time() -> None:
    desk = Desk([[5.0 * MS, 12.0 * MS], [5.0 * MS, 50.0 * MS]], [15 * MS, 8 * MS])
    for number, network in enumerate((0, 1)):
        desk.arrive(Job(number, network, 0, desk.deadlines_ns[network]))
    assert sorted((job.network, place) for job, place in RULES["latency-aware"](desk, 0)) == [(0, 1), (1, 0)]


def test_only_what_cannot_be_in_time_is_dropped() -> None:
    desk = Desk([[5.0 * MS]], [10 * MS])
    desk.arrive(Job(0, 0, 0, 10 * MS))
    assert RULES["latency-aware"](desk, 5 * MS) == [(desk.waiting[0], 0)]
    assert RULES["latency-aware"](desk, 6 * MS) == [(desk.waiting[0], None)]
    assert RULES["fifo"](desk, 60 * MS) == [(desk.waiting[0], 0)]


def test_one_slow_run_shuts_a_network_out_of_band_and_not_of_ours() -> None:
    """Ten times as long once: the expectation is then above the deadline, and only runs can bring it down again."""
    network = Network("n", "", 20.0, 15 * MS)

    def serve(job: Job, device: int) -> int:
        return 100 * MS if job.number == 0 else 10 * MS

    shares = {}
    for name in ("band", "latency-aware"):
        desk = Desk([[10.0 * MS]], [15 * MS])
        block = simulate(desk, RULES[name], arrivals([network], 5, 0), serve, name=name)
        shares[name] = fmean(each.hit for each in block.served)
    assert shares["band"] < 0.05 and shares["latency-aware"] > 0.9


def test_band_takes_the_least_slack_first_and_sheds_what_would_be_late() -> None:
    desk = Desk([[4.0 * MS], [9.0 * MS], [7.0 * MS]], [0, 0, 0])
    for number, (network, deadline_ms) in enumerate([(0, 30), (1, 12), (2, 8)]):
        desk.arrive(Job(number, network, 0, deadline_ms * MS))
    # Slacks 26, 3 and 1 ms: the third begins, the second would end at 16 ms, the first waits on the device's list.
    first, second, third = desk.waiting
    assert RULES["band"](desk, 0) == [(third, 0), (second, None), (first, 0)]


def test_bands_other_rule_begins_with_the_longest() -> None:
    desk = Desk([[4.0 * MS, 5.0 * MS], [9.0 * MS, 30.0 * MS]], [0, 0])
    for number in range(2):
        desk.arrive(Job(number, number, 0, 10**12))
    first, second = desk.waiting
    assert RULES["band-heft"](desk, 0) == [(second, 0), (first, 1)]


def test_what_is_expected_follows_what_is_seen() -> None:
    desk = Desk([[10.0 * MS]], [10**9])
    job = Job(0, 0, 0, 10**9)
    desk.arrive(job)
    desk.give(job, 0, 0)
    assert desk.free_ns(0, 4 * MS) == 10 * MS and desk.free_ns(0, 14 * MS) == 14 * MS
    assert desk.finish(0, 20 * MS, 20 * MS) == job
    assert desk.takes(0, 0) == pytest.approx(11 * MS)


def test_ours_has_more_jobs_in_time_than_the_others_over_random_mixes() -> None:
    """In the mean by several points, and in no mix more than three points behind the best of them."""
    ahead, behind = list[float](), list[float]()
    for seed in range(12):
        networks, expected = random_mix(seed)
        hits = {}
        for name in RULES:
            block = played(name, networks, expected, seed, seconds=1.5)
            hits[name] = fmean(each.hit for each in block.served)
        ours = hits.pop("latency-aware")
        ahead.append(ours - hits["band"])
        behind.append(max(hits.values()) - ours)
    assert fmean(ahead) > 0.03
    assert max(behind) < 0.03


@settings(max_examples=15, deadline=None)
@given(mixes())
def test_no_rule_beats_the_bound(mix: tuple[list[Network], Expected, int]) -> None:
    """With a margin for the beginning, when nothing waits yet, and for the end, when nothing more comes."""
    networks, expected, seed = mix
    bound = best_hits(networks, expected)
    desk = Desk(expected, [network.deadline_ns for network in networks])
    jobs = arrivals(networks, 3, seed)
    exact = simulate(desk, RULES["latency-aware"], jobs, lambda job, device: round(expected[job.network][device] or 0))
    hits, offered = sum(each.hit for each in exact.served), 3 * sum(network.rate_hz for network in networks)
    slack = sum(6 * math.sqrt(network.rate_hz * 3) + 1 for network in networks)
    extra = sum(0.1 * 1e9 / min(row[d] or 1e12 for row in expected) for d in range(len(expected[0])))
    assert hits <= bound * offered + slack + extra


def test_the_bounds_of_what_can_be_counted_by_hand() -> None:
    one = Network("a", "", 100.0, 20 * MS)
    assert load([one], [[5.0 * MS]]) == pytest.approx(0.5, rel=0.01)
    assert load([one], [[20.0 * MS, 20.0 * MS]]) == pytest.approx(1.0, rel=0.01)
    assert best_hits([one], [[20.0 * MS]]) == pytest.approx(0.5, rel=0.02)
    assert best_hits([one], [[5.0 * MS]]) == pytest.approx(1.0, rel=0.01)
    # Nowhere in time, and so of no use to anybody.
    assert load([one], [[21.0 * MS]]) is None and best_hits([one], [[21.0 * MS]]) == pytest.approx(0.0, abs=0.01)
    # Two that are each quick on another device: 50 % of either.
    two = [one, Network("b", "", 100.0, 200 * MS)]
    assert load(two, [[5.0 * MS, 50.0 * MS], [50.0 * MS, 5.0 * MS]]) == pytest.approx(0.5, rel=0.01)


@settings(max_examples=60, deadline=None)
@given(mixes())
def test_the_bounds_are_those_of_another_solver(mix: tuple[list[Network], Expected, int]) -> None:
    optimize = pytest.importorskip("scipy.optimize")
    networks, expected, _ = mix
    rates = [network.rate_hz for network in networks]
    pairs = [
        (n, d, ns / 1e9)
        for n, row in enumerate(expected)
        for d, ns in enumerate(row)
        if ns is not None and ns <= networks[n].deadline_ns
    ]
    most, busiest = best_hits(networks, expected), load(networks, expected)
    if not pairs:
        assert most == 0 and busiest is None
        return
    devices = len(expected[0])
    shared = [[float(n == row) for n, _, _ in pairs] for row in range(len(networks))]
    worked = [[takes * (d == row) for _, d, takes in pairs] for row in range(devices)]
    found = optimize.linprog([-1.0] * len(pairs), shared + worked, rates + [1.0] * devices)
    assert most == pytest.approx(-found.fun / sum(rates), abs=1e-6)
    assert busiest is None or (busiest <= 1 + 1e-9) == (most >= 1 - 1e-9)
