"""Dealt streams: who did how much, and whether it was worth it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from planted import machine, measured, noise

from edgewise.analyze import dealt
from edgewise.analyze.evidence import Evidence
from edgewise.core.types import Measurement, Section
from edgewise.report.sentences import sentence

QUICK, SLOW = "ort:cpu:fp32@1#0", "ort:cpu:fp32@1#1"
TOGETHER = f"deal({QUICK}, {SLOW})"


def stream(per_s: float) -> Measurement:
    """1,000 frames, four of five by the first."""
    found = measured(TOGETHER, noise(5e6), scenario="offline")
    rounds = [
        replace(r, elapsed_ns=int(len(r.samples_ns) / per_s * 1e9), shares=(len(r.samples_ns) * 4 // 5, 10))
        for r in found.rounds
    ]
    return replace(found, rounds=tuple(rounds))


def section(per_s: float, *singles: Measurement) -> Section:
    alone = singles or (measured(QUICK, noise(5e6)), measured(SLOW, noise(20e6, seed=1)))
    return dealt.run(Evidence(machines={"m": machine()}, measurements=(*alone, stream(per_s))))


def rows(found: Section) -> dict[object, dict[str, object]]:
    names = [column.name for column in found.columns]
    return {row["target"]: row for row in (dict(zip(names, each, strict=True)) for each in found.rows)}


def test_shares_and_efficiency_are_those_planted() -> None:
    found = rows(section(240.0))
    assert found[QUICK]["share"] == pytest.approx(0.8)
    assert found[SLOW]["frames"] == 200
    assert found["together"]["per_s"] == pytest.approx(240, rel=0.01)
    # 200 and 50 frames a second alone.
    assert found["together"]["efficiency"] == pytest.approx(240 / 250, rel=0.02)
    assert found["together"]["delay_p95"] == pytest.approx(5.2e6, rel=0.03)


@pytest.mark.parametrize(("per_s", "code"), [(240.0, "deal_helps"), (201.0, "deal_equal"), (150.0, "deal_harms")])
def test_it_is_judged_against_the_best_alone(per_s: float, code: str) -> None:
    (finding,) = section(per_s).findings
    assert finding.code == code
    assert finding.level == ("caution" if code == "deal_harms" else "note")
    assert dict(finding.values)["best"] == QUICK


def test_without_the_others_alone_nothing_is_judged() -> None:
    found = section(240.0, measured(QUICK, noise(5e6)))
    assert not found.findings
    assert rows(found)["together"]["efficiency"] is None


def test_that_it_does_harm_is_told_by_any_of_its_targets() -> None:
    (finding,) = section(150.0, measured(QUICK, noise(5e6))).findings
    assert finding.code == "deal_harms" and dict(finding.values)["efficiency"] is None
    assert "0.75× the best alone" in sentence(finding) and "added up" not in sentence(finding)


def test_who_rests_is_told() -> None:
    found = stream(240.0)
    note = f"{SLOW}{dealt.RESTS}with it and its like the stream is 0.90 times as fast"
    started = replace(found.starts[-1], ran=replace(found.starts[-1].ran, notes=(note,)))
    evidence = Evidence(machines={"m": machine()}, measurements=(replace(found, starts=(started,)),))
    (finding,) = dealt.run(evidence).findings
    assert finding.code == "deal_rests" and note in sentence(finding)


def test_without_a_stream_there_is_nothing() -> None:
    found = dealt.run(Evidence(machines={"m": machine()}, measurements=(measured(QUICK, noise(5e6)),)))
    assert not found.rows


def test_of_stages_nobody_has_a_share() -> None:
    found = measured(f"stages({QUICK}, {SLOW})", noise(5e6), scenario="offline")
    rounds = [replace(r, elapsed_ns=int(len(r.samples_ns) / 210 * 1e9)) for r in found.rounds]
    alone = (measured(QUICK, noise(5e6)), measured(SLOW, noise(20e6, seed=1)))
    evidence = Evidence(machines={"m": machine()}, measurements=(*alone, replace(found, rounds=tuple(rounds))))
    drawn = dealt.run(evidence)
    for name in (QUICK, SLOW):
        assert rows(drawn)[name]["frames"] is rows(drawn)[name]["share"] is None
        assert rows(drawn)[name]["alone"]
    assert rows(drawn)["together"]["frames"] == len(found.samples_ns)
    assert rows(drawn)["together"]["efficiency"] == pytest.approx(210 / 250, rel=0.02)
    (finding,) = drawn.findings
    assert finding.code == "deal_helps"
