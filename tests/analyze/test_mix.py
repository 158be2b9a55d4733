"""Networks with deadlines: shares of hits, who is better, what nobody could do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from planted import machine

from edgewise.analyze import mix as analysis
from edgewise.analyze.evidence import Evidence
from edgewise.core.mix import Block, Job, Mix, Network, Served, Service
from edgewise.core.records import from_json, to_json
from edgewise.core.text import parse_target
from edgewise.core.types import Finding, Section
from edgewise.report.content import compose
from edgewise.report.sentences import sentence

MS = 1_000_000
TARGETS = (parse_target("ort:cpu:fp32@1#0"), parse_target("ort:cpu:fp32@1#1"))
Fate = Callable[[int], str]


def block(number: int, scheduler: str, fates: Sequence[Fate], jobs: int = 40) -> Block:
    """`fates[network](place)` is hit, late, dropped or left of each of its jobs."""
    served = []
    for network, fate in enumerate(fates):
        for place in range(jobs):
            job = Job(len(served), network, place * 10 * MS, place * 10 * MS + 20 * MS)
            what = fate(place + number)
            if what in ("hit", "late"):
                took = (15 if what == "hit" else 30) * MS
                served.append(Served(job, 0, job.arrival_ns, job.arrival_ns + took))
            else:
                served.append(Served(job, dropped=what == "dropped"))
    return Block(number, scheduler, tuple(served), (300 * MS, 100 * MS), 400 * MS)


def mixed(fates: dict[str, Sequence[Fate]], *, blocks: int = 6, rate_hz: float = 50.0, takes_ms: float = 5.0) -> Mix:
    count = len(next(iter(fates.values())))
    networks = tuple(Network(f"net{n}", f"digest {n}", rate_hz, 20 * MS) for n in range(count))
    services = tuple(
        Service(n, device, (round(takes_ms * MS),) * 9) for n in range(count) for device in range(len(TARGETS))
    )
    played = tuple(block(number, name, own) for number in range(blocks) for name, own in fates.items())
    return Mix("cams", "m", (), networks, TARGETS, tuple(fates), 0, services, played, played)


def section(mix: Mix) -> Section:
    return analysis.run(Evidence(machines={"m": machine()}, mixes=(mix,)))


def found(mix: Mix) -> dict[str, Finding]:
    return {finding.code: finding for finding in section(mix).findings}


def always(what: str) -> Fate:
    return lambda place: what


def every(n: int, what: str) -> Fate:
    return lambda place: what if place % n == 0 else "hit"


def test_shares_are_those_planted() -> None:
    whole = section(mixed({"fifo": [every(4, "late"), every(2, "dropped")]}))
    names = [column.name for column in whole.columns]
    rows = {row["network"]: row for row in (dict(zip(names, each, strict=True)) for each in whole.rows)}
    assert (rows["net0"]["jobs"], rows["net0"]["hits"], rows["net0"]["late"]) == (240, 0.75, 60)
    assert (rows["net1"]["hits"], rows["net1"]["dropped"], rows["net1"]["late"]) == (0.5, 120, 0)
    assert (rows["all"]["hits"], rows["all"]["predicted"], rows["all"]["busy"]) == (0.625, 0.625, 0.5)
    low, high = rows["net0"]["interval"]  # type: ignore[misc]
    assert low < 0.75 < high
    assert rows["net0"]["p50"] == 15 * MS and rows["net0"]["p95"] == 30 * MS


def test_who_hits_more_is_told_by_blocks() -> None:
    told = found(mixed({"fifo": [every(3, "late")], "band": [every(9, "late")], "latency-aware": [always("hit")]}))
    assert told["mix_better"]["scheduler"] == "latency-aware" and "mix_level" not in told
    said = sentence(told["mix_better"])
    assert "latency-aware has 100.00 %" in said and "against" in said


def test_a_tie_is_a_tie() -> None:
    told = found(mixed({"fifo": [every(8, "late")], "band": [lambda place: "late" if place % 8 == 3 else "hit"]}))
    assert "mix_better" not in told and told["mix_level"]["others"] in ("fifo", "band")


def test_one_block_compares_nothing_and_one_scheduler_needs_nothing() -> None:
    assert "mix_once" in found(mixed({"fifo": [every(3, "late")], "band": [always("hit")]}, blocks=1))
    assert "mix_alone" in found(mixed({"fifo": [every(3, "late")]}, blocks=1))


def test_overload_and_what_is_hopeless_are_told() -> None:
    assert found(mixed({"fifo": [always("hit")]}))["mix_load"]["load"] == pytest.approx(0.125, rel=0.02)
    over = found(mixed({"fifo": [always("hit")]}, rate_hz=200.0, takes_ms=16.0))["mix_overload"]
    assert over["load"] == pytest.approx(1.6, rel=0.02) and over["most"] == pytest.approx(1 / 1.6, rel=0.02)
    hopeless = found(mixed({"fifo": [always("late")]}, takes_ms=25.0))
    assert "mix_hopeless" in hopeless and "mix_overload" not in hopeless


def test_a_network_that_is_given_up_is_named() -> None:
    told = found(mixed({"band": [always("hit"), always("dropped")]}))
    assert told["mix_given_up"]["network"] == "net1"


def test_a_simulation_that_is_off_a_lost_process_and_a_target_that_cannot() -> None:
    good = mixed({"fifo": [always("hit"), always("hit")]})
    reason = Service(1, 1, (), "it has no such operator")
    worse = replace(
        good,
        predicted=mixed({"fifo": [every(2, "late"), always("hit")]}).blocks,
        lost=("the process of ort died by SIGKILL",),
        services=(*good.services[:-1], reason),
    )
    told = found(worse)
    assert {"mix_unlike", "mix_lost", "mix_elsewhere"} <= set(told)
    assert told["mix_lost"].level == "problem"
    assert "no such operator" in sentence(told["mix_elsewhere"])
    assert not {"mix_unlike", "mix_lost", "mix_elsewhere"} & set(found(good))


def test_it_comes_back_from_json_and_joins_the_report() -> None:
    mix = mixed({"fifo": [every(3, "late")], "band": [always("hit")]})
    assert from_json(Mix, to_json(mix)) == mix
    report = compose(Evidence(machines={"m": machine()}, mixes=(mix,)))
    (drawn,) = [each for each in report.drawn if each.analysis == "mix"]
    assert drawn.section.charts and drawn.section.rows
    assert analysis.run(Evidence()).findings[0].code == "absent"
