"""Operator times drawn together, and the account that adds up to the plain latency."""

from __future__ import annotations

import numpy as np
import pytest

from edgewise.analyze import breakdown
from edgewise.analyze.accounting import account
from edgewise.analyze.evidence import Evidence
from edgewise.analyze.kinds import OTHER, kind
from edgewise.core.profile import OpTime, Profile, Spans
from edgewise.core.records import from_json, to_json
from edgewise.core.text import parse_placement
from edgewise.core.types import Scenario, Section, Task
from edgewise.report.sentences import remedy, sentence


def planted(
    ops: tuple[OpTime, ...],
    *,
    plain: int = 1000,
    instrumented: int = 1000,
    engine: int | None = None,
    executor: int | None = None,
    averaged: bool = False,
    target: str = "ort:cpu@1",
    runs: int = 3,
) -> Profile:
    task = Task("digest", parse_placement(target), Scenario())
    spans = Spans(
        () if engine is None else (engine,) * runs, () if executor is None else (executor,) * runs, averaged=averaged
    )
    return Profile(task, "m", (), ops, (plain,) * runs, (instrumented,) * runs, "net", spans)


def conv(*times: int, runs: int = 3, operator: str = "Conv") -> tuple[OpTime, ...]:
    return tuple(OpTime(f"{operator.lower()}_{i}", operator, (ns,) * runs) for i, ns in enumerate(times))


def drawn(*profiles: Profile) -> Section:
    return breakdown.run(Evidence(profiles=profiles))


def table(section: Section) -> dict[str, dict[str, object]]:
    names = [column.name for column in section.columns]
    rows = [dict(zip(names, row, strict=True)) for row in section.rows]
    return {str(row["operator"] or row["kind"]): row for row in rows}


def said(section: Section) -> dict[str, str]:
    return {finding.code: sentence(finding) for finding in section.findings}


def test_nothing_profiled_is_said_with_the_command_that_gets_it() -> None:
    for evidence in (Evidence(), Evidence(profiles=(planted((OpTime("fused", "Relu", ()),)),))):
        for section in (breakdown.run(evidence), breakdown.layers(evidence)):
            assert not section.rows and not section.charts
            assert [finding.code for finding in section.findings] == ["absent"]
            assert str(remedy(section.findings[0])).startswith("edgewise profile")


def test_times_are_summed_by_type_and_never_scaled() -> None:
    ops = (*conv(600, 200), *conv(90, operator="Relu"), OpTime("fused", "Relu", ()))
    section = drawn(planted(ops, plain=1000, instrumented=1300, engine=1200, executor=1150))
    rows = table(section)
    assert [rows["Conv"][name] for name in ("kind", "count", "time", "share")] == ["convolution", 2, 800, 0.8]
    assert [rows["Conv"][name] for name in ("slowest", "slowest_time")] == ["conv_0", 600]
    assert (rows["Relu"]["count"], rows["Relu"]["time"]) == (1, 90)
    assert "80 % in 2 Conv; the slowest is conv_0 with 60 %" in said(section)["time_goes_to"]


def test_operators_at_ninety_percent_leave_a_residue_that_is_named() -> None:
    """Planted: 900 of 1000 in operators, 70 between them, 20 crossing, 10 in the session; looking costs nothing."""
    section = drawn(planted(conv(500, 400), engine=980, executor=970))
    rows = table(section)
    assert [rows[f"({name})"]["time"] for name in ("dispatch", "copy", "other", "looking", "latency")] == [
        70, 20, 10, 0, 1000,
    ]  # fmt: skip
    words = said(section)
    assert "add up to 90 % of an inference" in words["profiled"]
    assert "looking costs nothing that can be seen" in words["profiled"]
    assert words["does_not_add_up"] == (
        "operators add up to 10.0 % less than an inference takes; besides them: dispatch 7.0 %, copy 2.0 %, other 1.0 %"
    )


def test_what_looking_costs_is_a_term_of_its_own() -> None:
    section = drawn(planted(conv(600, 410), plain=1000, instrumented=1100, engine=1080, executor=1070))
    rows = table(section)
    parts = [row["time"] for name, row in rows.items() if name != "(latency)"]
    assert sum(float(str(part)) for part in parts) == rows["(latency)"]["time"] == 1000
    assert rows["(looking)"]["time"] == -100
    words = said(section)
    assert "1.10× as long, 50.0 ns for each of 2 operators" in words["profiled"]
    assert "does_not_add_up" not in words


def test_an_engine_that_tells_no_spans_has_everything_else_in_other() -> None:
    rows = table(drawn(planted(conv(950))))
    assert rows["(dispatch)"]["time"] is None and rows["(copy)"]["time"] is None
    assert rows["(other)"]["time"] == 50


def test_parts_add_up_exactly_and_interrupted_runs_are_not_among_them() -> None:
    """Noise on every part of every run, and one pair in ten interrupted for a long time."""
    draw, runs = np.random.default_rng(3), 200
    parts = draw.integers(90_000, 110_000, (9, runs))
    parts[4, ::10] += 5_000_000
    executor = parts.sum(axis=0) + draw.integers(5_000, 15_000, runs)
    engine = executor + draw.integers(1_000, 3_000, runs)
    instrumented = engine + draw.integers(1_000, 3_000, runs)
    plain = draw.integers(900_000, 950_000, runs)
    profile = Profile(
        Task("digest", parse_placement("ort:cpu@1"), Scenario()), "m", (),
        tuple(OpTime(f"op_{i}", "Conv", tuple(map(int, part))) for i, part in enumerate(parts)),
        tuple(map(int, plain)), tuple(map(int, instrumented)), "net",
        Spans(tuple(map(int, engine)), tuple(map(int, executor))),
    )  # fmt: skip
    assert from_json(Profile, to_json(profile)) == profile
    found = account(profile)
    assert found.dispatch_ns is not None and found.copy_ns is not None
    terms = (found.operators_ns, found.dispatch_ns, found.copy_ns, found.other_ns, -found.looking_ns)
    assert sum(terms) == pytest.approx(found.plain_ns)
    assert sum(found.times_ns) == pytest.approx(found.operators_ns)
    assert found.operators_ns == pytest.approx(900_000, rel=0.01)
    assert found.sum_ratio_range is not None
    low, high = found.sum_ratio_range
    assert low < 900 / 925 < high and high - low < 0.02
    assert found.adds_up


def test_times_that_are_means_are_set_beside_means() -> None:
    """Every fourth run takes five times as long, plain or not; the engine tells only what operators took on average."""
    plain = (1000, 1000, 1000, 5000) * 10
    mean = sum(plain) // len(plain)
    ops = (OpTime("conv", "Convolution", (mean * 96 // 100,) * 40),)
    task = Task("digest", parse_placement("openvino:cpu@1"), Scenario())
    profile = Profile(task, "m", (), ops, plain, plain, "net", Spans(plain, plain, averaged=True))
    found = account(profile)
    assert found.sum_ratio == pytest.approx(0.96)
    assert found.plain_ns == mean and found.dispatch_ns == mean * 4 // 100
    assert "times_are_means" in said(drawn(profile))


def test_a_sum_that_noise_leaves_open_is_not_called_wrong() -> None:
    draw = np.random.default_rng(5)
    plain = tuple(map(int, draw.integers(500, 1500, 20)))
    task = Task("digest", parse_placement("ort:cpu@1"), Scenario())
    section = drawn(Profile(task, "m", (), (OpTime("conv", "Conv", (900,) * 20),), plain, (1000,) * 20, "net"))
    assert "cannot be told" in said(section)["sum_is_uncertain"]
    assert "does_not_add_up" not in said(section)


def test_targets_are_bars_of_one_chart_in_kinds_both_have() -> None:
    ort = planted((*conv(800), *conv(100, operator="ReorderOutput")), engine=980, executor=970)
    openvino = planted(
        (*conv(700, operator="Convolution"), *conv(50, operator="Odd")),
        target="openvino:cpu@1",
        engine=990,
        executor=990,
    )
    (chart,) = drawn(ort, openvino).charts
    assert chart.kind == "stack"
    bars = {series.name: series.y for series in chart.series}
    assert chart.series[0].x == ("ort:cpu@1", "openvino:cpu@1")
    assert bars["convolution"] == (800, 700)
    assert bars["layout"] == (100, 0) and bars[OTHER] == (0, 50)
    assert bars["(dispatch)"] == (70, 240)
    assert [series.name for series in chart.series][-3:] == ["(dispatch)", "(copy)", "(other)"]


def test_names_of_all_engines_have_one_kind() -> None:
    assert {kind(name) for name in ("Conv", "FusedConv", "Convolution", "ConvolutionDepthWise")} == {"convolution"}
    assert kind("NchwcThing") == OTHER


def test_layers_are_the_slowest_or_all_in_the_order_they_ran() -> None:
    evidence = Evidence(profiles=(planted(conv(100, 500, 300)),))
    position = [column.name for column in breakdown.LAYER_COLUMNS].index("position")
    assert [row[position] for row in breakdown.layers(evidence, most=2).rows] == [2, 3]
    assert [row[position] for row in breakdown.layers(evidence, most=None).rows] == [1, 2, 3]
