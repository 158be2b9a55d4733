"""Shares by measured times: what is equalized, when a way is changed, and that answers stay right while it is."""

from __future__ import annotations

import mmap
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from split_networks import ORT

from edgewise.core.errors import EngineFailure
from edgewise.core.text import parse_placement, parse_target
from edgewise.core.types import Model
from edgewise.model.graph import graph
from edgewise.parallel.split import run, search
from edgewise.parallel.split.balance import Balance, Way, around, nearby, predicted_ns, rates, settled, uneven
from edgewise.parallel.split.executable import Split
from edgewise.parallel.split.run import Clock
from edgewise.parallel.split.source import Source
from edgewise.parallel.split.ways import Ways
from networks import Network, whole

EQUAL = Way("split", ((0.5, 0.5),))


def test_shares_equalize_times() -> None:
    assert settled([(0.5, 0.5)], [(100, 300)], damping=1) == (pytest.approx((0.75, 0.25)),)
    # Half of the way, where damped; and every step for itself.
    found = settled([(0.5, 0.5), (0.5, 0.5)], [(100, 300), (300, 100)], damping=0.5)
    assert found == (pytest.approx((0.625, 0.375)), pytest.approx((0.375, 0.625)))


def test_noise_moves_nothing() -> None:
    assert settled([(0.5, 0.5)], [(100, 104)]) == ((0.5, 0.5),)


def test_a_part_without_a_share_is_taken_for_as_quick_as_elsewhere() -> None:
    found = settled([(0.5, 0.5), (1.0, 0.0)], [(100, 100), (200, 0)], damping=1)
    assert found[1] == pytest.approx((0.5, 0.5), abs=0.1)


@given(
    st.lists(st.tuples(st.floats(0.05, 1), st.floats(0.05, 1), st.floats(0.05, 1)), min_size=1, max_size=5),
    st.tuples(st.floats(1, 100), st.floats(1, 100), st.floats(1, 100)),
)
def test_settled_shares_are_shares_and_are_steady(shares: list[tuple[float, ...]], speed: tuple[float, ...]) -> None:
    def times(of: Any) -> list[list[float]]:
        return [[share / rate for share, rate in zip(step, speed, strict=True)] for step in of]

    found = settled(shares, times(shares), damping=1, dead=0)
    for step, took in zip(found, times(found), strict=True):
        assert sum(step) == pytest.approx(1) and min(step) > 0
        assert max(took) == pytest.approx(min(took))
    assert settled(found, times(found)) == tuple(pytest.approx(step) for step in found)


def test_what_another_plan_would_take() -> None:
    loads, busy = [(10.0, 10.0), (20.0, 20.0)], [(5.0, 10.0), (10.0, 20.0)]
    assert predicted_ns(loads, busy, loads) == 30
    assert predicted_ns(loads, busy, [(20.0, 0.0), (40.0, 0.0)]) == 30
    assert predicted_ns(loads, busy, [(40.0, 20.0)]) == 20
    assert rates(loads, busy) == (2, 1)


def test_ratios_to_choose_from_are_few() -> None:
    assert (0.5, 0.5) in nearby((1, 1.1))
    assert nearby((3, 1))[0] == (0.75, 0.25)
    assert len(nearby((1, 2))) == 3
    assert nearby((2, 1, 1)) == [(0.5, 0.25, 0.25)]


class Machine:
    """Parts of known speed, in work per ns, and what each exchange costs. Somebody else may want the second one's core,
    and then has it for `slice_ns` as often as it has worked as long."""

    near = True

    def __init__(self, ways: Ways, speed: tuple[float, ...], exchange_ns: float, seed: int = 0) -> None:
        self.ways, self.speed, self.exchange_ns = ways, list(speed), exchange_ns
        self.random = np.random.default_rng(seed)
        self.balance, self.now, self.slice_ns = Balance(EQUAL), 0, 0.0
        self.latest: list[Any] = []
        self.latest_in = EQUAL
        self.frames: list[float] = []

    def frame(self) -> None:
        balance = self.balance
        way = balance.way
        loads = self.ways.loads(way)
        busy = [[self.busy_ns(part, work) for part, work in enumerate(step)] for step in loads]
        took = sum(max(step) for step in busy) + self.exchange_ns * (len(loads) if way.kind != "single" else 0)
        took += self.waiting_ns(loads)
        self.now += int(took)
        self.frames.append(took)
        if way == balance.current:
            self.latest = [*self.latest[-19:], busy] if way == self.latest_in else [busy]
            self.latest_in = way
        balance.note(took, self.now)
        if balance.due(self.now, uneven(np.mean(self.latest, axis=0).tolist())):
            found = search.expected(
                self.ways,
                balance.current,
                balance.split,
                np.mean(self.latest, axis=0).tolist(),
                balance.mean_ns(),
                fine=not balance.calm,
                near=self.near,
            )
            if (wanted := balance.choose(found, self.now)) is not None:
                balance.begin(wanted)

    def busy_ns(self, part: int, work: float) -> float:
        took = work / self.speed[part] * self.random.lognormal(0, 0.05)
        if part and self.slice_ns:
            took += self.random.poisson(took / self.slice_ns) * self.slice_ns
        return float(took)

    def waiting_ns(self, loads: Any) -> float:
        """For turns, beyond what keeps anybody busy."""
        return 0.0

    def run(self, frames: int) -> float:
        for _ in range(frames):
            self.frame()
        return float(np.mean(self.frames[-frames // 2 :]))

    def share(self) -> float:
        """What the first part does of all work."""
        loads = np.array(self.ways.loads(self.balance.current))
        return float(loads[:, 0].sum() / loads.sum())

    def alone_ns(self, part: int) -> float:
        return sum(map(sum, self.ways.loads(Way("single", part=part)))) / self.speed[part]


@pytest.fixture
def ways(tmp_path: Path) -> Ways:
    network = Network(0)
    network.shapes["x"] = (1, 3, 16, 16)
    y = "x"
    for _ in range(6):
        y = network.conv(y, 192)
    model = network.saved(tmp_path / "m.onnx", 16, y)
    targets = [parse_target(ORT)] * 2
    return Ways([model] * 2, Source(graph(model), targets), targets, ["auto"])


# Work per ns by which a frame of the network above takes some 50 ms alone.
SPEED = 9.0


def test_equal_parts_stay_equal(ways: Ways) -> None:
    machine = Machine(ways, (SPEED, SPEED), 10_000)
    took = machine.run(2000)
    assert machine.share() == pytest.approx(0.5, abs=0.1)
    assert took < 0.6 * machine.alone_ns(0)


@pytest.mark.parametrize("speed", [(1.0, 0.5), (0.5, 1.0), (1.0, 0.25)])
def test_the_quicker_part_gets_more(ways: Ways, speed: tuple[float, float]) -> None:
    machine = Machine(ways, (SPEED * speed[0], SPEED * speed[1]), 10_000)
    took = machine.run(2000)
    assert machine.share() == pytest.approx(speed[0] / sum(speed), abs=0.1)
    assert took < 1.12 * machine.alone_ns(0) * speed[0] / sum(speed)


def test_a_part_that_others_want_too_loses_its_share_and_gets_it_back(ways: Ways) -> None:
    machine = Machine(ways, (SPEED, SPEED), 10_000)
    machine.run(1000)
    machine.speed[1] /= 2
    machine.run(2000)
    assert machine.share() > 0.6
    machine.speed[1] *= 2
    machine.run(2000)
    assert machine.share() == pytest.approx(0.5, abs=0.1)


@pytest.mark.parametrize("begun", [True, False])
def test_shares_found_beside_somebody_who_left_unseen_are_not_kept_for_ever(ways: Ways, begun: bool) -> None:
    """Frames take what they took when that was found out, and yet one part waits for the other all the time."""
    machine = Machine(ways, (SPEED, SPEED), 1e5)
    thirds = Way("split", ((2 / 3, 1 - 2 / 3),))
    alone = sum(map(sum, ways.loads(Way("single")))) / SPEED
    machine.balance = Balance(thirds, 0.69 * alone if begun else None)
    machine.balance.settled = machine.balance.calm = not begun
    machine.run(2000)
    assert abs(machine.share() - 0.5) < 0.08


@pytest.mark.parametrize("seed", range(3))
def test_somebody_who_has_the_core_in_turns(ways: Ways, seed: int) -> None:
    """A step that meets the other one is long, and most do not: only many frames together tell the share to have."""
    machine = Machine(ways, (SPEED, SPEED), 10_000, seed)
    machine.slice_ns = 4_000_000
    took = machine.run(2000)
    assert 0.55 < machine.share() < 0.85
    assert took < 0.95 * machine.alone_ns(0)


@pytest.mark.parametrize("speed", [(1.0, 1.0), (1.0, 0.05)])
def test_never_much_worse_than_the_best_alone(ways: Ways, speed: tuple[float, float]) -> None:
    """Exchanges that cost more than the split brings: one part runs alone, and the others get a try now and then."""
    machine = Machine(ways, (SPEED * speed[0], SPEED * speed[1]), 20_000_000)
    took = machine.run(4000)
    assert machine.balance.current == Way("single", part=0) or speed[0] == speed[1]
    assert machine.balance.current.kind == "single"
    assert took < 1.05 * machine.alone_ns(0)


def test_alone_goes_back_to_a_split_when_that_becomes_better(ways: Ways) -> None:
    machine = Machine(ways, (SPEED, SPEED), 20_000_000)
    machine.run(2000)
    assert machine.balance.current.kind == "single"
    machine.exchange_ns = 10_000
    machine.run(2000)
    assert machine.balance.current.kind == "split"


class Crowded(Machine):
    """The second core's owner lets others in for a small share of the work at once, and has them wait for more."""

    def waiting_ns(self, loads: Any) -> float:
        work = np.array(loads).sum(axis=0)
        more = work[1] / work.sum() - 0.27
        return max(0.0, 3 * more * self.alone_ns(0)) if work[0] else 0.0


@pytest.mark.parametrize(("near", "kind"), [(True, "split"), (False, "single")])
def test_what_is_near_is_tried_before_a_split_is_given_up(ways: Ways, near: bool, kind: str) -> None:
    """How long the parts compute does not tell it: at equal shares all looks well, but for the time it takes."""
    machine = Crowded(ways, (SPEED, SPEED), 10_000)
    machine.near = near
    machine.run(300)
    assert machine.balance.calm and machine.balance.current.kind == kind
    if near:
        assert 0.65 < machine.share() < 0.85
        assert machine.run(1000) < 0.85 * machine.alone_ns(0)


class Loading(Machine):
    """A way that is not among the few kept is loaded first, beside frames that take three times as long meanwhile."""

    loads = 0
    _beside = 12

    def frame(self) -> None:
        before = self.balance.trial
        super().frame()
        way = self.balance.trial
        if way is None or way == before or way.kind == "single" or way == self.balance.split:
            return
        self.loads += 1
        self.balance.trial = None
        for _ in range(self._beside):
            took = 3 * self.alone_ns(0)
            self.now += int(took)
            self.frames.append(took)
            self.balance.beside(took)
        self.balance.begin(way)


def test_alone_what_looking_costs_stays_a_small_part(ways: Ways) -> None:
    """Every other cut has to be loaded again for its try, and loading slows down the frames beside it."""
    machine = Loading(ways, (SPEED, SPEED), 20_000_000)
    machine.run(2000)
    assert machine.balance.current.kind == "single"
    before = machine.loads
    took = machine.run(12_000)
    assert machine.loads - before < 20
    assert took < 1.03 * machine.alone_ns(0)


def test_what_is_kept_of_a_split_is_the_way_it_runs(ways: Ways) -> None:
    """A trial that is quicker by less than what counts changes nothing: neither the way nor what is near it."""
    balance = Balance(EQUAL)
    other = Way("split", ((0.5, 0.5),), axis="rows")

    def frames(count: int, took: float) -> None:
        for number in range(count):
            balance.note(took + number % 2, number * int(took))

    frames(30, 10_000)
    balance.begin(other)
    frames(30, 9_950)
    assert balance.trial is None
    assert (balance.current, balance.split) == (EQUAL, EQUAL)


def test_what_lies_beyond_something_worse_is_not_tried() -> None:
    """Shares further off along the same axis; along another one they may be what is needed."""
    balance = Balance(Way("split", ((0.7, 0.3),), axis="rows"))

    def frames(count: int, took: float) -> None:
        for number in range(count):
            balance.note(took + number % 2, number * int(took))

    frames(30, 10_000)
    balance.begin(Way("split", ((0.6, 0.4),), axis="rows"))
    frames(12, 11_000)
    assert balance.trial is None
    assert balance.choose({Way("split", ((0.5, 0.5),), axis="rows"): 5_000.0}, 1) is None
    for share, axis in ((0.75, "rows"), (0.65, "rows"), (0.5, "auto")):
        other = Balance(Way("split", ((0.7, 0.3),), axis="rows"))
        other._seen = balance._seen
        way = Way("split", ((share, 1 - share),), axis=axis)
        assert other.choose({way: 5_000.0}, 1) == way


def test_another_axis_is_tried_with_more_for_the_first_part_too() -> None:
    """Who comes by turns on a core is late beyond a certain share, and which one depends on how often all wait."""
    tried = {(way.axis, way.shares[0][0]) for way in around(Way("split", ((0.7, 0.3),), axis="rows"), ["auto", "rows"])}
    assert {("auto", 0.7), ("auto", 0.75), ("rows", 0.75)} <= tried


@given(st.integers(2, 5), st.integers(0, 3))
def test_what_is_near_is_something_else(parts: int, extra: int) -> None:
    shares = tuple(1 / parts + 0.1 * extra * (part == 0) for part in range(parts))
    way = Way("split", (shares,))
    for each in around(way, ["auto", "rows"]):
        whole = [share / sum(each.shares[0]) for share in each.shares[0]]
        was = [share / sum(shares) for share in shares]
        assert each.axis != way.axis or max(abs(a - b) for a, b in zip(whole, was, strict=True)) > 0.02


def _model(tmp_path: Path) -> Model:
    return Network(3).save(tmp_path / "m.onnx", layers=6)


def _split(model: Model, now: Callable[[], int] = time.perf_counter_ns, parts: int = 2) -> Split:
    placement = parse_placement(f"split({', '.join([ORT] * parts)})")
    return Split([(model, ())] * parts, placement, now=now)


def _check(split: Split, model: Model, seeds: range) -> None:
    for seed in seeds:
        feeds = {t.name: np.random.default_rng(seed).standard_normal(t.shape).astype(np.float32) for t in model.inputs}
        found = split.run(feeds)
        for name, expected in whole(model, feeds).items():
            np.testing.assert_allclose(found[name], expected, rtol=1e-4, atol=1e-4)


def test_answers_stay_right_from_way_to_way(tmp_path: Path) -> None:
    model = _model(tmp_path)
    split = _split(model)
    try:
        _check(split, model, range(3))
        balance = split._balance
        assert balance is not None
        for way in (
            Way("split", ((0.75, 0.25),)),
            Way("single", part=0),
            Way("single", part=1),
            Way("split", ((0.25, 0.75),)),
            EQUAL,
            Way("split", ((1.0, 0.0),)),
            Way("single", part=0),
        ):
            if way in split._loaded:
                balance.begin(way)
            else:
                split._begin(balance, split._load(way))
            assert split.way == way
            _check(split, model, range(4))
            assert balance.trial == way
        assert "no exchanges" in split.ran().notes[0]
        assert sum(way.kind == "single" for way in split._loaded) <= 2
    finally:
        split.close()


def test_it_looks_for_better_ways_while_frames_run(tmp_path: Path) -> None:
    """A clock that goes quicker, so that looking comes often: whatever is chosen, answers are right."""
    model = _model(tmp_path)
    split = _split(model, lambda: time.perf_counter_ns() * 200, parts=3)
    try:
        for _ in range(2000):
            _check(split, model, range(2))
            if any(way.kind == "single" for way in split._loaded):
                break
        _check(split, model, range(50))
        assert any(way.kind == "single" for way in split._loaded)
        assert split.ran().notes[-1].startswith("divided by measured times")
        assert split.peak_bytes
    finally:
        split.close()
    split.close()


def test_closed_while_it_loads(tmp_path: Path) -> None:
    model = _model(tmp_path)
    split = _split(model)
    balance = split._balance
    assert balance is not None
    _check(split, model, range(3))
    split._choose(balance, {Way("split", ((0.75, 0.25),)): -1.0}, time.perf_counter_ns())
    assert split._loading is not None
    pids = split.pids
    split.close()
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    with pytest.raises(EngineFailure, match="closed"):
        _check(split, model, range(1))


def test_frames_beside_a_load_say_nothing_of_their_way(tmp_path: Path) -> None:
    model, go_on, step = _model(tmp_path), threading.Event(), 1_000_000
    now = 0

    def clock() -> int:
        nonlocal now
        now += step
        return now

    split = _split(model, clock)
    balance = split._balance
    assert balance is not None and balance.trial is None

    def refused() -> Any:
        go_on.wait()
        raise EngineFailure("no memory")

    try:
        before = balance.mean_ns()
        split._loading = search.Background(refused)
        step *= 3
        _check(split, model, range(30))
        assert balance.mean_ns() == before
    finally:
        go_on.set()
        split.close()


def test_a_pause_between_frames_is_nobody_wanting_the_core(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who thinks so sleeps instead of looking, and loses a little in each exchange."""
    now, worked = 0, 0
    clock_of = SimpleNamespace(perf_counter_ns=lambda: now, process_time_ns=lambda: worked)
    monkeypatch.setattr(run, "time", clock_of)
    pipe = os.pipe()
    clock = Clock(mmap.mmap(-1, mmap.PAGESIZE), 0, 0, [pipe], lambda: None)
    looking = clock._look_ns

    def frame(number: int, pause_ns: int, taken_ns: int) -> bool:
        nonlocal now, worked
        now += pause_ns
        clock.begin(number, 1, [])
        now, worked = now + 10_000_000 + taken_ns, worked + 10_000_000
        clock.adapt()
        return clock._look_ns == looking

    try:
        assert all(frame(number, 20_000_000, 0) for number in range(5))
        assert not frame(5, 0, 20_000_000)
    finally:
        clock.close()
        for end in pipe:
            os.close(end)


def test_who_was_kept_waiting_looks_again_later_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside somebody who wants the core all the time: a frame that is slept through tells nothing of it."""
    now, worked = 0, 0
    clock_of = SimpleNamespace(perf_counter_ns=lambda: now, process_time_ns=lambda: worked)
    monkeypatch.setattr(run, "time", clock_of)
    pipe = os.pipe()
    clock = Clock(mmap.mmap(-1, mmap.PAGESIZE), 0, 0, [pipe], lambda: None)
    looking = clock._look_ns

    def looks(frames: int, others: bool) -> list[bool]:
        nonlocal now, worked
        found = []
        for number in range(frames):
            clock.begin(number, 1, [])
            found.append(clock._look_ns == looking)
            # Who looks all the time gets half of it.
            now, worked = now + 10_000_000, worked + (5_000_000 if others and found[-1] else 10_000_000)
            clock.adapt()
        return found

    try:
        busy = looks(1000, others=True)
        assert busy[0] and sum(busy) < 15
        between = np.diff(np.flatnonzero(busy))
        assert between[0] < 10 and (np.diff(between) >= 0).all() and between[-1] > 100
        assert all(looks(1000, others=False)[200:])
    finally:
        clock.close()
        for end in pipe:
            os.close(end)


def test_a_way_that_cannot_be_loaded_changes_nothing(tmp_path: Path) -> None:
    model = _model(tmp_path)
    split = _split(model)
    balance = split._balance
    assert balance is not None
    try:
        _check(split, model, range(3))

        def fail() -> Any:
            raise EngineFailure("no memory")

        while balance.trial is not None:
            _check(split, model, range(1))
        before = balance.current
        split._loading = search.Background(fail)
        _check(split, model, range(40))
        assert balance.current == before
        assert split.ran().notes[-1] == "not changed any more: no memory"
    finally:
        split.close()


def test_given_shares_stay(tmp_path: Path) -> None:
    model = _model(tmp_path)
    placement = parse_placement(f"split({ORT}=0.7, {ORT}=0.3)")
    split = Split([(model, ())] * 2, placement, now=lambda: time.perf_counter_ns() * 200)
    try:
        _check(split, model, range(60))
        assert list(split._loaded) == [Way("split", ((0.7, 0.3),))]
    finally:
        split.close()
