"""Operator times drawn together, and what targets do with operators."""

from __future__ import annotations

from edgewise.analyze import breakdown, support
from edgewise.core.text import parse_placement
from edgewise.core.types import OpTime, Profile, Scenario, Task, Verdict
from edgewise.report.sentences import sentence


def test_times_are_summed_by_kind_and_never_scaled() -> None:
    ops = (
        OpTime("a", "Conv", (10, 12, 11)),
        OpTime("b", "Conv", (30, 31, 900)),
        OpTime("c", "Relu", (1, 1, 1)),
        OpTime("fused", "Relu", ()),
    )
    task = Task("digest", parse_placement("ort:cpu@1"), Scenario())
    section = breakdown.run(Profile(task, "m", (), ops, (100, 100, 100), (120, 120, 120), "net"))
    assert [row[:3] for row in section.rows] == [("Conv", 2, 42.0), ("Relu", 1, 1.0)]
    assert section.rows[0][3:] == (0.42, "b", 31.0)
    said = sentence(section.findings[0])
    assert "43 % of an inference" in said and "1.20×" in said and "3 runs" in said


def test_the_worst_that_befell_an_operator_is_shown() -> None:
    verdicts = {
        "ort": [Verdict("a", "Conv", "supported"), Verdict("b", "Conv", "supported"), Verdict("c", "Odd", "supported")],
        "ncnn:vulkan.0": [
            Verdict("a", "Conv", "supported", "vulkan.0"),
            Verdict("b", "Conv", "falls back", "cpu", "too wide"),
            Verdict("c", "Odd", "rejected", "", "no such layer"),
        ],
    }
    section = support.run(verdicts)
    assert section.rows == (("Conv", 2, "supported", "falls back (1 of 2)"), ("Odd", 1, "supported", "rejected"))
    assert [finding.code for finding in section.findings] == ["operator_falls_back", "operator_rejected"]
    assert "Odd (c) is rejected: no such layer" in sentence(section.findings[1])
