"""A straight line through logarithms, and how far two orders agree: what predicts what, and with which exponent."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .series import Floats
from .special import t_quantile


@dataclass(frozen=True, slots=True)
class PowerLaw:
    """y = factor · x^exponent. `r2` is the share of the variance of log y it explains; `low` and `high` are the ends of
    the exponent's interval, None where two points leave nothing to judge it by."""

    exponent: float
    factor: float
    r2: float
    points: int
    low: float | None
    high: float | None

    def at(self, x: float) -> float:
        return self.factor * math.exp(self.exponent * math.log(x))


def power_law(x: Sequence[float], y: Sequence[float], level: float = 0.95) -> PowerLaw | None:
    """Least squares on logarithms. None where there are not two different x."""
    if len(set(x)) < 2:
        return None
    a, b = np.log(np.asarray(x, np.float64)), np.log(np.asarray(y, np.float64))
    spread = float(((a - a.mean()) ** 2).sum())
    exponent = float(((a - a.mean()) * (b - b.mean())).sum()) / spread
    left = b - b.mean() - exponent * (a - a.mean())
    total, unexplained = float(((b - b.mean()) ** 2).sum()), float((left**2).sum())
    low = high = None
    if len(x) > 2:
        half = t_quantile(0.5 + level / 2, len(x) - 2) * math.sqrt(unexplained / (len(x) - 2) / spread)
        low, high = exponent - half, exponent + half
    factor = math.exp(float(b.mean()) - exponent * float(a.mean()))
    return PowerLaw(exponent, factor, 1.0 - unexplained / total if total else 1.0, len(x), low, high)


def rank_correlation(x: Sequence[float], y: Sequence[float]) -> float | None:
    """Spearman's: 1 where both put things in the same order, -1 in the opposite one; ties share a rank."""
    if len(set(x)) < 2 or len(set(y)) < 2:
        return None
    return float(np.corrcoef(_ranks(x), _ranks(y))[0, 1])


def _ranks(values: Sequence[float]) -> Floats:
    series = np.asarray(values, np.float64)
    _, place, counts = np.unique(series, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    ranks: Floats = (ends - (counts - 1) / 2)[place]
    return ranks
