"""Which colour, shape and size is what."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from ...core.chart import Axis, Chart, Series
from .. import format
from .colours import ramp, slot
from .paper import Paper, fit, width
from .scale import scale

LINE = 20.0
MOST_MARKERS = 80
_SHAPES = 6
_STEPS = 24
_LARGEST_RADIUS = 11.0
_SMALLEST_RADIUS = 3.0


def shape(paper: Paper, index: int, x: float, y: float, radius: float, kind: str, **more: str) -> None:
    """A marker: its form tells series apart where colours do not. All have about the same area."""
    r = radius
    match (index % _SHAPES, r):
        case (0, _):
            paper.add("circle", kind, cx=x, cy=y, r=r, **more)
            return
        case (1, _):
            s = r * 0.886
            places = [(x - s, y - s), (x + s, y - s), (x + s, y + s), (x - s, y + s)]
        case (2, _):
            s = r * 1.25
            places = [(x, y - s), (x + s, y + s * 0.75), (x - s, y + s * 0.75)]
        case (3, _):
            s = r * 1.25
            places = [(x, y - s), (x + s, y), (x, y + s), (x - s, y)]
        case (4, _):
            s = r * 1.25
            places = [(x, y + s), (x + s, y - s * 0.75), (x - s, y - s * 0.75)]
        case _:
            a, b = r * 0.45, r * 1.15
            signs = ((-a, -b), (a, -b), (a, -a), (b, -a), (b, a), (a, a), (a, b), (-a, b), (-a, a), (-b, a), (-b, -a))
            places = [(x + dx, y + dy) for dx, dy in (*signs, (-a, -a))]
    steps = " ".join(f"{px:.1f},{py:.1f}" for px, py in places)
    paper.add("path", kind, d=f"M{steps}Z", **more)


def bare(chart: Chart, series: Series) -> bool:
    """Whether the line says it all: a front joins points of other series, a bound has none, a long line too many."""
    if series.stroke == "dash":
        return True
    return len(series.x) > MOST_MARKERS if chart.kind == "line" else series.stroke != "none" and len(series.x) > 1


def keys(paper: Paper, chart: Chart, top: float) -> float:
    """One entry for each series, in as many lines as it takes; where the next thing may begin."""
    if chart.kind == "spread" or len(chart.series) < 2:
        return top
    x, y = 0.0, top
    for index, series in enumerate(chart.series):
        name = fit(series.name, paper.wide - 30)
        room = width(name) + 36
        if x and x + room > paper.wide:
            x, y = 0.0, y + LINE
        more = {"role": "button", "tabindex": "0", "aria-pressed": "true", "data-s": str(index)}
        with paper.group(f"key s{slot(index)}", **more, data_k=series.name.lower()):
            paper.add("rect", "hit", x=x, y=y, width=room - 8, height=LINE)
            if chart.kind in ("bar", "stack"):
                paper.add("rect", "fill", x=x + 4, y=y + 5, width=10.0, height=10.0, rx=2.0)
            elif bare(chart, series):
                dash = " dash" if series.stroke == "dash" else ""
                paper.path(f"curve{dash}", [(x + 1, y + 10), (x + 16, y + 10)])
            else:
                shape(paper, index, x + 9, y + 10, 4.5, "point")
            paper.text(x + 20, y + 14, name)
        x += room
    return y + LINE + 4


def radius(value: float | None, largest: float) -> float:
    """Area in proportion to the value."""
    if not value or value <= 0 or not largest:
        return _SMALLEST_RADIUS
    return max(_SMALLEST_RADIUS, _LARGEST_RADIUS * math.sqrt(value / largest))


def sizes(paper: Paper, axis: Axis, values: Sequence[float], top: float) -> float:
    """What the areas mean, by three of them."""
    largest = max(values)
    label = f"size: {axis.name}"
    paper.text(0, top + 16, label, "soft")
    x = width(label) + 12
    for share in (0.1, 0.4, 1.0):
        r = radius(largest * share, largest)
        text = format.tick(largest * share, axis.unit)
        paper.add("circle", "axis", cx=x + r, cy=top + 12, r=r)
        paper.text(x + 2 * r + 5, top + 16, text, "soft")
        x += 2 * r + width(text) + 18
    return top + 28


def colours(paper: Paper, axis: Axis, values: Sequence[float], top: float) -> float:
    """What the colours mean: the scale from least to most."""
    label = f"colour: {axis.name}"
    paper.text(0, top + 15, label, "soft")
    least, most = (format.tick(value, axis.unit) for value in (min(values), max(values)))
    x = width(label) + 12
    paper.text(x, top + 15, least, "soft")
    x += width(least) + 6
    for step in range(_STEPS):
        paper.add("rect", x=x + step * 4, y=top + 6, width=4.4, height=10.0, fill=ramp(step / (_STEPS - 1)))
    paper.text(x + _STEPS * 4 + 6, top + 15, most, "soft")
    return top + 26


def painter(axis: Axis, values: Sequence[float]) -> Callable[[float], str]:
    """The colour of each value, by where it lies between the least and the most."""
    exact = scale(values, axis)
    least, most = exact.at(min(values)), exact.at(max(values))
    return lambda value: ramp((exact.at(value) - least) / (most - least) if most > least else 0.5)
