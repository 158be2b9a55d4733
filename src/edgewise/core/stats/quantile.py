"""Percentiles: how many samples one needs, its estimate, and its interval."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ..errors import InputError
from .dependence import BATCH_FREEDOM, cautious_inflation
from .drift import drift
from .series import Floats, Samples, as_series
from .special import t_quantile

# Times the limits are moved to where their own variance puts them; more change nothing that simulation shows.
_REFINEMENTS = 2


@dataclass(frozen=True, slots=True)
class Interval:
    """Where a quantile lies, at a confidence `level`."""

    low: float
    estimate: float
    high: float
    level: float

    @property
    def relative_width(self) -> float:
        if self.high == self.low:
            return 0.0
        return (self.high - self.low) / self.estimate if self.estimate else math.inf


def check_probability(p: float, name: str = "a quantile") -> None:
    if not 0.0 < p < 1.0:
        raise InputError(f"{name} lies between 0 and 1, such as 0.99; found {p}")


@lru_cache(maxsize=256)
def floor(p: float, confidence: float = 0.99) -> int:
    """The fewest samples that can carry the p-quantile at this confidence.

    LoadGen's early-stopping rule (MLPerf Inference, `loadgen/early_stopping.cc`): so many that at most one
    of them beyond the quantile would be a surprise of probability 1 - confidence.
    """
    check_probability(p)
    check_probability(confidence, "a confidence")
    rare = min(p, 1.0 - p)

    def surprise(n: int) -> float:
        return math.exp(n * math.log1p(-rare)) + n * rare * math.exp((n - 1) * math.log1p(-rare))

    low, high = 1, 2
    while surprise(high) > 1.0 - confidence:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if surprise(middle) > 1.0 - confidence else (low, middle)
    return high


def carries(n: int, p: float) -> bool:
    """Whether n samples can carry the p-quantile."""
    return n >= floor(p)


def quantile(samples: Samples, p: float) -> float:
    """The p-quantile, linear between order statistics (Hyndman & Fan 1996, "Sample quantiles", type 7)."""
    check_probability(p)
    series = as_series(samples)
    if not series.size:
        raise InputError("a quantile needs at least one sample, found none")
    return float(np.quantile(series, p))


def _bounds(ordered: Floats, p: float, spread: float) -> tuple[float, float]:
    """Order statistics `spread` ranks to either side of the quantile's."""
    n = ordered.size
    low = max(math.floor(n * p - spread), 1)
    high = min(math.ceil(n * p + spread) + 1, n)
    return float(ordered[low - 1]), float(ordered[high - 1])


def interval(samples: Samples, p: float = 0.5, level: float = 0.95, *, check_drift: bool = True) -> Interval | None:
    """A distribution-free interval for the p-quantile of a stationary, possibly dependent series.

    Order statistics around the quantile's rank, as for independent samples (Conover 1999, "Practical
    Nonparametric Statistics", 3.2), as many ranks away as the long-run variance of the series "is this sample
    below the quantile?" demands (Heidelberger & Lewis 1984, "Quantile estimation in dependent sequences"), with
    Student's quantile because that variance is estimated. The limits are values that the data do not
    reject, so the variance is also taken at the limits: where levels alternate in phases it is larger there.

    None when there are fewer samples than the quantile's floor, or when the series drifts: then no single
    number is being estimated.
    """
    check_probability(level, "a confidence level")
    series = as_series(samples)
    n = series.size
    if not carries(n, p) or (check_drift and drift(series).flagged):
        return None
    ordered = np.sort(series)
    factor = t_quantile((1.0 + level) / 2.0, BATCH_FREEDOM) * math.sqrt(n * p * (1.0 - p))

    def limits(value: float) -> tuple[float, float]:
        below = (series <= value).astype(np.float64)
        return _bounds(ordered, p, factor * math.sqrt(cautious_inflation(below)))

    estimate = float(np.quantile(ordered, p))
    low, high = limits(estimate)
    for _ in range(_REFINEMENTS):
        wider = min(low, limits(low)[0]), max(high, limits(high)[1])
        if wider == (low, high):
            break
        low, high = wider
    return Interval(min(low, estimate), estimate, max(high, estimate), level)
