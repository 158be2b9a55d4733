"""The distribution of raw samples: what a violin and a box are drawn from, however many samples there are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...core import stats
from ...core.chart import Axis
from .scale import drawable

_CELLS = 96
# Where the longest run lies beyond this many times what 95 % stay under, an axis up to it would show little else.
_FAR = 2.0
_COVERED = 0.95


@dataclass(frozen=True, slots=True)
class Spread:
    """`p99` is None where there are too few samples for one; `density` is relative to its highest."""

    count: int
    least: float
    p25: float
    p50: float
    p75: float
    p99: float | None
    most: float
    ordered: np.ndarray[tuple[int], np.dtype[np.float64]]

    def density(self, axis: Axis, low: float, high: float) -> list[tuple[float, float]]:
        """Gaussian kernel density between two values, in the measure of the axis."""
        samples = np.log(self.ordered) if axis.log else self.ordered
        ends = (math.log(low), math.log(high)) if axis.log else (low, high)
        quarter, three = np.quantile(samples, (0.25, 0.75))
        spread = min(float(np.std(samples)), float(three - quarter) / 1.349) or float(np.std(samples))
        cell = (ends[1] - ends[0]) / _CELLS
        # Silverman (1986), equation 3.31; never finer than the grid.
        kernel_width = max(0.9 * spread / self.count**0.2, cell)
        counts, edges = np.histogram(samples, _CELLS, ends)
        reach = np.arange(-_CELLS, _CELLS + 1) * cell / kernel_width
        smooth = np.convolve(counts, np.exp(-0.5 * reach**2))[_CELLS : 2 * _CELLS]
        if not smooth.max() > 0:
            return []
        places = (edges[:-1] + edges[1:]) / 2
        values = np.exp(places) if axis.log else places
        return list(zip(values.tolist(), (smooth / smooth.max()).tolist(), strict=True))


def spread(samples: Sequence[float | None], axis: Axis) -> Spread | None:
    """None where there is nothing to draw."""
    found = np.array([s for s in samples if drawable(s, axis)], np.float64)
    if not found.size:
        return None
    ordered = np.sort(found)
    quarter, half, three, far = (float(v) for v in np.quantile(ordered, (0.25, 0.5, 0.75, 0.99)))
    p99 = far if stats.carries(int(ordered.size), 0.99) else None
    return Spread(int(ordered.size), float(ordered[0]), quarter, half, three, p99, float(ordered[-1]), ordered)


def reach(spreads: Sequence[Spread], axis: Axis) -> tuple[list[float], int, float]:
    """The values an axis should cover, how many samples lie beyond it, and the longest of those."""
    far = max((float(np.quantile(each.ordered, _COVERED)) for each in spreads), default=1.0) * 1.2
    longest = max((each.most for each in spreads), default=1.0)
    if axis.log or longest <= far * _FAR:
        far = longest
    beyond = sum(int(each.count - np.searchsorted(each.ordered, far, "right")) for each in spreads)
    return [min((each.least for each in spreads), default=0.0), far], beyond, longest
