"""How much less a dependent sample tells than its length suggests."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from .series import Floats, Samples, as_series, ranks

# Autocovariances beyond a quarter of the series rest on too few products to be worth adding up.
_LONGEST_LAG_SHARE = 4
# Overlapping batches of an eighth of the series (and of a sixteenth): long enough to hold a correlation that is weak
# but long, which Geyer's sum loses in the noise, and enough of them for 12 degrees of freedom.
_BATCHES = 8
BATCH_FREEDOM = 1.5 * _BATCHES
# Standard errors by which the inflation found is raised: a series that met few of its bursts looks both faster and
# more independent than it is. Tuned by simulation so that intervals cover under bursts (benchmarks/coverage.py).
_ERRORS = 3.0
# A shorter series has no autocovariances to speak of.
_SHORTEST = 8


@dataclass(frozen=True, slots=True)
class Dependence:
    """`lag1`: autocorrelation of neighbours (of ranks); `inflation`: by how much the variance of a mean
    exceeds that of as many independent samples, never below 1; `effective`: samples / inflation."""

    lag1: float
    inflation: float
    effective: float


@dataclass(frozen=True, slots=True)
class LongRun:
    """Long-run variance over plain variance, and the lag after which no correlation was added."""

    lag1: float
    inflation: float
    lag: int


def long_run(series: Floats) -> LongRun:
    """Variance inflation of the series' mean, by Geyer's initial monotone sequence.

    Sums of neighbouring pairs of autocovariances of a reversible chain are positive and fall; the sum stops
    where the estimate turns negative and may never rise (Geyer 1992, "Practical Markov chain Monte Carlo",
    section 3.3). The estimate adapts to the length of the dependence and errs upwards.
    """
    n = series.size
    centred = series - series.mean() if n else series
    variance = float(centred @ centred)
    # Rounding leaves a constant series a "variance" near the square of the machine epsilon.
    if n < _SHORTEST or variance <= n * (1e-12 * float(np.abs(series).max())) ** 2:
        return LongRun(0.0, 1.0, 0)
    width = 1 << (2 * n - 1).bit_length()
    spectrum = np.fft.rfft(centred, width)
    rho = np.fft.irfft(spectrum * spectrum.conj(), width)[: n // _LONGEST_LAG_SHARE + 1] / variance
    pairs = rho[: rho.size // 2 * 2].reshape(-1, 2).sum(axis=1)
    negative = np.flatnonzero(pairs <= 0.0)
    kept = np.minimum.accumulate(pairs[: int(negative[0]) if negative.size else pairs.size])
    inflation = max(1.0, 2.0 * float(kept.sum()) - 1.0)
    return LongRun(float(rho[1]), inflation, 2 * kept.size)


def _batched(series: Floats, batches: int) -> float:
    """Variance inflation of the series' mean by overlapping batch means.

    Meketon & Schmeiser 1984, "Overlapping batch means: something for nothing?", with the correction for the
    share of the series one batch takes.
    """
    size = series.size // batches
    if size < 2:
        return 1.0
    sums = np.concatenate([[0.0], np.cumsum(series - series.mean())])
    squares = (sums[size:] - sums[:-size]) ** 2
    return float(squares.mean()) / (size * float(series.var()) * (1.0 - size / series.size))


def cautious_inflation(series: Floats) -> float:
    """Variance inflation of the series' mean, erring upwards; for intervals, with BATCH_FREEDOM degrees of freedom.

    The largest of Geyer's estimate, two lengths of batches, and the extrapolation of these two that is free of
    the error of order 1 / length (a flat-top window: Politis & Romano 1995, "Bias-corrected nonparametric
    spectral estimation"), raised by its uncertainty.
    """
    if series.size < _SHORTEST or series.min() == series.max():
        return 1.0
    long, short = _batched(series, _BATCHES), _batched(series, 2 * _BATCHES)
    found = max(1.0, long_run(series).inflation, long, short, 2.0 * long - short)
    return found + _ERRORS * (found - 1.0) * math.sqrt(found / series.size)


def dependence(samples: Samples) -> Dependence:
    """Dependence of the series in time, measured on ranks so that no outlier dominates it."""
    series = as_series(samples)
    found = long_run(ranks(series))
    return Dependence(found.lag1, found.inflation, series.size / found.inflation)
