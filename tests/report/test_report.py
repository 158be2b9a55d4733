"""What people read: numbers, sentences, tables that show what varies."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from rich.console import Console

import edgewise.analyze
from edgewise.core.types import Column, Finding, Section
from edgewise.report import format, terminal
from edgewise.report.sentences import sentence, sentences


@pytest.mark.parametrize(
    ("ns", "shown"),
    [
        (0, "0 ns"),
        (950, "950 ns"),
        (64_512, "64.5 µs"),
        (2_320_000, "2.32 ms"),
        (9_540_000_000, "9.54 s"),
        (123_456_789, "123 ms"),
    ],
)
def test_times(ns: int, shown: str) -> None:
    assert format.time(ns) == shown


def test_ranges_share_unit_and_places() -> None:
    assert format.time_range(8_400_000, 10_100_000) == "[8.4, 10.1] ms"
    assert format.time_range(990, 1_010) == "[0.99, 1.01] µs"


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (None, "ns", "n/a"),
        (1.3149, "ratio", "1.31×"),
        ((1.28, 1.349), "ratio_range", "[1.28, 1.35]"),
        (104_857_600, "bytes", "100 MiB"),
        (12_345, "count", "12,345"),
        (0.0, "error", "exact"),
        (2.3e-7, "error", "2e-07"),
        (float("inf"), "error", "not finite"),
        (413.2, "rate", "413/s"),
    ],
)
def test_cells(value: object, unit: str, shown: str) -> None:
    assert format.cell(value, unit) == shown


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (0.0042, "ratio", "0.00420×"),
        (3414.28, "ratio", "3,414×"),
        (1.5, "ratio", "1.50×"),
        (53.000000000000007, "amount", "53.0"),
        (530.0, "amount", "530"),
        (999, "amount", "999"),
    ],
)
def test_no_figure_is_hidden_and_none_invented(value: object, unit: str, shown: str) -> None:
    assert format.cell(value, unit) == shown


def test_every_finding_an_analysis_can_make_has_its_sentence() -> None:
    source = "".join(path.read_text() for path in Path(edgewise.analyze.__file__).parent.glob("*.py"))
    made = set(re.findall(r'(?:found|Finding)\(\s*"(\w+)"', source)) | {"faster", "no_difference"}
    made |= {"certified", "refuted", "undecided"}
    assert made == set(sentences())


def test_the_sentence_of_a_comparison() -> None:
    values = (("baseline", "a"), ("other", "b"), ("ratio", 1.3123), ("low", 1.28), ("high", 1.35), ("detectable", 0.35))
    assert sentence(Finding("faster", "note", "b", values)) == "b is 1.31× [1.28, 1.35] as fast as a"
    values = (("baseline", "a"), ("other", "b"), ("detectable", 0.0199))
    assert "no difference above 2.0 % detectable" in sentence(Finding("no_difference", "note", "b", values))


def test_a_small_ratio_is_not_a_zero() -> None:
    values = (("machine", "a"), ("beside", "b"), ("geomean", 0.018), ("count", 2))
    ends = (("least", 0.0025), ("least_of", "x"), ("most", 0.127), ("most_of", "y"))
    said = sentence(Finding("machine_throughput", "note", "a", values + ends))
    assert said.startswith("a has 0.018")
    assert said.endswith("from 0.00250× (x) to 0.13× (y)")


def drawn(section: Section, width: int = 200, keep: tuple[str, ...] = ()) -> str:
    out = io.StringIO()
    terminal.draw(section, Console(file=out, width=width), keep=keep)
    return out.getvalue()


def test_a_table_shows_what_varies() -> None:
    columns = (Column("model"), Column("target"), Column("p50", "ns"))
    text = drawn(Section("t", columns, (("net", "a", 1), ("net", "b", 2))))
    assert "model" not in text and "net" not in text
    assert "target" in text and "p50" in text
    assert "net" in drawn(Section("t", columns, (("net", "a", 1), ("net", "b", 2))), keep=("model",))


def test_a_narrow_terminal_loses_the_spare_columns_first() -> None:
    columns = (Column("target"), Column("p50", "ns"), Column("memory", "bytes", 2), Column("load", "ns", 3))
    rows = (("ort:cpu:fp32@1", 1_000_000, 1 << 20, 5_000_000), ("ort:cpu:fp32@2", 2_000_000, 1 << 20, 6_000_000))
    assert "load" in drawn(Section("t", columns, rows), 100)
    narrow = drawn(Section("t", columns, rows), 36)
    assert "memory" in narrow and "load" not in narrow
    assert "memory" not in drawn(Section("t", columns, rows), 26)
    assert "ort:cpu:fp32@1" in drawn(Section("t", columns, rows), 26)


def test_brackets_are_text() -> None:
    text = drawn(Section("t", (Column("reason"),), (("bad node [/conv1/Conv]",), ("[red]",))))
    assert "[/conv1/Conv]" in text and "[red]" in text


def test_the_same_finding_of_many_is_said_once_about_the_worst() -> None:
    findings = tuple(Finding("foreign_load", "caution", f"net on t{i}", (("share", i / 10),)) for i in (1, 5, 3))
    text = drawn(Section("t", (Column("a"),), (), findings))
    assert text.count("other processes") == 1
    assert "t5 and 2 more" in text and "50 %" in text


def test_which_way_wins_is_said_of_each_use_and_load() -> None:
    """Another way may be best there."""
    best = {"net, latency": "ort:cpu@2", "net, latency, 1 competing": "ort:cpu@1#1"}
    findings = tuple(Finding("way_alone", "note", about, (("placement", way),)) for about, way in best.items())
    text = drawn(Section("t", (Column("a"),), (), findings), 200)
    assert all(f"{about}: one target is best, {way}" in text for about, way in best.items())
