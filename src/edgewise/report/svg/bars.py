"""Bars, stacks and spreads: a band for each category, values along the other way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...core.chart import Chart, Series, X
from .. import format
from .colours import slot
from .paper import Paper, fit, width
from .scale import Scale, drawable, scale
from .spread import Spread, reach, spread

_THICK = 15.0
_GAP = 10.0
_TALL = 240.0
_VIOLIN = 40.0
# Names up to this long stand below their bars; longer ones beside them.
_LONGEST_BELOW = 8
_MOST_BELOW = 12
_MOST_LABELS = 80
# A bar this many times as long as most others are leaves nothing to see of them.
_FAR = 10.0


@dataclass(frozen=True, slots=True)
class _Held:
    """One value of one series, in the category it belongs to."""

    number: int
    series: Series
    i: int
    value: float

    @property
    def ends(self) -> tuple[float | None, float | None]:
        if self.series.low and self.series.high:
            return self.series.low[self.i], self.series.high[self.i]
        return None, None

    @property
    def label(self) -> str:
        return self.series.labels[self.i] if self.series.labels else ""


@dataclass(frozen=True, slots=True)
class _Band:
    """A category: what it is called, what it holds, where it begins across the values, how thick one bar of it is."""

    text: str
    held: Sequence[_Held]
    begin: float
    each: float


def bars(paper: Paper, chart: Chart, top: float) -> float:
    """Side by side, or for a stack one after the other; where the next thing may begin."""
    names = categories(chart)
    held = {format.tick(name, chart.x.unit): _held(chart, name) for name in names}
    values: list[object] = [v for found in held.values() for each in found for v in (each.value, *each.ends)]
    if chart.kind == "stack":
        values = [sum(max(0.0, each.value) for each in found) for found in held.values()]
    dropped = sum(y is not None and not drawable(y, chart.y) for series in chart.series for y in series.y)
    if dropped:
        paper.notes.append(f"{dropped} not drawn: the axis has no place for zero, or for what is not a usual number")
    long = any(isinstance(name, str) and len(name) > _LONGEST_BELOW for name in names) or len(names) > _MOST_BELOW
    lying = long or (paper.wide < 500 and any(isinstance(name, str) for name in names))
    labelled = sum(map(len, held.values())) <= _MOST_LABELS
    if lying and labelled and chart.kind == "bar" and not chart.y.log:
        values, beyond = _near([each for found in held.values() for each in found])
        if beyond:
            paper.notes.append(f"{beyond} {'goes' if beyond == 1 else 'go'} on beyond the axis")
    along = scale(values, chart.y, zero=not chart.y.log, ticks=5 if paper.wide > 500 else 4)
    if lying:
        return _lying(paper, chart, top, held, along, labelled)
    return _standing(paper, chart, top, held, along)


def _near(found: Sequence[_Held]) -> tuple[list[object], int]:
    """The values an axis should reach to, so that a few far ones leave something to see of the others; and how many
    bars or intervals go on beyond it."""
    values = sorted(each.value for each in found)
    most = _FAR * values[len(values) * 3 // 4] if values and values[0] >= 0 else 0.0
    ends = [(each.value, *(end for end in each.ends if end is not None)) for each in found]
    if most <= 0 or max(map(max, ends)) <= most:
        return [value for some in ends for value in some], 0
    near = [value for some in ends for value in some if value <= most]
    return [*near], sum(max(some) > max(near) for some in ends)


def categories(chart: Chart) -> list[X]:
    """In order of appearance; numbers by size."""
    names = list(dict.fromkeys(x for series in chart.series for x in series.x))
    numbers = [name for name in names if not isinstance(name, str)]
    return list(sorted(numbers)) if len(numbers) == len(names) else names


def _held(chart: Chart, name: X) -> list[_Held]:
    """What there is of a category: only those series get room in its band."""
    found = []
    for number, series in enumerate(chart.series):
        for i, (x, y) in enumerate(zip(series.x, series.y, strict=True)):
            if x == name and y is not None and drawable(y, chart.y):
                found.append(_Held(number, series, i, float(y)))
    return found


def _lying(paper: Paper, chart: Chart, top: float, held: dict[str, list[_Held]], along: Scale, labelled: bool) -> float:
    longest = max((width(text) for text in held), default=0.0)
    # On narrow paper a name stands above its bars instead of beside them.
    above = longest > paper.wide * 0.36
    left = 2.0 if above else longest + 10
    along = along.over(left, paper.wide - (66 if labelled else 14))
    y, bands = top + 4, []
    for text, found in held.items():
        y += 15 if above else 0
        bands.append(_Band(text, found, y, _THICK))
        y += _THICK * (1 if chart.kind == "stack" else max(1, len(found))) + _GAP
    _across(paper, chart, along, top, y - _GAP / 2 + 2, flat=True)
    for band in bands:
        if above:
            paper.text(0, band.begin - 3, fit(band.text, paper.wide), "m", data_k=band.text.lower())
        else:
            middle = band.begin + _THICK * (1 if chart.kind == "stack" else max(1, len(band.held))) / 2
            paper.text(left - 8, middle + 4, band.text, "m", "end", data_k=band.text.lower())
        if not band.held:
            paper.text(left + 5, band.begin + _THICK / 2 + 4, format.MISSING, "m soft", data_k=band.text.lower())
        _draw(paper, chart, band, along, flat=True, labelled=labelled)
    return _name_below(paper, chart.y.name, (left + along.end) / 2, y + 24)


def _standing(paper: Paper, chart: Chart, top: float, held: dict[str, list[_Held]], along: Scale) -> float:
    left = max((width(label) for _, label in along.ticks), default=0.0) + 10
    begin, end = top + 20, top + 20 + _TALL
    paper.text(0, top + 8, chart.y.name, "soft")
    along = along.over(end, begin)
    _across(paper, chart, along, left, paper.wide, flat=False)
    room = (paper.wide - left) / max(1, len(held))
    most = 1 if chart.kind == "stack" else max((len(found) for found in held.values()), default=1)
    each = min(34.0, room * 0.8 / max(1, most))
    for place, (text, found) in enumerate(held.items()):
        centre = left + room * (place + 0.5)
        paper.text(centre, end + 16, fit(text, room), "m soft", "middle", data_k=text.lower())
        first = centre - each * (1 if chart.kind == "stack" else len(found)) / 2
        _draw(paper, chart, _Band(text, found, first, each), along, flat=False, labelled=False)
    return _name_below(paper, chart.x.name, (left + paper.wide) / 2, end + 34)


def _draw(paper: Paper, chart: Chart, band: _Band, along: Scale, *, flat: bool, labelled: bool) -> None:
    """The bars of one category. `flat`: they lie, and values run along x."""
    stacked = chart.kind == "stack"
    total = sum(max(0.0, each.value) for each in band.held) if stacked else None
    base = along.low if chart.y.log else max(along.low, min(0.0, along.high))
    across, so_far = band.begin, base if stacked else 0.0
    for each in band.held:
        first, last = (so_far, so_far + max(0.0, each.value)) if stacked else (base, each.value)
        so_far = last
        a, b = sorted((along.at(first), along.at(last)))
        # A stack's parts keep a hair's breadth apart.
        long = max(b - a - (0.7 if stacked else 0.0), 0.8)
        key = f"{each.series.name} {band.text} {each.label}".lower()
        with paper.mark(each.number, slot(each.number), _tip(chart, each, band.text, total), key):
            if flat:
                paper.add("rect", "fill", x=a, y=across + 1, width=long, height=band.each - 2)
            else:
                paper.add("rect", "fill", x=across + 1, y=a, width=band.each - 2, height=long)
            _whisker(paper, chart, each, along, across + band.each / 2, flat)
            if flat and each.value > along.high:
                paper.path("cut", [(b - 9, across + band.each), (b - 5, across)])
            if labelled and not stacked:
                # In a column: at the end of an interval it would be taken for that end.
                value = format.cell(each.value, chart.y.unit)
                paper.text(paper.wide, across + band.each / 2 + 4, value, "soft", "end")
        across += 0 if stacked else band.each
    if labelled and stacked and band.held:
        paper.text(along.at(so_far) + 5, across + band.each / 2 + 4, format.cell(so_far, chart.y.unit), "soft")


def _whisker(paper: Paper, chart: Chart, each: _Held, along: Scale, middle: float, flat: bool) -> None:
    """The interval, where there is one."""
    low, high = each.ends
    if low is None or high is None or not (drawable(low, chart.y) and drawable(high, chart.y)):
        return
    ends = along.at(low), along.at(high)
    paper.path("whisker", [(end, middle) if flat else (middle, end) for end in ends])


def _tip(chart: Chart, each: _Held, text: str, total: float | None) -> str:
    lines = [each.label or text]
    if len(chart.series) > 1:
        lines.append(each.series.name)
    lines.append(f"{chart.y.name}: {format.cell(each.value, chart.y.unit)}")
    low, high = each.ends
    if low is not None and high is not None:
        lines.append(f"interval: {format.span(low, high, chart.y.unit)}")
    if total:
        lines.append(f"of the whole: {format.percent(each.value / total)}")
    return "\n".join(lines)


def _across(paper: Paper, chart: Chart, along: Scale, begin: float, end: float, flat: bool) -> None:
    """Ticks of the value axis and the rules that go from them across the drawing."""
    used = -1e9
    for value, label in along.ticks:
        place = along.at(value)
        kind = "axis" if value == 0 and not chart.y.log else "rule"
        if not flat:
            paper.path(kind, [(begin, place), (end, place)])
            paper.text(begin - 6, place + 4, label, "soft", "end")
            continue
        paper.path(kind, [(place, begin), (place, end)])
        if place - width(label) / 2 > used + 4:
            paper.text(place, end + 14, label, "soft", "middle")
            used = place + width(label) / 2


def _name_below(paper: Paper, name: str, centre: float, y: float) -> float:
    if name:
        paper.text(centre, y + 4, name, "soft", "middle")
    return y + 12


def spreads(paper: Paper, chart: Chart, top: float) -> float:
    """A violin with a box inside for each series; the box holds the middle half, its mark is the median."""
    found = [(number, series, spread(series.y, chart.y)) for number, series in enumerate(chart.series)]
    there = [each for _, _, each in found if each]
    values, beyond, longest = reach(there, chart.y)
    if beyond:
        runs = "1 sample lies" if beyond == 1 else f"{format.cell(beyond, 'count')} samples lie"
        paper.notes.append(f"{runs} beyond the axis, the furthest at {format.cell(longest, chart.y.unit)}")
    along = scale(values, chart.y, ticks=5 if paper.wide > 500 else 4)
    longest_name = max((width(series.name) for series in chart.series), default=0.0)
    above = longest_name > paper.wide * 0.36
    left = 2.0 if above else longest_name + 10
    along = along.over(left, paper.wide - 20)
    step = _VIOLIN + (16 if above else 4)
    end = top + step * len(found) + 4
    _across(paper, chart, along, top, end, flat=True)
    for place, (number, series, each) in enumerate(found):
        middle = top + step * place + (16 if above else 2) + _VIOLIN / 2
        key = series.name.lower()
        if above:
            paper.text(0, middle - _VIOLIN / 2 - 3, fit(series.name, paper.wide), "m", data_k=key)
        else:
            paper.text(left - 8, middle + 4, series.name, "m", "end", data_k=key)
        if not each:
            paper.text(left + 6, middle + 4, format.MISSING, "soft")
            continue
        with paper.mark(number, slot(number), _spread_tip(chart, series.name, each), key):
            _violin(paper, chart, each, along, middle)
    return _name_below(paper, chart.y.name, (left + along.end) / 2, end + 28)


def _violin(paper: Paper, chart: Chart, each: Spread, along: Scale, middle: float) -> None:
    half = _VIOLIN / 2 - 2
    begin = along.at(each.least)
    paper.add("rect", "hit", x=begin, y=middle - half, width=max(along.at(each.most) - begin, 6), height=2 * half)
    outline = [(along.at(v), d) for v, d in each.density(chart.y, along.low, along.high) if d > 0.004]
    if len(outline) > 1:
        upper = [(x, middle - d * half) for x, d in outline]
        lower = [(x, middle + d * half) for x, d in reversed(outline)]
        paper.path("pale outline", upper + lower, closed=True)
    paper.path("whisker", [(along.at(each.least), middle), (along.at(each.most), middle)])
    a, b, c = along.at(each.p25), along.at(each.p50), along.at(each.p75)
    paper.add("rect", "box", x=a, y=middle - 5, width=max(c - a, 1.0), height=10.0)
    paper.path("middle", [(b, middle - 7), (b, middle + 7)])


def _spread_tip(chart: Chart, name: str, each: Spread) -> str:
    unit = chart.y.unit
    lines = [name, f"median: {format.cell(each.p50, unit)}", f"middle half: {format.span(each.p25, each.p75, unit)}"]
    if each.p99 is not None:
        lines.append(f"p99: {format.cell(each.p99, unit)}")
    lines += [
        f"least: {format.cell(each.least, unit)}",
        f"most: {format.cell(each.most, unit)}",
        f"samples: {format.cell(each.count, 'count')}",
    ]
    return "\n".join(lines)
