"""Where does the steady part of a warming-up series begin?"""

from __future__ import annotations

import math

import numpy as np

from .drift import drift
from .series import Floats, Samples, as_series
from .special import t_cdf

# Five are the fewest from which "one slow, four alike" can be told.
_FEWEST = 5
# The shortest tail of which a variance is taken, and its least share of the series: shorter ones are quiet by chance.
_SHORTEST_TAIL = 3
_LEAST_TAIL_SHARE = 1 / 8
# A head is cut off only when it differs from the tail this significantly; otherwise the start counts as steady.
_HEAD_SIGNIFICANCE = 0.01
# Stricter for a change in the second half, as the place with the quietest tail was picked for it.
_LATE_SIGNIFICANCE = 0.001


def _errors(series: Floats) -> Floats:
    """The marginal standard error, squared, of the mean of series[d:], for every d."""
    centred = series - np.median(series)
    counts = np.arange(series.size, 0, -1, dtype=np.float64)
    sums = np.cumsum(centred[::-1])[::-1]
    squares = np.cumsum((centred * centred)[::-1])[::-1]
    return np.asarray((squares - sums * sums / counts) / counts**2, dtype=np.float64)


def _chance(gap: float, variance: float, head: int, tail: int, freedom: int) -> float:
    """P value of a difference of means of this size."""
    spread = math.sqrt(max(variance, 0.0) * (1.0 / head + 1.0 / tail))
    if spread <= 1e-12 * abs(gap):
        return 0.0 if gap else 1.0
    return 2.0 * t_cdf(-abs(gap) / spread, freedom)


def _head_differs(head: Floats, tail: Floats) -> bool:
    """Whether the head is not what the tail predicts: only the tail's spread counts, heads vary wildly."""
    gap = float(head.mean() - tail.mean())
    return _chance(gap, float(tail.var(ddof=1)), head.size, tail.size, tail.size - 1) < _HEAD_SIGNIFICANCE


def _still_changes(series: Floats, place: int) -> bool:
    """Whether the level changes at this place of the second half, by both parts' common spread."""
    head, tail = series[:place], series[place:]
    freedom = series.size - 2
    variance = (head.size * float(head.var()) + tail.size * float(tail.var())) / freedom
    gap = float(head.mean() - tail.mean())
    return _chance(gap, variance, head.size, tail.size, freedom) < _LATE_SIGNIFICANCE


def steady(samples: Samples) -> int | None:
    """Index at which the steady part begins (0: from the start), or None while the series is not steady yet.

    The onset is the truncation point of least marginal standard error, MSER (White 1997, "An effective
    truncation heuristic for bias reduction in simulation output"; recommended after a comparison of many methods
    by Hoad, Robinson & Davies 2010, "Automating warm-up length estimation"). It counts only when what it cuts off
    differs from the rest. Not steady yet: an onset in the second half, or a drift in what follows the onset.
    """
    series = as_series(samples)
    n = series.size
    if n < _FEWEST:
        return None
    errors = _errors(series)
    half = n // 2
    onset = int(np.argmin(errors[: half + 1]))
    if onset and not _head_differs(series[:onset], series[onset:]):
        onset = 0
    last = n - max(_SHORTEST_TAIL, math.ceil(n * _LEAST_TAIL_SHARE))
    late = int(np.argmin(errors[: last + 1]))
    if onset == half or (late > half and _still_changes(series[onset:], late - onset)):
        return None
    return None if drift(series[onset:]).flagged else onset
