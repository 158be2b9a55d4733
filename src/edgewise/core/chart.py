"""A drawing as data: what an analysis wants seen, raw values and their units; `report` decides on pixels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

X = int | float | str
# bar: a value per category, series side by side. stack: parts of a whole, one above the other. line: along numbers.
# scatter: points. spread: the distribution of raw samples (`y`), one series for each.
Kind = Literal["bar", "stack", "line", "scatter", "spread"]
# step: a front or a staircase, constant up to the next point. dash: not measured (a bound, a roof, a published figure).
Stroke = Literal["none", "line", "step", "dash"]


@dataclass(frozen=True, slots=True)
class Axis:
    """`unit` is a column's unit, so that `report.format` draws ticks and hovers as it draws cells."""

    name: str
    unit: str = "text"
    log: bool = False


@dataclass(frozen=True, slots=True)
class Series:
    """Points in step: `x[i]`, `y[i]`, and where given the ends of its interval, its size, its colour, its name.

    Missing is None and leaves a gap. Of a spread, `y` are raw samples and the rest is empty.
    """

    name: str
    x: tuple[X, ...]
    y: tuple[float | None, ...]
    low: tuple[float | None, ...] = ()
    high: tuple[float | None, ...] = ()
    size: tuple[float | None, ...] = ()
    colour: tuple[float | None, ...] = ()
    labels: tuple[str, ...] = ()
    stroke: Stroke = "none"


@dataclass(frozen=True, slots=True)
class Chart:
    """`size` and `colour` say what the sizes and colours of points mean, where they mean something."""

    kind: Kind
    title: str
    x: Axis
    y: Axis
    series: tuple[Series, ...]
    size: Axis | None = None
    colour: Axis | None = None
