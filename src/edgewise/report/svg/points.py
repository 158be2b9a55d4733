"""Lines and points, along numbers or names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby, pairwise

from ...core.chart import Chart, Series, X
from .. import format
from . import legend
from .bars import categories
from .colours import slot
from .paper import Paper, fit, width
from .scale import Scale, drawable, scale

_TALL = 300.0
# More points than this along a line are drawn as its envelope.
_MOST = 600
# Fewer points than this get their names written beside them.
_MOST_NAMES = 24
_NAME = 34
Place = tuple[float, float]


def points(paper: Paper, chart: Chart, top: float) -> float:
    """Where the next thing may begin."""
    named = any(isinstance(x, str) for series in chart.series for x in series.x)
    names = categories(chart) if named else []
    values = [v for s in chart.series for v in (*s.y, *s.low, *s.high)]
    upward = scale(values, chart.y, ticks=6)
    left = max((width(label) for _, label in upward.ticks), default=0.0) + 12
    begin, end = top + 22, top + 22 + _TALL * (0.85 if paper.wide < 500 else 1.0)
    right = paper.wide - 14
    upward = upward.over(end, begin)
    paper.text(0, top + 10, chart.y.name, "soft")
    for value, label in upward.ticks:
        paper.path("rule", [(left, upward.at(value)), (right, upward.at(value))])
        paper.text(left - 7, upward.at(value) + 4, label, "soft", "end")
    if named:
        room = (right - left) / max(1, len(names))
        places: dict[X, float] = {name: left + room * (i + 0.5) for i, name in enumerate(names)}
        for name, place in places.items():
            text = fit(format.tick(name, chart.x.unit), room)
            paper.text(place, end + 17, text, "m soft", "middle", data_k=str(name).lower())
        at: Callable[[X], float | None] = places.get
    else:
        along = scale((x for s in chart.series for x in s.x), chart.x, ticks=6 if paper.wide > 500 else 4)
        along = along.over(left + 8, right - 8)
        _below(paper, along, end)

        def at(x: X) -> float | None:
            return along.at(float(x)) if drawable(x, chart.x) else None

    paper.path("axis", [(left, end), (right, end)])
    _drawn(paper, chart, at, upward, (left, end))
    paper.text((left + right) / 2, end + 36, chart.x.name, "soft", "middle")
    return _meanings(paper, chart, end + 46)


def _below(paper: Paper, along: Scale, end: float) -> None:
    used = -1e9
    for value, label in along.ticks:
        place = along.at(value)
        paper.path("axis", [(place, end), (place, end + 4)])
        if place - width(label) / 2 > used + 4:
            paper.text(place, end + 17, label, "soft", "middle")
            used = place + width(label) / 2


def _drawn(paper: Paper, chart: Chart, at: Callable[[X], float | None], upward: Scale, corner: Place) -> None:
    markers: list[tuple[int, Series, int, Place]] = []
    dropped = 0
    for number, series in enumerate(chart.series):
        places: list[Place | None] = []
        for x, y in zip(series.x, series.y, strict=True):
            across = at(x)
            there = y is not None and across is not None and drawable(y, chart.y)
            dropped += y is not None and not there
            places.append((across, upward.at(y)) if there and across is not None and y is not None else None)
        _line(paper, chart, number, places, upward)
        found = [(number, series, i, place) for i, place in enumerate(places) if place]
        if chart.kind == "line" and len(found) > legend.MOST_MARKERS:
            found = found[:: len(found) // legend.MOST_MARKERS + 1]
        elif len(found) > _MOST * 5:
            paper.notes.append(f"{series.name}: of {format.cell(len(found), 'count')} points every few are drawn")
            found = found[:: len(found) // (_MOST * 5) + 1]
        markers += found
    if dropped:
        paper.notes.append(f"{dropped} not drawn: the axes have no place for zero, or for what is not a usual number")
    sizes, colours = _sizes(chart), _colours(chart)
    paint = legend.painter(chart.colour, colours) if chart.colour and colours else None
    # What is drawn over a line first, then the small ones last, so that a large one hides none of them.
    markers.sort(key=lambda m: (not legend.bare(chart, m[1]), -(m[1].size[m[2]] or 0.0) if m[1].size else 0.0))
    taken: list[tuple[float, float, float, float]] = []
    radii = []
    for number, series, i, (x, y) in markers:
        radius = legend.radius(series.size[i], max(sizes)) if series.size and sizes else 4.5
        radii.append(radius)
        key = f"{series.name} {series.labels[i] if series.labels else ''}".lower()
        with paper.mark(number, slot(number), _tip(chart, series, i), key):
            if series.low and series.high and chart.kind == "scatter":
                _whisker(paper, chart, series, i, x, upward)
            paper.add("circle", "hit", cx=x, cy=y, r=max(radius, 5.0 if len(markers) > 100 else 9.0))
            colour = series.colour[i] if series.colour else None
            if colour is not None and paint:
                legend.shape(paper, number, x, y, radius, "ring", fill=paint(colour))
            elif not legend.bare(chart, series):
                legend.shape(paper, number, x, y, radius, "point")
        taken.append((x - radius, y - radius, x + radius, y + radius))
    if sum(bool(series.labels) for _, series, _, _ in markers) <= _MOST_NAMES:
        _names(paper, markers, radii, taken, corner)


def _line(paper: Paper, chart: Chart, number: int, places: Sequence[Place | None], upward: Scale) -> None:
    series = chart.series[number]
    stroke = "line" if chart.kind == "line" and series.stroke == "none" else series.stroke
    if stroke == "none":
        return
    with paper.group(f"m s{slot(number)}", data_s=str(number), data_k=series.name.lower()):
        for _, run in groupby(enumerate(places), key=lambda pair: pair[1] is not None):
            part = [(i, place) for i, place in run if place]
            if len(part) < 2:
                continue
            _strip(paper, chart, series, part, upward)
            path = _thinned([place for _, place in part])
            if stroke == "step":
                path = [corner for a, b in pairwise(path) for corner in (a, (b[0], a[1]))] + [path[-1]]
            dots = " dots" if number >= 12 and stroke != "dash" else ""
            paper.path(f"curve{' dash' if stroke == 'dash' else dots}", path)


def _strip(paper: Paper, chart: Chart, series: Series, part: Sequence[tuple[int, Place]], upward: Scale) -> None:
    """The interval along a line."""
    if not (series.low and series.high):
        return
    ends = [(x, series.low[i], series.high[i]) for i, (x, _) in part]
    kept = [(x, low, high) for x, low, high in ends if low is not None and high is not None]
    kept = [each for each in kept if drawable(each[1], chart.y) and drawable(each[2], chart.y)]
    if len(kept) > 1:
        upper = _thinned([(x, upward.at(high)) for x, _, high in kept])
        lower = _thinned([(x, upward.at(low)) for x, low, _ in kept])
        paper.path("pale", upper + lower[::-1], closed=True)


def _whisker(paper: Paper, chart: Chart, series: Series, i: int, x: float, upward: Scale) -> None:
    low, high = series.low[i], series.high[i]
    if low is not None and high is not None and drawable(low, chart.y) and drawable(high, chart.y):
        paper.path("whisker", [(x, upward.at(low)), (x, upward.at(high))])


def _thinned(path: list[Place]) -> list[Place]:
    """The envelope of a long line: of each stretch its lowest and highest place, in order."""
    if len(path) <= _MOST:
        return path
    size = len(path) // (_MOST // 2) + 1
    kept: list[Place] = [path[0]]
    for first in range(0, len(path), size):
        stretch = path[first : first + size]
        kept += sorted({min(stretch, key=lambda p: p[1]), max(stretch, key=lambda p: p[1])})
    return [*kept, path[-1]]


def _names(
    paper: Paper,
    markers: Sequence[tuple[int, Series, int, Place]],
    radii: Sequence[float],
    taken: list[tuple[float, float, float, float]],
    corner: Place,
) -> None:
    """Names beside points, each where it covers nothing and leaves the axes (which meet in `corner`) alone; those
    without such a place are left to the tooltip."""
    for (number, series, i, (x, y)), radius in zip(markers, radii, strict=True):
        text = series.labels[i] if series.labels else ""
        text = fit(text, width("n" * _NAME, 11), 11)
        wide = width(text, 11)
        tries = (
            (x - wide / 2, y - radius - 5),
            (x + radius + 4, y + 4),
            (x - wide / 2, y + radius + 13),
            (x - radius - 4 - wide, y + 4),
        )
        for left, base in tries if text else ():
            box = (left, base - 10, left + wide, base + 2)
            inside = box[0] >= corner[0] and box[2] <= paper.wide and box[3] <= corner[1] + 7
            if inside and not any(_meet(box, other) for other in taken):
                taken.append(box)
                key = f"{series.name} {text}".lower()
                paper.text(left, base, text, "m soft", data_s=str(number), data_k=key, font_size="11")
                break


def _meet(a: tuple[float, float, float, float], b: tuple[float, float, float, float]) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def _sizes(chart: Chart) -> list[float]:
    return [v for s in chart.series for v in s.size if v is not None and v > 0]


def _colours(chart: Chart) -> list[float]:
    found = [v for s in chart.series for v in s.colour if v is not None]
    return [v for v in found if chart.colour and drawable(v, chart.colour)]


def _meanings(paper: Paper, chart: Chart, top: float) -> float:
    sizes, colours = _sizes(chart), _colours(chart)
    if chart.size and sizes:
        top = legend.sizes(paper, chart.size, sizes, top)
    if chart.colour and colours:
        top = legend.colours(paper, chart.colour, colours, top)
    return top


def _tip(chart: Chart, series: Series, i: int) -> str:
    x, y = series.x[i], series.y[i]
    lines = [series.labels[i] if series.labels and series.labels[i] else series.name]
    if series.labels and series.labels[i] and len(chart.series) > 1:
        lines.append(series.name)
    unit = chart.x.unit
    lines.append(f"{chart.x.name}: {format.tick(x, unit) if unit == 'text' else format.cell(x, unit)}")
    lines.append(f"{chart.y.name}: {format.cell(y, chart.y.unit)}")
    if series.low and series.high and series.low[i] is not None:
        lines.append(f"interval: {format.span(series.low[i], series.high[i], chart.y.unit)}")
    for axis, values in ((chart.size, series.size), (chart.colour, series.colour)):
        if axis and values:
            lines.append(f"{axis.name}: {format.cell(values[i], axis.unit)}")
    return "\n".join(lines)
