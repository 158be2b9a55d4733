"""Ranges of the values inside a network, from what they were on some inputs: what 8 bits are spread over.

Wide ranges lose precision everywhere, narrow ones cut off what is rare. `minmax` takes all that was seen; `percentile`
leaves out the rarest; `mse` looks for the least squared error, `entropy` for the least change of the distribution.
Two passes over the samples: one for the extent of every value, one to count within it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from ...core.errors import InputError
from ...model.graph import Array, Graph
from ..observe import Observe

Range = tuple[float, float]
_BINS = 2048
_LEVELS = 255
# Of all values, those outside on either side.
_OUTSIDE = 5e-5
# Ends tried between nothing and all that was seen, then between two of them, and how often one end is looked at again
# after the other.
_TRIED = 20
_FINER = 5
_NARROWEST = 0.05
_TURNS = 2
_TINY = 1e-12


@dataclass(frozen=True, slots=True)
class Histogram:
    """Counts in equal bins from `low` to `high`, zeros left out: every range that is asked about represents them."""

    low: float
    high: float
    counts: Array

    @property
    def centers(self) -> Array:
        width = (self.high - self.low) / len(self.counts)
        return np.asarray(self.low + width * (np.arange(len(self.counts)) + 0.5))


def ranges(graph: Graph, observe: Observe, how: str = "minmax", names: Iterable[str] | None = None) -> dict[str, Range]:
    """By name, for every value of floats. Each contains 0, as 8 bits must."""
    wanted = list(floats(graph) if names is None else names)
    extents = _extents(graph, observe, wanted)
    if how == "minmax":
        return extents
    counted = {name: np.zeros(_BINS, np.int64) for name in wanted}
    for values in observe(graph, wanted):
        for name, array in values.items():
            low, high = extents[name]
            if low < high:
                seen = array[np.isfinite(array) & (array != 0)]
                counted[name] += np.histogram(seen, _BINS, (low, high))[0]
    return {name: chosen(Histogram(*extents[name], counts), how) for name, counts in counted.items()}


def floats(graph: Graph) -> list[str]:
    """The values a network computes with: its inputs, and what its nodes make."""
    made = dict.fromkeys((*graph.inputs, *(name for node in graph.nodes for name in node.outputs if name)))
    return [name for name in made if name in graph.values and graph.values[name].dtype == "float32"]


def _extents(graph: Graph, observe: Observe, names: list[str]) -> dict[str, Range]:
    found = dict.fromkeys(names, (0.0, 0.0))
    for values in observe(graph, names):
        for name, array in values.items():
            finite = array if np.isfinite(array).all() else array[np.isfinite(array)]
            if finite.size:
                low, high = found[name]
                found[name] = min(low, float(finite.min())), max(high, float(finite.max()))
    return found


def chosen(histogram: Histogram, how: str) -> Range:
    """The range to quantize with."""
    if how not in _WAYS:
        raise InputError(f"ranges are found by one of minmax, {', '.join(_WAYS)}, found {how!r}")
    if not histogram.counts.any():
        return histogram.low, histogram.high
    return _WAYS[how](histogram)


def _percentile(histogram: Histogram) -> Range:
    total = np.cumsum(histogram.counts)
    width = (histogram.high - histogram.low) / len(total)
    outside = _OUTSIDE * total[-1]
    first = int(np.searchsorted(total, outside, side="right"))
    last = int(np.searchsorted(total, total[-1] - outside, side="left"))
    low, high = histogram.low + first * width, histogram.low + (last + 1) * width
    return min(0.0, low), max(0.0, min(high, histogram.high))


def _searched(loss: Callable[[Histogram, float, float], float]) -> Callable[[Histogram], Range]:
    """One end after the other is moved to where the loss is least."""

    def find(histogram: Histogram) -> Range:
        def upper(low: float, share: float) -> float:
            return loss(histogram, low, share * histogram.high)

        def lower(high: float, share: float) -> float:
            return loss(histogram, share * histogram.low, high)

        low, high = histogram.low, histogram.high
        for _ in range(_TURNS if low < 0 < high else 1):
            if high > 0:
                high = histogram.high * _least(partial(upper, low))
            if low < 0:
                low = histogram.low * _least(partial(lower, high))
        return low, high

    return find


def _least(loss: Callable[[float], float]) -> float:
    """Of the shares of an extent, the best: first far apart, then close to the best of those."""
    apart = (1 - _NARROWEST) / _TRIED
    best = min((1 - apart * step for step in range(_TRIED)), key=loss)
    near = (best + apart * step / _FINER for step in range(-_FINER, _FINER + 1))
    return min((share for share in near if share <= 1), key=loss)


def _levels(x: Array, low: float, high: float) -> tuple[Array, Array]:
    """To which of 256 levels each goes, and what that stands for."""
    step = max((high - low) / _LEVELS, _TINY)
    zero = round(-low / step)
    level = np.clip(np.rint(x / step) + zero, 0, _LEVELS)
    return level.astype(np.int64), (level - zero) * step


def squared_error(histogram: Histogram, low: float, high: float) -> float:
    x = histogram.centers
    return float(histogram.counts @ np.square(x - _levels(x, low, high)[1]))


def divergence(histogram: Histogram, low: float, high: float) -> float:
    """How much is told by the distribution that is not by its levels (Kullback-Leibler), what is cut off being at the
    ends."""
    x, counts = histogram.centers, histogram.counts.astype(np.float64)
    level = _levels(x, low, high)[0]
    inside = (x >= low) & (x <= high)
    if not counts[inside].any():
        return float("inf")
    places = np.flatnonzero(inside)
    whole = np.where(inside, counts, 0.0)
    whole[places[0]] += counts[: places[0]].sum()
    whole[places[-1]] += counts[places[-1] + 1 :].sum()
    filled = inside & (whole > 0)
    shares = np.bincount(level[filled], counts[filled], _LEVELS + 1)
    spread = shares / np.maximum(np.bincount(level[filled], minlength=_LEVELS + 1), 1)
    told = spread[level[filled]]
    p, q = whole[filled] / whole[filled].sum(), np.maximum(told / max(told.sum(), _TINY), _TINY)
    return float(np.sum(p * np.log(p / q)))


_WAYS: Mapping[str, Callable[[Histogram], Range]] = {
    "percentile": _percentile,
    "entropy": _searched(divergence),
    "mse": _searched(squared_error),
}
