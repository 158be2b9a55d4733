"""What targets do with operators, on planted verdicts: a fragmented graph, a contradiction, nothing to find."""

from __future__ import annotations

from dataclasses import replace

from edgewise.analyze import support
from edgewise.analyze.evidence import Evidence
from edgewise.core.support import Partition, Support
from edgewise.core.text import parse_placement
from edgewise.core.types import Verdict
from edgewise.report.sentences import sentence

WHOLE = Support(
    "digest",
    "net",
    parse_placement("ort:cpu"),
    "m",
    (),
    (Verdict("a", "Conv", "supported"), Verdict("b", "Conv", "supported"), Verdict("c", "Odd", "supported")),
    (Partition("cpu", ("a", "b", "c"), 100, 0),),
    ("cpu",),
    1e-7,
)
CUT = Support(
    "digest",
    "net",
    parse_placement("ncnn:vulkan.0"),
    "m",
    (),
    (
        Verdict("a", "Conv", "supported", "vulkan.0"),
        Verdict("b", "Conv", "falls back", "cpu", "too wide"),
        Verdict("c", "Odd", "rejected", "", "no such layer"),
    ),
    (
        Partition("vulkan.0", ("a",), 60, 0),
        Partition("cpu", ("b",), 40, 4096),
        Partition("elsewhere", ("c",), 0, 1024),
    ),
    failure="no such layer",
)


def cells(found: Support) -> dict[str, object]:
    section = support.run(Evidence(supports=(found,)))
    return dict(zip((column.name for column in section.columns), section.rows[0], strict=True))


def codes(found: Support) -> list[str]:
    return [finding.code for finding in support.run(Evidence(supports=(found,))).findings]


def test_the_worst_that_befell_an_operator_is_shown() -> None:
    section = support.operators([WHOLE, CUT])
    assert section.rows == (("Conv", 2, "supported", "falls back (1 of 2)"), ("Odd", 1, "supported", "rejected"))


def test_a_fragmented_graph_is_counted_and_said() -> None:
    row = cells(CUT)
    assert (row["partitions"], row["largest"], row["crossing"]) == (3, 0.6, 5120)
    assert row["unsupported"] == 2 / 3
    assert row["tried"] == "did not run, as told"
    section = support.run(Evidence(supports=(CUT,)))
    assert [f.code for f in section.findings] == ["fragmented", "operator_falls_back", "operator_rejected"]
    said = sentence(section.findings[0])
    assert "3 pieces" in said and "60 %" in said and "5.00 KiB" in said
    assert "Odd (c) is rejected: no such layer" in sentence(section.findings[2])
    assert [(s.name, s.y) for s in section.charts[0].series] == [
        ("supported", (1 / 3,)),
        ("falls back", (1 / 3,)),
        ("rejected", (1 / 3,)),
    ]


def test_nothing_to_find_is_one_note() -> None:
    assert codes(WHOLE) == ["all_supported"]
    assert cells(WHOLE)["tried"] == "runs, as told"


def test_an_engine_that_contradicts_itself_is_told_on() -> None:
    assert "contradicted" in codes(replace(WHOLE, ran_on=None, failure="it died"))
    assert "contradicted" in codes(replace(CUT, ran_on=("vulkan.0", "cpu"), failure=None))
    assert "contradicted" in codes(replace(WHOLE, ran_on=("gpu", "cpu")))


def test_what_was_not_counted_is_missing_and_not_zero() -> None:
    unknown = replace(CUT, partitions=(Partition("a", ("a",)), Partition("b", ("b", "c"), None, 10)))
    assert cells(unknown)["crossing"] is None and cells(unknown)["largest"] is None


def test_without_verdicts_the_section_says_how_to_get_them() -> None:
    section = support.run(Evidence())
    assert section.rows == () and section.findings[0]["command"] == "edgewise support MODEL --save lab.db"
