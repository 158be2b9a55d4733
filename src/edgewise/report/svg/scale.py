"""Values to places on an axis, and the ticks that go with it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ...core.chart import Axis
from .. import format

# Nothing that is measured is further from one than this.
_LARGEST = 1e30
_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)


@dataclass(frozen=True, slots=True)
class Scale:
    """From `low`..`high` to `begin`..`end`, which may run backwards (y does)."""

    low: float
    high: float
    begin: float
    end: float
    log: bool
    ticks: tuple[tuple[float, str], ...]

    def at(self, value: float) -> float:
        """The place of a value; beyond the ends it is the end's."""
        low, high, value = (math.log(max(v, self.low)) if self.log else v for v in (self.low, self.high, value))
        share = min(max((value - low) / (high - low), 0.0), 1.0)
        return self.begin + share * (self.end - self.begin)

    def over(self, begin: float, end: float) -> Scale:
        return Scale(self.low, self.high, begin, end, self.log, self.ticks)


def drawable(value: object, axis: Axis) -> bool:
    """Whether an axis has a place for it."""
    return (
        isinstance(value, (int, float))
        and not isinstance(value, bool)
        and abs(value) <= _LARGEST
        and (not axis.log or value >= 1 / _LARGEST)
    )


def scale(values: Iterable[object], axis: Axis, *, zero: bool = False, ticks: int = 6) -> Scale:
    """All drawable values with room for ticks; from zero where `zero` asks for it or it is near."""
    found = [float(v) for v in values if isinstance(v, (int, float)) and drawable(v, axis)]
    if axis.log:
        return _log(found, axis, ticks)
    low, high = (min(found), max(found)) if found else (0.0, 1.0)
    if zero or 0 <= low < high / 2:
        low, high = min(low, 0.0), max(high, 0.0)
    if low == high:
        low, high = (low - abs(low) / 2, high + abs(high) / 2) if low else (0.0, 1.0)
    # Where a step is too fine for the digits that are shown, a coarser one; at last the whole way from zero.
    for wanted, begin, end in ((ticks, low, high), (3, low, high), (ticks, min(low, 0.0), max(high, 0.0))):
        step = _step((end - begin) / wanted, axis.unit)
        first, last = math.floor(begin / step + 1e-9), math.ceil(end / step - 1e-9)
        places = [i * step for i in range(first, last + 1)]
        labels = [format.tick(place, axis.unit) for place in places]
        if len(set(labels)) == len(labels):
            break
    return Scale(places[0], places[-1], 0.0, 1.0, False, tuple(zip(places, labels, strict=True)))


def _step(rough: float, unit: str) -> float:
    if unit == "bytes":
        return float(2.0 ** math.ceil(math.log2(rough) - 1e-9))
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(s for s in _STEPS if s * size >= rough * (1 - 1e-9)) * size
    return max(step, 1.0) if unit == "count" else step


def _log(found: Sequence[float], axis: Axis, ticks: int) -> Scale:
    low, high = (min(found), max(found)) if found else (1.0, 10.0)
    if low == high:
        low, high = low / 2, high * 2
    room = (high / low) ** 0.03
    low, high = low / room, high * room
    whole = all(v >= 1 and math.log2(v).is_integer() for v in found)
    base = 2.0 if axis.unit == "bytes" or (found and whole) else 10.0
    places = _powers(low, high, base, (1.0,))
    if base == 10.0 and len(places) < 3:
        places = _powers(low, high, base, (1.0, 2.0, 5.0))
    if len(places) < 2:
        places = [low * room, high / room]
    every = max(1, math.ceil(len(places) / (ticks + 2)))
    kept = places[::every]
    return Scale(low, high, 0.0, 1.0, True, tuple((p, format.tick(p, axis.unit)) for p in kept))


def _powers(low: float, high: float, base: float, times: Sequence[float]) -> list[float]:
    first, last = math.floor(math.log(low, base)) - 1, math.ceil(math.log(high, base)) + 1
    places = (base**power * factor for power in range(first, last + 1) for factor in times)
    return [place for place in places if low <= place <= high]
