"""Levels of latency on planted answers: three at random, two in phases, one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from planted import machine, measured, noise

from edgewise.analyze import modes
from edgewise.analyze.evidence import Evidence
from edgewise.core.types import Measurement, Section
from edgewise.report.sentences import sentence


def run(*measurements: Measurement) -> Section:
    return modes.run(Evidence(machines={"m": machine()}, measurements=measurements))


def column(section: Section, name: str) -> list[Any]:
    place = [each.name for each in section.columns].index(name)
    return [row[place] for row in section.rows]


def test_three_modes_are_found_with_their_shares() -> None:
    samples = noise(1e6, 2000) * np.random.default_rng(3).choice([1.0, 1.5, 2.5], 2000, p=[0.6, 0.25, 0.15])
    section = run(measured("ort:cpu", samples), measured("openvino:cpu", noise(1e6)))
    assert column(section, "target") == ["ort:cpu"] * 3
    assert column(section, "centre") == pytest.approx([1e6, 1.5e6, 2.5e6], rel=0.01)
    assert column(section, "vs_fastest") == pytest.approx([1.0, 1.5, 2.5], rel=0.01)
    assert column(section, "share") == pytest.approx([0.6, 0.25, 0.15], abs=0.03)
    assert set(column(section, "alternation")) == {"mixed"}
    whole, each = section.findings
    assert sentence(whole) == "1 of 2 latencies have several modes"
    assert "3 modes" in sentence(each) and each.about == "net on ort:cpu"
    # Changing from run to run, medians of rounds would show nothing.
    assert [chart.kind for chart in section.charts] == ["spread"]
    assert [series.name for series in section.charts[0].series] == ["ort:cpu"]


def test_phases_are_drawn_over_time() -> None:
    level = np.repeat([1.0, 1.4, 1.0, 1.4, 1.0, 1.4, 1.0, 1.4], 250)
    section = run(measured("ort:cpu", noise(1e6, 2000) * level))
    assert set(column(section, "alternation")) == {"phases"}
    assert column(section, "dwell")[0] == pytest.approx(250, rel=0.1)
    assert [chart.kind for chart in section.charts] == ["spread", "line"]
    (line,) = section.charts[1].series
    assert len(line.x) == len(line.y) == 40 and line.x[0] == 0
    assert list(line.x) == sorted(line.x)  # type: ignore[type-var]
    assert np.array(line.y) == pytest.approx(1e6 * level[::50], rel=0.02)


def test_a_new_process_begins_a_new_line() -> None:
    level = np.repeat([1.0, 1.4] * 4, 250)
    section = run(measured("ort:cpu", noise(1e6, 2000) * level, starts=2))
    (line,) = section.charts[1].series
    assert line.y.count(None) == 1 and line.y[20] is None


def test_one_mode_is_nothing_to_draw_and_told() -> None:
    section = run(measured("ort:cpu", noise(1e6)), measured("openvino:cpu", noise(2e6)))
    assert section.rows == () and section.charts == ()
    assert [sentence(finding) for finding in section.findings] == ["every latency has one mode"]
    short = run(measured("ort:cpu", noise(1e6)), measured("openvino:cpu", noise(2e6, 12)))
    assert "1 of 2 measurements have fewer than 20 runs" in sentence(short.findings[0])


def test_nothing_measured_is_told() -> None:
    nothing = replace(measured("ort:cpu", noise(1e6)), rounds=())
    for section in (run(), run(nothing)):
        assert [sentence(finding) for finding in section.findings] == ["nothing was measured"]
