"""Four criteria on planted answers: who wins each, what cannot be told apart, and a winner that is not steady."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from planted import machine, measured, noise

from edgewise.analyze import ranking
from edgewise.analyze._figures import figures
from edgewise.analyze.evidence import Evidence
from edgewise.core.energy import Energy
from edgewise.core.types import Agreement, Finding, Measurement, Section
from edgewise.report.sentences import sentence

WRONG = Agreement(1.0, 1.0, 0.5, 1.0, 0, 10)
CRITERIA = ranking.CRITERIA


def run(*measurements: Measurement) -> Section:
    return ranking.run(Evidence(machines={"m": machine()}, measurements=measurements))


def rows(section: Section) -> dict[str, dict[str, Any]]:
    names = [column.name for column in section.columns]
    found = [dict(zip(names, row, strict=True)) for row in section.rows]
    return {row["target"]: row for row in found}


def places(section: Section, criterion: str) -> dict[str, int | None]:
    return {target: row[criterion] for target, row in rows(section).items()}


def one(section: Section, code: str) -> Finding:
    (found,) = [finding for finding in section.findings if finding.code == code]
    return found


def metered(uj: int, runs: int = 1000) -> tuple[Energy, ...]:
    return (Energy("rapl", "package 0", 0, runs, 10**9, uj * runs, uj * runs // 100, 0, 0),)


def test_the_fastest_need_not_be_the_steadiest_and_is_told_so() -> None:
    jumpy = noise(1e6, 2000) * np.random.default_rng(1).choice([1.0, 1.6], 2000, p=[0.7, 0.3])
    section = run(measured("ort:cpu", jumpy), measured("openvino:cpu", noise(2e6, 2000, seed=2)))
    assert places(section, "latency") == {"ort:cpu": 1, "openvino:cpu": 2}
    assert places(section, "stability") == {"ort:cpu": 2, "openvino:cpu": 1}
    found = one(section, "quick_but_uneven")
    assert (found["quickest"], found["steadiest"]) == ("ort:cpu", "openvino:cpu")
    assert found["quickest_spread"] == pytest.approx(1.6, rel=0.05)
    said = sentence(found)
    assert "not the steadiest" in said and "ort:cpu" in said and "2.00 ms" in said
    assert rows(section)["ort:cpu"]["modes"] == 2
    assert rows(section)["ort:cpu"]["main_mode"] == pytest.approx(0.7, abs=0.03)


def test_equal_ones_tie_in_everything() -> None:
    section = run(*(measured(f"ort:cpu@{i + 1}", noise(1e6, 1000 + 200 * i, seed=i)) for i in range(3)))
    for criterion in CRITERIA:
        assert set(places(section, criterion).values()) == {1}, criterion
    assert {finding.code for finding in section.findings} == {"ranked"}
    assert sentence(one(section, "ranked")).count("all alike") == 4


def test_a_slow_phase_costs_consistency_not_stability_alone() -> None:
    drifting = noise(1e6, 2000) * np.linspace(1, 1.25, 2000)
    section = run(measured("ort:cpu", drifting), measured("openvino:cpu", noise(1e6, 2000, seed=3)))
    assert places(section, "consistency") == {"openvino:cpu": 1, "ort:cpu": 2}
    row = rows(section)["ort:cpu"]
    assert row["drift"] == pytest.approx(0.25, abs=0.05)
    # A line from 1 to 1.25 in ten steps has a standard deviation of 0.076, relative to its middle 0.067.
    assert row["unevenness"] == pytest.approx(0.067, rel=0.1)
    assert rows(section)["openvino:cpu"]["drift"] is None


def test_the_scatter_of_a_few_slow_runs_is_not_unevenness() -> None:
    """A slow target has few runs in each part, so their medians scatter more by chance alone."""
    wins = 0
    for seed in range(40):
        section = run(
            measured("ort:cpu", noise(1e6, 6000, seed=2 * seed)),
            measured("openvino:cpu", noise(1e8, 64, seed=2 * seed + 1)),
        )
        wins += places(section, "consistency") != {"ort:cpu": 1, "openvino:cpu": 1}
    assert wins <= 3


def test_runs_of_unequal_length_are_not_compared_for_consistency() -> None:
    """Where the level wanders, more of that is seen in a longer run of the very same thing."""
    wander = 1 + 0.1 * np.sin(np.linspace(0, np.pi / 2, 4000))
    long = measured("ort:cpu", noise(1e6, 4000) * wander)
    short = [measured(f"ort:cpu@{i}", noise(1e6, 1000 + 100 * i, seed=i) * wander[: 1000 + 100 * i]) for i in (1, 2)]
    section = run(long, *short)
    assert places(section, "consistency") == {"ort:cpu": None, "ort:cpu@1": 1, "ort:cpu@2": 1}
    alone = run(long, short[0])
    assert set(places(alone, "consistency").values()) == {None}
    assert "most even from part to part of the run: n/a" in sentence(one(alone, "ranked"))


def test_a_few_rounds_do_not_make_throughput_certain() -> None:
    """Sixty runs fit one round: its time per item has no spread, the runs have."""
    shaky = figures(measured("ort:cpu", noise(1e6, 60, spread=0.4)))
    assert shaky.per_item.high > 1.1 * shaky.per_item.estimate > 1.2 * shaky.per_item.low


def test_two_bursts_prove_nothing_about_consistency_and_four_do() -> None:
    for bursts, expected in ((2, 1), (4, 2)):
        level = np.ones(2000)
        for burst in range(bursts):
            level[400 * burst : 400 * burst + 200] = 1.5
        section = run(measured("ort:cpu", noise(1e6, 2000) * level), measured("openvino:cpu", noise(1e6, 2000, seed=1)))
        assert places(section, "consistency") == {"ort:cpu": expected, "openvino:cpu": 1}


def test_efficiency_is_cpu_time_where_no_meter_was_read() -> None:
    section = run(measured("ort:cpu@1", noise(2e6)), measured("ort:cpu@2", noise(1.5e6, seed=1), cores=1.9))
    assert places(section, "efficiency") == {"ort:cpu@1": 1, "ort:cpu@2": 2}
    assert rows(section)["ort:cpu@2"]["core_time"] == pytest.approx(1.9 * 1.5e6, rel=0.02)
    found = one(section, "ranked")
    assert (found["by"], found["efficiency"]) == ("core_ns", "ort:cpu@1")
    assert "no meter" in sentence(found)


def test_efficiency_is_energy_where_it_was_read_of_all() -> None:
    slow = measured("ort:cpu", noise(2e6), energies=metered(500))
    section = run(measured("openvino:cpu", noise(1e6), energies=metered(900)), slow)
    assert places(section, "efficiency") == {"openvino:cpu": 2, "ort:cpu": 1}
    found = one(section, "ranked")
    assert (found["by"], found["source"], found["efficiency_figure"]) == ("joules", "rapl", pytest.approx(500))
    section = run(measured("openvino:cpu", noise(1e6)), slow)
    assert one(section, "ranked")["by"] == "core_ns"
    assert rows(section)["ort:cpu"]["energy"] == pytest.approx(500)


def test_cpu_time_says_nothing_about_a_gpu() -> None:
    section = run(measured("torch:cuda.0", noise(1e6)), measured("ort:cpu", noise(2e6)))
    assert places(section, "efficiency") == {"torch:cuda.0": None, "ort:cpu": None}
    assert "efficiency: n/a" in sentence(one(section, "ranked"))


def test_wrong_answers_have_no_place_and_take_none() -> None:
    section = run(
        measured("ort:cpu", noise(2e6)),
        measured("openvino:cpu", noise(1e6), agreement=WRONG),
        measured("null", noise(3e6)),
    )
    assert list(rows(section)) == ["ort:cpu", "null", "openvino:cpu"]
    assert [rows(section)["openvino:cpu"][criterion] for criterion in CRITERIA] == [None] * 4
    assert places(section, "latency")["ort:cpu"] == 1


def test_each_machine_model_and_load_is_ranked_for_itself() -> None:
    section = run(
        measured("ort:cpu", noise(1e6)),
        measured("openvino:cpu", noise(2e6)),
        measured("ort:cpu", noise(9e6), scenario="single(batch=8)"),
        measured("ort:cpu", noise(5e6), label="other"),
        measured("ort:cpu", noise(5e6), on="elsewhere"),
    )
    assert [row[4] for row in section.rows] == [1, 2, 1, 1, 1]
    assert one(section, "ranked").about == "net, single, machine m"
    assert len(section.charts) == 4
    assert section.charts[0].series[0].x == ("ort:cpu", "openvino:cpu")


def test_bars_carry_intervals_and_leave_them_out_where_there_are_none() -> None:
    section = run(
        measured("ort:cpu", noise(1e6)), measured("openvino:cpu", noise(2e6, 2000) * np.linspace(1, 1.5, 2000))
    )
    (bars,) = section.charts[0].series
    assert bars.low[0] < bars.y[0] < bars.high[0]  # type: ignore[operator]
    assert (bars.low[1], bars.high[1]) == (None, None)


def test_few_runs_have_few_places() -> None:
    section = run(measured("ort:cpu", noise(1e6, 20)), measured("openvino:cpu", noise(2e6, 20)))
    assert places(section, "latency") == {"ort:cpu": 1, "openvino:cpu": 2}
    assert set(places(section, "stability").values()) == {None}
    assert set(places(section, "consistency").values()) == {None}
    assert "steadiest, by p90/p10: n/a" in sentence(one(section, "ranked"))


def test_nothing_to_rank() -> None:
    nothing = replace(measured("ort:cpu", noise(1e6)), rounds=())
    for section in (run(), run(nothing)):
        assert [finding.code for finding in section.findings] == ["absent"]
        assert section.rows == () and section.charts == ()
    alone = run(measured("ort:cpu", noise(1e6)))
    assert [row[4] for row in alone.rows] == [1] and alone.findings == ()
