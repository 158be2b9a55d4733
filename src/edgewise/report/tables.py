"""Sections and charts as plain tables: what is downloaded, written to CSV, and shown beside every drawing."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from ..core.chart import Chart
from ..core.types import Column, Section
from . import format
from .svg.spread import spread

Rows = Sequence[Sequence[object]]
_PLAIN = ("text", "count", "number")


@dataclass(frozen=True, slots=True)
class Table:
    name: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[object, ...], ...]

    def flat(self) -> tuple[list[str], list[list[object]]]:
        """Headings with units and raw values: an interval takes two columns, what is missing or not finite is None."""
        heads: list[str] = []
        for column in self.columns:
            unit = column.unit.removesuffix("_range")
            suffix = "" if unit in _PLAIN or column.name.endswith(f"_{unit}") else f"_{unit}"
            ends = ("_low", "_high") if column.unit.endswith("_range") else ("",)
            heads += [f"{column.name}{end}{suffix}" for end in ends]
        return heads, [[value for i, cell in enumerate(row) for value in self._values(i, cell)] for row in self.rows]

    def _values(self, index: int, cell: object) -> Sequence[object]:
        if self.columns[index].unit.endswith("_range"):
            return tuple(map(_finite, cell)) if isinstance(cell, (tuple, list)) else (None, None)
        return (_finite(cell),)

    def text(self, row: Sequence[object], index: int) -> str:
        return format.cell(row[index], self.columns[index].unit)


def _finite(value: object) -> object:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, (int, str)) else str(value)


def of_section(section: Section) -> Table:
    return Table(section.title, section.columns, section.rows)


def constants(table: Table) -> dict[int, str]:
    """Columns of text that say the same in every row, and what they say."""
    if len(table.rows) < 2:
        return {}
    found = {}
    for index, column in enumerate(table.columns):
        if column.unit == "text" and len({row[index] for row in table.rows}) == 1:
            value = table.rows[0][index]
            found[index] = "" if value is None else str(value)
    # Something must be left to tell rows apart.
    return found if len(found) < len(table.columns) else {}


def of_chart(chart: Chart) -> Table:
    """Every value that is drawn; of distributions their quantiles, since the runs themselves are in the store."""
    if chart.kind == "spread":
        return _of_spread(chart)
    series = chart.series
    columns = [Column("series"), Column(_name(chart.x.name or "x"), _unit(chart, chart.x.unit))]
    columns.append(Column(_name(chart.y.name or "y"), chart.y.unit))
    extras = {
        "low": any(s.low for s in series),
        "high": any(s.high for s in series),
        "size": chart.size is not None,
        "colour": chart.colour is not None,
        "labels": any(s.labels for s in series),
    }
    units = {"size": chart.size, "colour": chart.colour}
    for name, there in extras.items():
        axis = units.get(name)
        if there and name == "labels":
            columns.append(Column("name"))
        elif there:
            columns.append(Column(_name(axis.name), axis.unit) if axis else Column(name, chart.y.unit))
    rows = []
    for s in series:
        for i, (x, y) in enumerate(zip(s.x, s.y, strict=True)):
            more = [getattr(s, name)[i] if getattr(s, name) else None for name, there in extras.items() if there]
            rows.append((s.name, x, y, *more))
    return Table(chart.title, tuple(columns), tuple(rows))


def _unit(chart: Chart, unit: str) -> str:
    """Names may stand on an axis of numbers, and are text then."""
    return "text" if any(isinstance(x, str) for s in chart.series for x in s.x) else unit


def _name(name: str) -> str:
    return re.sub(r"\W+", "_", name).strip("_")


def _of_spread(chart: Chart) -> Table:
    unit = chart.y.unit
    names = ("least", "p25", "p50", "p75", "p99", "most")
    columns = (Column("series"), Column("samples", "count"), *(Column(name, unit) for name in names))
    rows: list[tuple[object, ...]] = []
    for series in chart.series:
        found = spread(series.y, chart.y)
        figures = (found.least, found.p25, found.p50, found.p75, found.p99, found.most) if found else (None,) * 6
        rows.append((series.name, found.count if found else 0, *figures))
    return Table(chart.title, columns, tuple(rows))
