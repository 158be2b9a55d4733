"""Valleys of a density deeper than chance makes them: what separates one level from the next."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from .series import Floats
from .special import binomial_cdf

# Grid of the kernel density: fine enough for a kernel of a few cells.
_CELLS = 2048
# The grid covers the central part of the samples; what lies outside can make no mode of 5 %.
_COVERED = 0.99
# Kernel width relative to Silverman's rule of thumb (1986, "Density Estimation", equation 3.31).
_BANDWIDTH = 0.9
# Probability that a valley as deep as the kept ones appears where there is none.
_SIGNIFICANCE = 0.01
# A smaller group is a tail, not a mode.
_LEAST_SHARE = 0.05
# Beyond it a double cannot tell neighbouring whole numbers apart.
_LARGEST_WHOLE = 2.0**53
_GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0


@dataclass(frozen=True, slots=True)
class _Bump:
    """A peak and its height; the valley to its left and the density there (none for the first)."""

    peak: float
    height: float
    valley: float
    depth: float


def fill_ticks(series: Floats) -> Floats:
    """The series with equal readings of a coarse clock spread over its step; otherwise every tick were a mode.

    Only whole numbers can come from such a clock; its step is their common divisor.
    """
    values = np.unique(series)
    if values.size < 2 or values[-1] >= _LARGEST_WHOLE or not (values == np.rint(values)).all():
        return series
    step = min(float(np.gcd.reduce(np.diff(values).astype(np.int64))), float(values[0]))
    # Multiples of the golden ratio spread any number of readings evenly, without a random generator.
    return series + ((np.arange(series.size) * _GOLDEN) % 1.0 - 0.5) * step


def _width(ordered: Floats) -> float:
    """Kernel width from the shortest half: several levels far apart do not blur it."""
    half = ordered.size // 2
    # 1.349 standard deviations of a normal hold its central half.
    spread = float((ordered[half:] - ordered[: ordered.size - half]).min()) / 1.349
    return _BANDWIDTH * spread / math.pow(ordered.size, 0.2)


def _candidates(ordered: Floats, width: float, low: float, high: float) -> list[_Bump]:
    """All bumps of the Gaussian kernel density between low and high."""
    counts, edges = np.histogram(ordered, _CELLS, (low, high))
    grid = (edges[:-1] + edges[1:]) / 2.0
    kernel = np.exp(-0.5 * (np.arange(-_CELLS, _CELLS + 1) * (grid[1] - grid[0]) / width) ** 2)
    size = 4 * _CELLS
    density = np.fft.irfft(np.fft.rfft(counts, size) * np.fft.rfft(kernel, size), size)[_CELLS : 2 * _CELLS]
    # The transform leaves ripples of rounding where there is nothing.
    density = np.where(density < 1e-9 * density.max(), 0.0, density)
    changes = np.flatnonzero(np.diff(density))
    rising = np.diff(density)[changes] > 0.0
    peaks = changes[1:][rising[:-1] & ~rising[1:]]
    found: list[_Bump] = []
    for before, peak in zip([-1, *peaks[:-1].tolist()], peaks.tolist(), strict=True):
        valley, depth = -math.inf, 0.0
        if before >= 0:
            # In the middle of the floor, where the valley is flat.
            floor = before + np.flatnonzero(density[before:peak] == density[before:peak].min())
            valley, depth = float(grid[floor[floor.size // 2]]), float(density[floor[0]])
        found.append(_Bump(float(grid[peak]), float(density[peak]), valley, depth))
    return found


def _join(found: list[_Bump], right: int) -> None:
    """Joins the bump `right` with the one to its left."""
    left = found[right - 1]
    higher = max(left, found[right], key=lambda bump: bump.height)
    found[right - 1 : right + 1] = [_Bump(higher.peak, higher.height, left.valley, left.depth)]


def _join_small(found: list[_Bump], ordered: Floats) -> None:
    """Joins bumps with too few samples, the smallest first, across the shallower of their valleys."""
    while len(found) > 1:
        places = np.searchsorted(ordered, [bump.valley for bump in found[1:]])
        sizes = np.diff(np.concatenate([[0], places, [ordered.size]]))
        least = int(np.argmin(sizes))
        if sizes[least] >= _LEAST_SHARE * ordered.size:
            return
        sides = [k for k in (least, least + 1) if 0 < k < len(found)]
        _join(found, max(sides, key=lambda k: found[k].depth))


def _visits(logs: Floats, middle: float, reach: float) -> int:
    """How often the series enters the window: neighbours in it count once, they may be one excursion."""
    inside = np.abs(logs - middle) < reach
    return int(inside[0]) + int(np.count_nonzero(inside[1:] & ~inside[:-1]))


def _chance(logs: Floats, left: float, valley: float, right: float, width: float) -> float:
    """Probability of so few visits to the valley, were it as dense as the lower of its two peaks."""
    chance = 1.0
    # Wide windows hold most samples; narrow ones are entered often even while the series stays at one level.
    for reach in (min(valley - left, right - valley) / 2.0, width):
        empty = _visits(logs, valley, reach)
        full = min(_visits(logs, left, reach), _visits(logs, right, reach))
        if full > empty:
            chance = min(chance, 2.0 * binomial_cdf(empty, empty + full, 0.5))
    return chance


def valleys(logs: Floats) -> list[float]:
    """The valleys of the density of `logs` (in time order) that chance does not explain, in ascending order.

    A Gaussian kernel density proposes bumps; those of less than 5 % of the samples are joined to a neighbour; then
    each valley is tested against its lower peak by a binomial test, on visits to windows of equal width instead of
    samples, so that a slowly wandering series shows no false levels; the least significant goes first.
    """
    ordered = np.sort(logs)
    low, high = np.quantile(ordered, ((1.0 - _COVERED) / 2.0, (1.0 + _COVERED) / 2.0)).tolist()
    width = max(_width(ordered), (high - low) / _CELLS)
    if width == 0.0:
        return []
    found = _candidates(ordered, width, low - 3.0 * width, high + 3.0 * width)
    _join_small(found, ordered)
    while len(found) > 1:
        chances = [_chance(logs, a.peak, b.valley, b.peak, width) for a, b in pairwise(found)]
        worst = int(np.argmax(chances))
        if chances[worst] < _SIGNIFICANCE:
            break
        _join(found, worst + 1)
    return [bump.valley for bump in found[1:]]
