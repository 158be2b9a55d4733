"""Charts as SVG: whatever comes, the drawing is well-formed, inside its paper, and leaves nothing out silently."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest
from gallery import BAR, CHARTS, GROUPED, LINE, NETS, SCATTER, SPREAD, STACK, TARGETS, samples

from edgewise.core.chart import Axis, Chart, Kind, Series
from edgewise.report import format, svg, tables
from edgewise.report.svg.colours import ramp
from edgewise.report.svg.scale import scale

SVG = "{http://www.w3.org/2000/svg}"
KINDS: tuple[Kind, ...] = ("bar", "stack", "line", "scatter", "spread")


def drawn(chart: Chart, **how: float | bool) -> ET.Element:
    """The drawing, read back; every number in it must be finite and near the paper."""
    text = svg.draw(chart, **how)  # type: ignore[arg-type]
    assert not re.search(r'[ ",](nan|inf)', text)
    return ET.fromstring(text)


def marks(root: ET.Element) -> list[str]:
    return [tip for g in root.iter(f"{SVG}g") if (tip := g.get("data-tip"))]


def texts(root: ET.Element) -> list[str]:
    return [element.text or "" for element in root.iter(f"{SVG}text")]


@pytest.mark.parametrize("wide", [svg.WIDE, svg.NARROW])
@pytest.mark.parametrize("chart", CHARTS, ids=lambda chart: chart.kind)
def test_every_kind_is_well_formed_and_stays_on_its_paper(chart: Chart, wide: float) -> None:
    for alone in (False, True):
        root = drawn(chart, wide=wide, alone=alone)
        left, top, across, down = map(float, (root.get("viewBox") or "").split())
        places = [float(e.get(name, "0")) for e in root.iter() for name in ("x", "cx", "x1") if e.get(name)]
        heights = [float(e.get(name, "0")) for e in root.iter() for name in ("y", "cy") if e.get(name)]
        assert left <= min(places) and max(places) <= left + across
        assert top <= min(heights) and max(heights) <= top + down
        assert root.find(f"{SVG}title") is not None and root.find(f"{SVG}desc") is not None


def test_each_value_has_a_mark_that_tells_it() -> None:
    assert marks(drawn(BAR)) == [
        "ort:cpu:fp32@1\np50: 5.20 ms\ninterval: [5.00, 5.50] ms",
        "openvino:cpu:int8@2\np50: 3.10 ms\ninterval: [3.00, 3.40] ms",
    ]
    assert len(marks(drawn(GROUPED))) == 12
    assert "of the whole: 78 %" in marks(drawn(STACK))[0]
    assert len(marks(drawn(LINE))) == 3 * 8 - 1
    point = next(tip for tip in marks(drawn(SCATTER)) if tip.startswith("resnet50"))
    assert point.split("\n") == [
        "resnet50",
        "networks",
        "p50: 9.50 ms",
        "top-1: 76.13 %",
        "FLOPs: 8.20 G",
        "parameters: 25.6 M",
    ]
    assert "samples: 2,000" in marks(drawn(SPREAD))[0]


def test_what_is_missing_leaves_a_gap_and_says_so() -> None:
    assert "n/a" in texts(drawn(BAR))
    pieces = [e.get("d") for e in drawn(LINE).iter(f"{SVG}path") if "curve" in e.get("class", "")]
    assert len(pieces) == 4  # the first of three lines is broken in two


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_one_point_and_no_series_at_all_can_be_drawn(kind: Kind) -> None:
    axes = Axis("x", "count"), Axis("y", "ns")
    for log in (False, True):
        y = replace(axes[1], log=log)
        for series in ((), (Series("a", (), ()),), (Series("a", (1,), (None,)),), (Series("a", (1,), (5.0,)),)):
            drawn(Chart(kind, "t", axes[0], y, series))
    drawn(Chart(kind, "t", Axis("x"), axes[1], (Series("a", ("one",), (0.0,)),)))


@pytest.mark.parametrize("kind", KINDS)
def test_huge_tiny_and_unreal_values_break_nothing(kind: Kind) -> None:
    values = (1e-300, 1e300, -1e300, float("inf"), float("nan"), 0.0, 1e18)
    names = tuple(f"name {i}" for i in range(len(values)))
    for log in (False, True):
        root = drawn(Chart(kind, "t", Axis("x"), Axis("y", "rate", log=log), (Series("a", names, values),)))
        assert all(len(text) < 150 for text in texts(root))


@pytest.mark.parametrize("kind", ["bar", "line", "scatter"])
def test_zero_has_no_place_on_a_logarithmic_axis_and_the_chart_says_so(kind: Kind) -> None:
    chart = Chart(kind, "t", Axis("x", "count"), Axis("y", "ns", log=True), (Series("a", (1, 2, 4), (0.0, 5.0, 50.0)),))
    root = drawn(chart)
    assert len(marks(root)) == 2
    assert any(text.startswith("1 not drawn") for text in texts(root))


def test_distributions_cost_the_same_however_many_samples() -> None:
    few = replace(SPREAD, series=(Series("a", (), samples(1e6, 2_000)),))
    many = replace(SPREAD, series=(Series("a", (), samples(1e6, 300_000)),))
    assert len(svg.draw(many)) < 2 * len(svg.draw(few)) < 20_000


def test_runs_beyond_the_axis_are_counted() -> None:
    chart = replace(SPREAD, series=(Series("a", (), (*samples(1e6, 1000), 9e7)),))
    assert any(t == "1 sample lies beyond the axis, the furthest at 90.0 ms" for t in texts(drawn(chart)))


def test_a_long_line_is_drawn_by_its_envelope() -> None:
    n = 50_000
    spike = tuple(9e6 if i == 31_111 else 1e6 + i % 7 for i in range(n))
    chart = Chart("line", "t", Axis("x", "count"), Axis("y", "ns"), (Series("a", tuple(range(n)), spike),))
    text = svg.draw(chart)
    assert len(text) < 60_000
    tops = {
        place.split(",")[1] for place in re.findall(r"[\d.]+,[\d.]+", text.split('class="curve"')[1].split("/>")[0])
    }
    assert len(tops) >= 2  # the spike is there


def test_strokes() -> None:
    root = drawn(SCATTER)
    curves = [e for e in root.iter(f"{SVG}path") if e.get("class", "").startswith("curve")]
    assert sum("dash" in e.get("class", "") for e in curves) == 2  # in the drawing and in its legend
    assert set(NETS) <= set(texts(root))


def test_long_names_lie_beside_their_bars_and_short_ones_stand_below() -> None:
    standing = Chart("bar", "t", Axis("x"), Axis("y", "ns"), (Series("a", ("ort", "mnn"), (1.0, 2.0)),))
    heights = {e.get("text-anchor") for e in drawn(standing).iter(f"{SVG}text") if e.text in ("ort", "mnn")}
    assert heights == {"middle"}
    beside = {e.get("text-anchor") for e in drawn(BAR).iter(f"{SVG}text") if e.text in TARGETS}
    assert beside == {"end"}


def test_a_bar_far_beyond_the_others_is_cut_and_says_so() -> None:
    names = tuple(f"a long name {i}" for i in range(8))
    values = (1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 490.0)
    root = drawn(Chart("bar", "t", Axis("target"), Axis("y", "ratio"), (Series("a", names, values),)))
    texts = [e.text for e in root.iter(f"{SVG}text")]
    assert "1 goes on beyond the axis" in texts and "490.00×" in texts
    cuts = [e for e in root.iter(f"{SVG}path") if e.get("class") == "cut"]
    assert len(cuts) == 1
    widths = [float(e.get("width", "0")) for e in root.iter(f"{SVG}rect") if e.get("class") == "fill"]
    assert widths[0] > max(widths) / 4


def test_an_interval_far_beyond_the_bars_leaves_something_to_see_of_them() -> None:
    names, values = tuple(f"a long name {i}" for i in range(4)), (1.0, 1.1, 1.2, 1.3)
    series = Series("a", names, values, (0.9,) * 4, (2.0, 2.0, 2.0, 1000.0))
    root = drawn(Chart("bar", "t", Axis("target"), Axis("y", "ratio"), (series,)))
    assert "1 goes on beyond the axis" in [e.text for e in root.iter(f"{SVG}text")]
    widths = [float(e.get("width", "0")) for e in root.iter(f"{SVG}rect") if e.get("class") == "fill"]
    assert min(widths) > 100


def test_figures_of_bars_stand_in_a_column_and_not_at_the_end_of_an_interval() -> None:
    root = drawn(BAR)
    places = {e.get("x") for e in root.iter(f"{SVG}text") if e.text in ("5.20 ms", "3.10 ms")}
    assert places == {"720"}


def test_names_of_points_stay_above_the_axis() -> None:
    series = Series("a", (1.0, 2.0), (0.0, 1.0), labels=("at the bottom", "at the top"))
    root = drawn(Chart("scatter", "t", Axis("x", "number"), Axis("y", "number"), (series,)))
    axis = next(e for e in root.iter(f"{SVG}path") if e.get("class") == "axis" and "," in (e.get("d") or ""))
    floor = max(float(pair.split(",")[1]) for pair in (axis.get("d") or "")[1:].split(" "))
    named = [float(e.get("y", "0")) for e in root.iter(f"{SVG}text") if e.text and e.text.startswith("at the")]
    assert len(named) == 2 and max(named) <= floor + 7  # where the labels of the axis begin


def test_hostile_text_is_escaped_and_control_characters_are_replaced() -> None:
    name = '<script>alert(1)</script> & "quotes" \x00\x1b'
    for chart in CHARTS:
        series = tuple(replace(s, name=name, labels=(name,) * len(s.labels)) for s in chart.series)
        root = drawn(replace(chart, title=name, series=series), alone=True)
        assert not list(root.iter(f"{SVG}script"))


def test_legend_entries_can_be_reached_by_keyboard() -> None:
    keys = [g for g in drawn(GROUPED).iter(f"{SVG}g") if "key" in g.get("class", "").split()]
    assert [key.get("tabindex") for key in keys] == ["0"] * 3
    assert {key.get("role") for key in keys} == {"button"}


@pytest.mark.parametrize(
    ("values", "axis", "labels"),
    [
        ((0, 5.2e6), Axis("", "ns"), ["0", "1 ms", "2 ms", "3 ms", "4 ms", "5 ms", "6 ms"]),
        ((1, 512), Axis("", "count", log=True), ["1", "4", "16", "64", "256"]),
        ((2e5, 4e7), Axis("", "ns", log=True), ["200 µs", "500 µs", "1 ms", "2 ms", "5 ms", "10 ms", "20 ms"]),
        ((0, 3 << 20), Axis("", "bytes"), ["0", "512 KiB", "1 MiB", "1.5 MiB", "2 MiB", "2.5 MiB", "3 MiB"]),
        ((0.55, 0.8), Axis("", "accuracy"), ["55 %", "60 %", "65 %", "70 %", "75 %", "80 %"]),
        ((0, 3), Axis("", "count"), ["0", "1", "2", "3"]),
        ((7, 7), Axis("", "number"), ["2", "4", "6", "8", "10", "12"]),
    ],
)
def test_ticks_are_round_in_their_unit(values: tuple[float, ...], axis: Axis, labels: list[str]) -> None:
    assert [label for _, label in scale(values, axis).ticks] == labels


def test_no_two_ticks_read_the_same() -> None:
    for low, high in ((10_050_000, 10_051_000), (1e9, 1e9 + 3), (0.1, 0.1000001)):
        for unit in ("ns", "share", "rate"):
            labels = [label for _, label in scale((low, high), Axis("", unit)).ticks]
            assert len(labels) == len(set(labels)) >= 2


def test_ticks_and_spans_of_format() -> None:
    assert format.tick(20_000_000, "ns") == "20 ms"
    assert format.tick(8, "text") == "8" and format.tick("8.0", "text") == "8.0"
    assert format.tick(1e28, "ns") == "1e+28 ns"
    assert format.span(1e6, 2e6, "ns") == "[1.00, 2.00] ms"
    assert format.span(1e6, None, "ns") == "n/a"


def test_the_ramp_grows_lighter() -> None:
    shades = [[int(ramp(i / 10)[k : k + 2], 16) for k in (1, 3, 5)] for i in range(11)]
    lightness = [0.2126 * r + 0.7152 * g + 0.0722 * b for r, g, b in shades]
    assert lightness == sorted(lightness)


def test_every_chart_is_a_table_too() -> None:
    heads, rows = tables.of_chart(BAR).flat()
    assert heads == ["series", "target", "p50_ns", "low_ns", "high_ns"]
    assert rows[0] == ["p50", TARGETS[0], 5.2e6, 5.0e6, 5.5e6]
    assert rows[2][2:] == [None, None, None]
    heads, rows = tables.of_chart(SCATTER).flat()
    assert heads == ["series", "p50_ns", "top_1_accuracy", "FLOPs_amount", "parameters_amount", "name"]
    assert len(rows) == 10
    heads, rows = tables.of_chart(SPREAD).flat()
    assert heads == ["series", "samples", "least_ns", "p25_ns", "p50_ns", "p75_ns", "p99_ns", "most_ns"]
    assert [row[1] for row in rows] == [2000] * 3
