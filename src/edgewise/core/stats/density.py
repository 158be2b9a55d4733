"""Bumps of a density that are separated by valleys deeper than chance makes them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from .series import Floats
from .special import binomial_cdf

# Grid of the kernel density: fine enough for a bandwidth of a few cells over the central range.
_CELLS = 2048
# The grid covers the central part of the samples; what lies outside can make no mode of 5 %.
_COVERED = 0.99
# Probability that a valley as deep as the kept ones appears where there is none; small because the valley and the
# peaks are picked from the same data, and there are several to pick from.
_SIGNIFICANCE = 0.001
# Kernel width relative to Silverman's rule of thumb (1986, "Density Estimation", 3.31).
_BANDWIDTH = 0.9


@dataclass(frozen=True, slots=True)
class Bump:
    """A peak, and the valley to its left with the density there (none for the first)."""

    peak: float
    valley: float
    height: float


def undithered(series: Floats) -> Floats:
    """The series with the steps of a coarse clock filled: equal readings are spread over the clock's step.

    Otherwise every tick of the clock would be a mode. Only whole numbers can come from such a clock.
    """
    values, inverse = np.unique(series, return_inverse=True)
    if values.size < 2 or not (series == np.rint(series)).all() or values[-1] >= 2.0**53:
        return series
    step = float(np.gcd.reduce(np.diff(values).astype(np.int64)))
    step = min(step, float(values[0]))
    # The golden ratio's multiples spread equal readings evenly, whatever their number, without a random generator.
    spread = (np.arange(series.size) * 0.6180339887498949) % 1.0 - 0.5
    return series + spread * step


def _visits(logs: Floats, low: float, high: float) -> int:
    """How often the series enters the window: neighbours inside it count once, as they may be one excursion."""
    inside = (logs >= low) & (logs < high)
    return int(inside[0]) + int(np.count_nonzero(inside[1:] & ~inside[:-1]))


def _width(ordered: Floats) -> float:
    """Kernel width from the shortest half: several levels far apart do not blur it."""
    half = ordered.size // 2
    spread = float((ordered[half:] - ordered[: ordered.size - half]).min()) / 1.349
    return _BANDWIDTH * spread * ordered.size**-0.2


def _significant(logs: Floats, left: float, valley: float, right: float, width: float) -> float:
    """Probability of a valley so empty between the two peaks, were it as dense as the lower of them."""
    chance = 1.0
    # Wide windows hold most samples; narrow ones are entered often even while the series stays at one level.
    for reach in (min(valley - left, right - valley) / 2.0, width):
        empty = _visits(logs, valley - reach, valley + reach)
        full = min(_visits(logs, peak - reach, peak + reach) for peak in (left, right))
        if full > empty:
            chance = min(chance, 2.0 * binomial_cdf(empty, empty + full, 0.5))
    return chance


def bumps(logs: Floats) -> list[Bump]:
    """Peaks of the density of `logs` (in time order), those joined whose valley is no deeper than chance.

    A Gaussian kernel density finds the candidates; each valley is then tested by a binomial test on visits, not
    samples, to windows of equal width at the valley and at its peaks, so that a slowly wandering series shows
    no false levels. The least significant valley is removed until all are significant.
    """
    ordered = np.sort(logs)
    margin = (1.0 - _COVERED) / 2.0
    low, high = (float(v) for v in np.quantile(ordered, (margin, 1.0 - margin)))
    width = max(_width(ordered), (high - low) / _CELLS)
    if high <= low:
        return [Bump(low, -math.inf, 0.0)]
    low, high = low - 3.0 * width, high + 3.0 * width
    cell = (high - low) / _CELLS
    counts, edges = np.histogram(logs, _CELLS, (low, high))
    grid = (edges[:-1] + edges[1:]) / 2.0
    kernel = np.exp(-0.5 * (np.arange(-_CELLS, _CELLS + 1) * cell / width) ** 2)
    size = 4 * _CELLS
    density = np.fft.irfft(np.fft.rfft(counts, size) * np.fft.rfft(kernel, size), size)[_CELLS : 2 * _CELLS]
    # The transform leaves ripples of rounding where there is nothing.
    density = np.where(density < 1e-9 * density.max(), 0.0, density)
    rises = np.flatnonzero(np.diff(density))
    slope = np.sign(np.diff(density)[rises])
    peaks = [int(rises[k]) + 1 for k in range(rises.size - 1) if slope[k] > 0 > slope[k + 1]]
    found: list[Bump] = []
    for k, peak in enumerate(peaks):
        if k == 0:
            found.append(Bump(float(grid[peak]), -math.inf, 0.0))
            continue
        between = density[peaks[k - 1] : peak + 1]
        flat = np.flatnonzero(between == between.min())
        deepest = peaks[k - 1] + int(flat[flat.size // 2])
        found.append(Bump(float(grid[peak]), float(grid[deepest]), float(density[deepest])))
    heights = {float(grid[peak]): float(density[peak]) for peak in peaks}
    while len(found) > 1:
        chances = [
            _significant(logs, a.peak, b.valley, b.peak, width) for a, b in zip(found[:-1], found[1:], strict=True)
        ]
        worst = int(np.argmax(chances))
        if chances[worst] < _SIGNIFICANCE:
            break
        joined = max(found[worst], found[worst + 1], key=lambda bump: heights[bump.peak])
        found[worst : worst + 2] = [Bump(joined.peak, found[worst].valley, found[worst].height)]
    return found
