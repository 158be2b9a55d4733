"""Analyses on planted answers: a winner, a tie, foreign load, several modes, wrong outputs, nothing to find."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from planted import machine, measured, noise

from edgewise.analyze import compare, summary
from edgewise.analyze._figures import figures
from edgewise.analyze.evidence import Evidence
from edgewise.analyze.scaling import Point
from edgewise.core.types import Agreement, Measurement, Ran, Section

WRONG = Agreement(1.0, 1.0, 0.5, 1.0, 0, 10)


def run(*measurements: Measurement, bound: tuple[float, float] | None = None) -> Section:
    return summary.run(Evidence(machines={"m": machine()}, measurements=measurements), bound=bound)


def column(section: Section, name: str) -> list[Any]:
    place = [each.name for each in section.columns].index(name)
    return [row[place] for row in section.rows]


def rows_of(section: Section) -> list[dict[str, Any]]:
    names = [each.name for each in section.columns]
    return [dict(zip(names, row, strict=True)) for row in section.rows]


def codes(section: Section) -> set[str]:
    return {finding.code for finding in section.findings}


def test_a_clear_winner_is_named_and_nothing_else_is_said() -> None:
    section = run(measured("ort:cpu", noise(2e6)), measured("openvino:cpu", noise(1e6, seed=1)))
    assert [row[0] for row in section.rows] == [1, 2]
    assert column(section, "target")[0] == "openvino:cpu"
    assert column(section, "vs_best")[1] == pytest.approx(2.0, rel=0.02)
    assert codes(section) == {"fastest"}


def test_what_cannot_be_told_apart_shares_a_rank() -> None:
    rows = [
        measured("ort:cpu", noise(1e6)),
        measured("openvino:cpu", noise(1.0005e6, seed=1)),
        measured("null", noise(2e6)),
    ]
    section = run(*rows)
    assert [row[0] for row in section.rows] == [1, 1, 3]
    assert "tie" in codes(section)


def test_a_row_has_every_statistic() -> None:
    samples = noise(1e6, n=2000)
    (row,) = rows_of(run(measured("ort:cpu", samples)))
    whole = samples.astype(np.int64)
    assert (row["runs"], row["min"], row["max"]) == (2000, whole.min(), whole.max())
    assert (row["mean"], row["std"]) == pytest.approx((whole.mean(), whole.std(ddof=1)))
    for name, p in (("p90", 0.9), ("p99", 0.99)):
        low, high = row[f"{name}_interval"]
        assert low <= row[name] <= high and low < 1e6 * np.exp(0.02 * {0.9: 1.2816, 0.99: 2.3263}[p]) < high
    # `bench` shows what a terminal has room for; a report shows all.
    section = run(measured("ort:cpu", samples))
    assert [each.name for each in summary.brief(section).columns] == [c.name for c in section.columns][:16]
    assert len(summary.brief(section).rows[0]) == 16


def test_distributions_are_drawn_fastest_first_and_wrong_ones_say_so() -> None:
    section = run(
        measured("ort:cpu", noise(3e6)),
        measured("openvino:cpu", noise(1e6, n=5000)),
        measured("null", noise(2e6), agreement=WRONG),
        measured("ort:cpu", noise(1e6), scenario="offline"),
    )
    (chart,) = section.charts
    assert (chart.kind, chart.y.unit) == ("spread", "ns")
    assert [series.name for series in chart.series] == ["openvino:cpu", "null (wrong answers)", "ort:cpu"]
    drawn = np.array(chart.series[0].y)
    whole = noise(1e6, n=5000).astype(np.int64)
    # Of many samples evenly spaced ones are drawn: the ends and the quantiles stay.
    assert drawn.size == 1000 and (drawn.min(), drawn.max()) == (whole.min(), whole.max())
    assert np.quantile(drawn, [0.1, 0.5, 0.99]) == pytest.approx(np.quantile(whole, [0.1, 0.5, 0.99]), rel=1e-3)


def test_what_is_not_drawn_is_told() -> None:
    many = [measured(f"ort:cpu@{i + 1}", noise(1e6, n=64)) for i in range(26)]
    section = run(*many, *(measured("ort:cpu", noise(1e6, n=64), label=f"net{i}") for i in range(9)))
    assert len(section.charts) == 8 and len(section.charts[0].series) == 24
    told = {(f["drawn"], f["of"], f["noun"]) for f in section.findings if f.code == "drawn"}
    assert told == {(24, 26, "targets"), (8, 10, "models")}


def test_machines_are_not_ranked_together() -> None:
    section = run(measured("ort:cpu", noise(1e6)), measured("ort:cpu", noise(2e6), on="other"))
    assert column(section, "rank") == [1, 1]
    assert column(section, "machine") == ["machine m", "other"]


def test_versions_of_an_engine_are_told_apart() -> None:
    old, new = measured("ort:cpu", noise(2e6)), measured("ort:cpu", noise(1e6))
    section = run(replace(old, versions=(("ort", "1.0"),)), replace(new, versions=(("ort", "1.1"),)))
    assert column(section, "target") == ["ort:cpu (ort 1.1)", "ort:cpu (ort 1.0)"]


def test_percentiles_need_their_samples() -> None:
    section = run(measured("ort:cpu", noise(1e6, n=100)))
    row = dict(zip((c.name for c in section.columns), section.rows[0], strict=True))
    assert row["p90"] is not None
    assert row["p99"] is None


def test_foreign_load_is_a_caution() -> None:
    section = run(measured("ort:cpu", noise(1e6), foreign=0.2))
    (finding,) = [f for f in section.findings if f.code == "foreign_load"]
    assert finding.level == "caution"
    assert finding["share"] == pytest.approx(0.2, rel=0.01)


def test_a_caution_names_the_load_it_is_about() -> None:
    busy = [measured("ort:cpu", noise(1e6), foreign=0.2, scenario=text) for text in ("single", "single(batch=8)")]
    cautions = [finding.about for finding in run(*busy).findings if finding.code == "foreign_load"]
    assert cautions == ["net on ort:cpu", "net on ort:cpu, single(batch=8)"]
    longer = measured("ort:cpu", noise(1e6), foreign=0.2, scenario="single(max_s=60)")
    cautions = [finding.about for finding in run(busy[0], longer).findings if finding.code == "foreign_load"]
    assert cautions == ["net on ort:cpu, single", "net on ort:cpu, single(max_s=60)"]


def test_one_measurement_has_one_throughput() -> None:
    """The table, a ranking by time per item and a sweep over batches show the same number."""
    slow_tail = noise(1e6, 1000) * np.random.default_rng(0).choice([1.0, 4.0], 1000, p=[0.9, 0.1])
    m = measured("ort:cpu", slow_tail)
    row = figures(m)
    assert column(run(m), "per_s") == [pytest.approx(1e9 / row.per_item.estimate)]
    assert Point(row, 1, None).per_s[1] == pytest.approx(row.per_s) == pytest.approx(1e3 / 1.3, rel=0.05)


def test_three_modes_are_told() -> None:
    random = np.random.default_rng(3)
    samples = noise(1e6, 2000) * random.choice([1.0, 1.5, 2.5], 2000, p=[0.6, 0.25, 0.15])
    section = run(measured("ort:cpu", samples))
    (finding,) = [f for f in section.findings if f.code == "several_modes"]
    assert str(finding["modes"]).count(":") == 3


def test_a_drifting_series_gets_no_interval() -> None:
    section = run(measured("ort:cpu", noise(1e6) * np.linspace(1, 1.3, 1000)))
    assert "drifting" in codes(section)
    assert column(section, "interval") == [None]
    assert column(section, "p90_interval") == [None]


def test_wrong_answers_are_a_problem_in_fp32_and_a_caution_below() -> None:
    exact = run(measured("ort:cpu:fp32", noise(1e6), agreement=WRONG))
    rough = run(measured("ort:cpu:int8", noise(1e6), agreement=WRONG))
    assert [f.level for f in exact.findings if f.code == "disagrees"] == ["problem"]
    assert [f.level for f in rough.findings if f.code == "disagrees"] == ["caution"]


def test_wrong_answers_never_win() -> None:
    overflow = Agreement(0.0, 1.0, 0.0, 1.0, 3, 10)
    rows = [
        measured("ort:cpu:fp32", noise(3e6)),
        measured("openvino:cpu:fp32", noise(1e6), agreement=WRONG),
        measured("openvino:cpu:fp16", noise(1e6), agreement=overflow),
        measured("openvino:cpu:int8", noise(2e6), agreement=WRONG),
    ]
    section = run(*rows)
    assert list(zip(column(section, "rank"), column(section, "target"), strict=True)) == [
        (1, "openvino:cpu:int8"),
        (2, "ort:cpu:fp32"),
        (None, "openvino:cpu:fp32"),
        (None, "openvino:cpu:fp16"),
    ]
    assert next(f for f in section.findings if f.code == "fastest")["target"] == "openvino:cpu:int8"


def test_models_of_one_name_are_not_ranked_together() -> None:
    first = measured("ort:cpu", noise(1e6))
    other = replace(first, task=replace(first.task, subject="another"))
    assert [row[0] for row in run(first, other).rows] == [1, 1]


def test_a_precision_that_changes_nothing_is_doubted_unless_the_engine_vouches() -> None:
    same = Agreement(0.0, 1.0, 0.0, 1.0, 0, 10)
    doubted = run(measured("openvino:cpu:bf16", noise(1e6), agreement=same))
    vouched = run(measured("openvino:cpu:bf16", noise(1e6), agreement=same, ran=Ran(("CPU",), (("bf16", 9),))))
    assert [f.level for f in doubted.findings if f.code == "same_answer"] == ["caution"]
    assert [f.level for f in vouched.findings if f.code == "same_answer"] == ["note"]


def test_throughput_scenarios_are_ranked_by_throughput() -> None:
    rows = [
        measured("ort:cpu", noise(1e6), scenario="offline"),
        measured("openvino:cpu", noise(0.5e6, seed=1), scenario="offline"),
    ]
    section = run(*rows)
    assert column(section, "target")[0] == "openvino:cpu"
    assert "most" in codes(section)


def test_nothing_measured_is_an_empty_section() -> None:
    assert run().rows == ()
    assert codes(run()) == {"absent"}
    nothing = replace(measured("ort:cpu", noise(1e6)), rounds=())
    assert run(nothing).rows == () and run(nothing).charts == ()
    assert [each["target"] for each in rows_of(run(nothing, measured("null", noise(1e6))))] == ["null"]


def test_comparison_finds_a_planted_ratio() -> None:
    a = measured("ort:cpu", noise(1.3e6, 2000), starts=5)
    b = measured("openvino:cpu", noise(1e6, 2000, seed=1), starts=5)
    section = compare.run([a, b])
    (finding,) = [f for f in section.findings if f.code == "faster"]
    assert finding["ratio"] == pytest.approx(1.3, rel=0.01)
    assert section.rows[1][5] == "faster"
    same = compare.run([a, measured("openvino:cpu", noise(1.3e6, 2000, seed=2), starts=5)])
    assert "no_difference" in codes(same)


def test_a_bound_is_certified_refuted_or_left_open() -> None:
    row = [measured("ort:cpu", noise(1e6, 5000))]
    verdicts = {
        bound: next(f.code for f in run(*row, bound=(0.9, bound)).findings if "bound_ns" in dict(f.values))
        for bound in (1.1e6, 1.026e6, 0.9e6)
    }
    assert verdicts == {1.1e6: "certified", 1.026e6: "undecided", 0.9e6: "refuted"}
