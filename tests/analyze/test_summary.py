"""Analyses on planted answers: a winner, a tie, foreign load, several modes, wrong outputs, nothing to find."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from edgewise.analyze import compare, summary
from edgewise.core.text import parse_placement, parse_scenario
from edgewise.core.types import Agreement, Measurement, Ran, Round, Start, Task

CPU = Ran(("CPU",))
GOOD = Agreement(1e-6, 1.0, 1e-7, 1.0, 0, 1000)


def measured(
    target: str,
    samples: np.ndarray[tuple[int], np.dtype[np.float64]],
    *,
    scenario: str = "single",
    foreign: float = 0.0,
    agreement: Agreement | None = GOOD,
    ran: Ran = CPU,
    starts: int = 1,
) -> Measurement:
    """Samples cut into rounds of 50, dealt to `starts` processes."""
    parts = np.array_split(samples, max(starts, samples.size // 50))
    rounds = tuple(
        Round(
            i * starts // len(parts),
            False,
            0,
            int(part.sum()),
            tuple(int(s) for s in part),
            cpu_ns=int(part.sum()),
            foreign_ns=int(part.sum() * 2 * foreign),
            stolen_ns=0,
            peak_bytes=1 << 26,
        )
        for i, part in enumerate(parts)
    )
    start = Start(0, 10**7, 10**7, 1 << 25, ran, agreement, cpus=2)
    task = Task("digest", parse_placement(target), parse_scenario(scenario))
    return Measurement(task, "m", (), "", (start,) * starts, rounds, True, "net")


def noise(centre: float, n: int = 1000, seed: int = 0) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return centre * np.exp(np.random.default_rng(seed).normal(0, 0.02, n))


def codes(section: object) -> set[str]:
    return {finding.code for finding in section.findings}  # type: ignore[attr-defined]


def test_a_clear_winner_is_named_and_nothing_else_is_said() -> None:
    section = summary.run([measured("ort:cpu", noise(2e6)), measured("openvino:cpu", noise(1e6, seed=1))])
    assert [row[0] for row in section.rows] == [1, 2]
    assert section.rows[0][3] == "openvino:cpu"
    assert section.rows[1][6] == pytest.approx(2.0, rel=0.02)
    assert codes(section) == {"fastest"}


def test_what_cannot_be_told_apart_shares_a_rank() -> None:
    rows = [
        measured("ort:cpu", noise(1e6)),
        measured("openvino:cpu", noise(1.0005e6, seed=1)),
        measured("null", noise(2e6)),
    ]
    section = summary.run(rows)
    assert [row[0] for row in section.rows] == [1, 1, 3]
    assert "tie" in codes(section)


def test_percentiles_need_their_samples() -> None:
    section = summary.run([measured("ort:cpu", noise(1e6, n=100))])
    row = dict(zip((c.name for c in section.columns), section.rows[0], strict=True))
    assert row["p90"] is not None
    assert row["p99"] is None


def test_foreign_load_is_a_caution() -> None:
    section = summary.run([measured("ort:cpu", noise(1e6), foreign=0.2)])
    (finding,) = [f for f in section.findings if f.code == "foreign_load"]
    assert finding.level == "caution"
    assert finding["share"] == pytest.approx(0.2, rel=0.01)


def test_three_modes_are_told() -> None:
    random = np.random.default_rng(3)
    samples = noise(1e6, 2000) * random.choice([1.0, 1.5, 2.5], 2000, p=[0.6, 0.25, 0.15])
    section = summary.run([measured("ort:cpu", samples)])
    (finding,) = [f for f in section.findings if f.code == "several_modes"]
    assert str(finding["modes"]).count(":") == 3


def test_a_drifting_series_gets_no_interval() -> None:
    section = summary.run([measured("ort:cpu", noise(1e6) * np.linspace(1, 1.3, 1000))])
    assert "drifting" in codes(section)
    assert section.rows[0][5] is None


def test_wrong_answers_are_a_problem_in_fp32_and_a_caution_below() -> None:
    wrong = Agreement(1.0, 1.0, 0.5, 1.0, 0, 10)
    exact = summary.run([measured("ort:cpu:fp32", noise(1e6), agreement=wrong)])
    rough = summary.run([measured("ort:cpu:int8", noise(1e6), agreement=wrong)])
    assert [f.level for f in exact.findings if f.code == "disagrees"] == ["problem"]
    assert [f.level for f in rough.findings if f.code == "disagrees"] == ["caution"]


def test_wrong_answers_never_win() -> None:
    wrong = Agreement(1.0, 1.0, 0.5, 1.0, 0, 10)
    overflow = Agreement(0.0, 1.0, 0.0, 1.0, 3, 10)
    rows = [
        measured("ort:cpu:fp32", noise(3e6)),
        measured("openvino:cpu:fp32", noise(1e6), agreement=wrong),
        measured("openvino:cpu:fp16", noise(1e6), agreement=overflow),
        measured("openvino:cpu:int8", noise(2e6), agreement=wrong),
    ]
    section = summary.run(rows)
    assert [(row[0], row[3]) for row in section.rows] == [
        (1, "openvino:cpu:int8"),
        (2, "ort:cpu:fp32"),
        (None, "openvino:cpu:fp32"),
        (None, "openvino:cpu:fp16"),
    ]
    assert next(f for f in section.findings if f.code == "fastest")["target"] == "openvino:cpu:int8"


def test_models_of_one_name_are_not_ranked_together() -> None:
    first = measured("ort:cpu", noise(1e6))
    other = replace(first, task=replace(first.task, subject="another"))
    assert [row[0] for row in summary.run([first, other]).rows] == [1, 1]


def test_a_precision_that_changes_nothing_is_doubted_unless_the_engine_vouches() -> None:
    same = Agreement(0.0, 1.0, 0.0, 1.0, 0, 10)
    doubted = summary.run([measured("openvino:cpu:bf16", noise(1e6), agreement=same)])
    vouched = summary.run(
        [measured("openvino:cpu:bf16", noise(1e6), agreement=same, ran=Ran(("CPU",), (("bf16", 9),)))]
    )
    assert [f.level for f in doubted.findings if f.code == "same_answer"] == ["caution"]
    assert [f.level for f in vouched.findings if f.code == "same_answer"] == ["note"]


def test_throughput_scenarios_are_ranked_by_throughput() -> None:
    rows = [
        measured("ort:cpu", noise(1e6), scenario="offline"),
        measured("openvino:cpu", noise(0.5e6, seed=1), scenario="offline"),
    ]
    section = summary.run(rows)
    assert section.rows[0][3] == "openvino:cpu"
    assert "most" in codes(section)


def test_nothing_measured_is_an_empty_section() -> None:
    assert summary.run([]).rows == ()


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
        bound: next(f.code for f in summary.run(row, bound=(0.9, bound)).findings if "bound_ns" in dict(f.values))
        for bound in (1.1e6, 1.026e6, 0.9e6)
    }
    assert verdicts == {1.1e6: "certified", 1.026e6: "undecided", 0.9e6: "refuted"}
