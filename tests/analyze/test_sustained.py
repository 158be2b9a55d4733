"""Minutes-long runs with a planted course: a throttle step, a slow drift, a steady one, an order that turns."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from planted import machine, measured

from edgewise.analyze import sustained
from edgewise.analyze.evidence import Evidence
from edgewise.core.types import Finding, Measurement, Section
from edgewise.report.sentences import sentence

S = 1_000_000_000
LATENCY_NS = 20_000_000


def lasting(seconds: float, slow_down: Any = lambda at_s: 1.0, seed: int = 0, spread: float = 0.02) -> NDArray[Any]:
    """Latencies of a run of this length whose time per run is multiplied by `slow_down(seconds since the start)`."""
    draw = np.random.default_rng(seed).normal(0, spread, int(seconds * 2e9 / LATENCY_NS))
    samples, now = [], 0.0
    for d in draw:
        samples.append(LATENCY_NS * slow_down(now) * np.exp(d))
        now += samples[-1] / 1e9
        if now >= seconds:
            break
    return np.asarray(samples)


def throttle(at_s: float) -> float:
    return 1.0 if at_s < 60 else 1 / 0.8


def drawn(*measurements: Measurement, **options: Any) -> Section:
    return sustained.run(Evidence(machines={"m": machine()}, measurements=measurements), **options)


def column(section: Section, name: str) -> list[Any]:
    index = [c.name for c in section.columns].index(name)
    return [row[index] for row in section.rows]


def said(section: Section, code: str) -> Finding:
    [finding] = [f for f in section.findings if f.code == code]
    sentence(finding)
    return finding


def codes(section: Section) -> set[str]:
    return {f.code for f in section.findings}


def clocked(m: Measurement, before_hz: int, after_hz: int) -> Measurement:
    rounds = [
        replace(
            r,
            clock_hz=before_hz if r.started_ns < 60 * S else after_hz,
            temperature_mc=60_000 if r.started_ns < 60 * S else 95_000,
        )
        for r in m.rounds
    ]
    return replace(m, rounds=tuple(rounds))


def test_a_throttle_step_has_its_place_and_size() -> None:
    section = drawn(measured("a:cpu", lasting(180, throttle)))
    found = said(section, "speed_fell")
    assert found["change"] == pytest.approx(-0.2, abs=0.01)
    assert isinstance(found["at_ns"], int) and abs(found["at_ns"] - 60 * S) < 4 * S
    assert "20 % slower from" in sentence(found) and "neither clock nor temperature" in sentence(found)
    assert column(section, "course") == ["1 step"]
    assert column(section, "speed") == pytest.approx([-0.2], abs=0.01)
    assert column(section, "last_minute")[0] == pytest.approx(40, rel=0.02)


def test_the_clock_and_the_temperature_stand_beside_the_step() -> None:
    section = drawn(clocked(measured("a:cpu", lasting(180, throttle)), 3_000_000_000, 2_400_000_000))
    found = said(section, "throttled")
    text = sentence(found)
    assert "the clock fell from 3.00 GHz to 2.40 GHz" in text and "60 °C before and 95 °C after" in text
    assert found.level == "caution"
    assert column(section, "hottest") == [95_000]
    assert [chart.y.unit for chart in section.charts] == ["rate", "hz"]


def test_a_step_beside_busy_neighbours_says_so() -> None:
    m = measured("a:cpu", lasting(180, throttle))
    rounds = tuple(replace(r, foreign_ns=r.elapsed_ns if r.started_ns >= 60 * S else 0) for r in m.rounds)
    text = sentence(said(drawn(replace(m, rounds=rounds)), "speed_fell"))
    assert "others took 50 % of the machine" in text


def test_a_slow_drift_is_no_step() -> None:
    section = drawn(measured("a:cpu", lasting(180, lambda at_s: 1 + 0.15 * at_s / 180)))
    found = said(section, "speed_drifted")
    assert found["change"] == pytest.approx(1 / 1.15 - 1, abs=0.02)
    assert column(section, "course") == ["drift"]
    assert not codes(section) & {"speed_fell", "throttled", "speed_held"}


def test_a_steady_run_is_said_to_hold() -> None:
    section = drawn(measured("a:cpu", lasting(180)))
    assert codes(section) == {"speed_held"}
    assert said(section, "speed_held")["spread"] == pytest.approx(0, abs=0.02)
    assert column(section, "speed") == pytest.approx([0], abs=0.01)


def test_a_restless_run_is_not_said_to_hold() -> None:
    restless = lasting(180, lambda at_s: 1.0 + 0.4 * (int(at_s / 3) % 3 == 0))
    assert codes(drawn(measured("a:cpu", restless))) == {"speed_varied"}


def test_recovery_is_a_step_too() -> None:
    section = drawn(measured("a:cpu", lasting(180, lambda at_s: 1.3 if 60 <= at_s < 120 else 1.0)))
    assert said(section, "speed_rose")["change"] == pytest.approx(0.3, abs=0.02)
    assert said(section, "speed_fell")["change"] == pytest.approx(1 / 1.3 - 1, abs=0.02)


def test_an_order_that_turns_is_told_with_both_figures() -> None:
    quick = measured("quick:cpu", lasting(180, lambda at_s: 0.9 * (1.0 if at_s < 60 else 1.5)))
    steady = measured("steady:cpu", lasting(180, seed=1))
    section = drawn(quick, steady)
    found = said(section, "order_turned")
    assert (found["ahead"], found["behind"]) == ("quick:cpu", "steady:cpu")
    assert found["first_ratio"] == pytest.approx(1 / 0.9, rel=0.02)
    assert found["last_ratio"] == pytest.approx(0.9 * 1.5, rel=0.02)
    assert column(section, "target") == ["steady:cpu", "quick:cpu"]
    assert column(section, "rank_first") == [2, 1] and column(section, "rank_last") == [1, 2]


def test_an_order_that_stays_and_one_that_blurs() -> None:
    steady = measured("steady:cpu", lasting(180, seed=1))
    slower = measured("slower:cpu", lasting(180, lambda _: 1.2))
    assert said(drawn(steady, slower), "order_held")["targets"] == 2
    ahead = measured("ahead:cpu", lasting(180, lambda at_s: 0.9 if at_s < 60 else 1.0))
    assert said(drawn(steady, ahead), "order_blurred")["ahead"] == "ahead:cpu"
    alike = measured("alike:cpu", lasting(180, seed=5))
    assert not codes(drawn(steady, alike)) & {"order_held", "order_turned", "order_blurred"}


def test_less_than_a_minute_says_what_to_type() -> None:
    short = measured("a:cpu", lasting(30))
    section = drawn(short)
    assert not section.rows and not section.charts
    assert said(section, "absent")["command"] == "edgewise bench MODEL --scenario 'single(min_s=180, max_s=180)'"
    assert drawn().findings[0].code == "absent"
    assert drawn(short, min_s=20).rows


def test_only_one_process_counts_as_a_run() -> None:
    # Two processes of 50 s: between them the device rested.
    assert "absent" in codes(drawn(measured("a:cpu", lasting(100), starts=2)))


def test_under_load_it_is_latency_that_counts() -> None:
    section = drawn(measured("a:cpu", lasting(180, throttle), scenario="server(rate_hz=10)"))
    assert said(section, "speed_fell")["change"] == pytest.approx(-0.2, abs=0.01)
    assert section.charts[0].y.unit == "ns"


def test_charts_have_a_line_for_each_target_of_a_model() -> None:
    runs = [measured(t, lasting(61), label=label) for t in ("a:cpu", "b:cpu") for label in ("net", "other")]
    section = drawn(*runs)
    assert [[s.name for s in chart.series] for chart in section.charts] == [["a:cpu", "b:cpu"]] * 2
    assert all(50 <= len(s.x) <= 60 for chart in section.charts for s in chart.series)
