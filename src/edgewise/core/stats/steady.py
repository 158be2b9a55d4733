"""Where does the steady part of a warming-up series begin?"""

from __future__ import annotations

import numpy as np

from .drift import drift
from .series import Floats, Samples, as_series
from .special import t_cdf

# Two samples may agree by chance; five are the fewest from which "one slow, four alike" can be told.
_FEWEST = 5
# A head is cut off only when it differs from the tail this significantly: otherwise the start counts as steady.
_SIGNIFICANCE = 0.01


def _truncation(series: Floats) -> int:
    """The truncation point that minimizes the marginal standard error, sought in the first half (MSER)."""
    # Sums over tails, from the end: count, sum and sum of squares of series[d:].
    centred = series - np.median(series)
    counts = np.arange(series.size, 0, -1)
    sums = np.cumsum(centred[::-1])[::-1]
    squares = np.cumsum((centred * centred)[::-1])[::-1]
    error = (squares - sums * sums / counts) / counts.astype(np.float64) ** 2
    return int(np.argmin(error[: series.size // 2 + 1]))


def _differs(head: Floats, tail: Floats) -> bool:
    """Whether the head lies outside what the tail predicts for a mean of as many samples (two-sided t)."""
    spread = float(tail.std(ddof=1)) * float(np.sqrt(1.0 / head.size + 1.0 / tail.size))
    gap = abs(float(head.mean() - tail.mean()))
    if spread == 0.0:
        return gap > 0.0
    return 2.0 * t_cdf(-gap / spread, tail.size - 1) < _SIGNIFICANCE


def steady(samples: Samples) -> int | None:
    """Index at which the steady part begins (0: from the start), or None while the series is not steady yet.

    The onset is the truncation point of least marginal standard error, MSER (White 1997, "An effective
    truncation heuristic for bias reduction in simulation output"; recommended among 44 methods by Hoad,
    Robinson & Davies 2010, "Automating warm-up length estimation"). It counts only when what it cuts off differs
    from the rest; and the rest, at least half of the series, must not drift.
    """
    series = as_series(samples)
    if series.size < _FEWEST:
        return None
    onset = _truncation(series)
    if onset and not _differs(series[:onset], series[onset:]):
        onset = 0
    return None if drift(series[onset:]).flagged else onset
