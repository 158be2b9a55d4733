"""May one claim that a percentile of the latency lies below a bound, having looked as often as one likes?"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from .dispersion import dispersion
from .quantile import check_probability
from .series import Floats, Samples, as_series

# Mean length, in samples, of the longest bursts assumed until the series itself has shown how it clusters.
LONGEST_DEPENDENCE = 20.0
# Odds of exceeding the bound, relative to those permitted, that the test bets on, and how much of the stake goes to
# each. Most is on 0.8: a system 20 % inside its bound is the one that should not have to wait.
_BETS = ((0.02, 2), (0.1, 2), (0.25, 2), (0.4, 2), (0.5, 2), (0.6, 2), (0.7, 3), (0.75, 4), (0.8, 5), (0.85, 4),
         (0.9, 3), (0.95, 2))  # fmt: skip
_STAKE = sum(stake for _, stake in _BETS)
# Halvings of the unit interval until the upper limit of the rate is exact to double precision.
_HALVINGS = 50


@dataclass(frozen=True, slots=True)
class Certificate:
    """The verdict on "the p-quantile is at most `bound`", that is "at most a share 1 - p exceeds it".

    `certified` and `refuted` may both be false: not decided yet. `rate_upper` is the upper limit of the share that
    exceeds the bound, valid at every look; `over` of `n` samples did; `inflation` is the variance over that of
    independent samples that was allowed for.
    """

    certified: bool
    refuted: bool
    rate_upper: float
    over: int
    n: int
    inflation: float


def evidence(
    over: NDArray[np.float64] | float,
    n: NDArray[np.float64] | float,
    inflation: NDArray[np.float64] | float,
    rate: float,
    *,
    below: bool = True,
) -> Floats:
    """Logarithm of the wealth won by betting that the share over the bound is below (or above) `rate`.

    Each bet's wealth is exp(-s over) / E[exp(-s over)] where clusters of geometric size arrive independently
    (the Pólya-Aeppli law; inflation = 2 mean size - 1, and 1 is the binomial law, for which this is exact): a test
    martingale, which exceeds 1 / error with a probability of at most `error` over all looks together
    (Ville 1939, "Étude critique de la notion de collectif"; Robbins 1970, "Statistical methods related to the law of
    the iterated logarithm", for mixtures; Waudby-Smith et al. 2024, "Time-uniform central limit theory and
    asymptotic confidence sequences", for an estimated variance).
    """
    size = (np.asarray(inflation, dtype=np.float64) + 1.0) / 2.0
    total: Floats | None = None
    for odds, stake in _BETS:
        ratio = odds if below else 1.0 / odds
        # The discount per sample over the bound that is best when their number is `ratio` times the expected.
        twice = 2.0 * ratio * size * (size - 1.0) + 1.0
        discount = 2.0 * ratio * size * size / (twice + np.sqrt(2.0 * twice - 1.0))
        hit = rate * (1.0 - discount) / (size - (size - 1.0) * discount)
        wealth = math.log(stake / _STAKE) + over * np.log(discount) - n * np.log1p(-hit)
        total = wealth if total is None else np.logaddexp(total, wealth)
    return np.asarray(total, dtype=np.float64)


def _rate_upper(over: int, n: int, inflation: float, error: float) -> float:
    """The smallest rate that the evidence excludes; it grows with the rate."""
    low, high = over / n, 1.0
    if evidence(over, n, inflation, high) < -math.log(error):
        return 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        enough = evidence(over, n, inflation, middle) >= -math.log(error)
        low, high = (low, middle) if enough else (middle, high)
    return high


def certify(
    samples: Samples,
    bound: float,
    p: float = 0.99,
    confidence: float = 0.99,
    longest_dependence: float = LONGEST_DEPENDENCE,
) -> Certificate:
    """Whether the samples so far prove, or refute, that the p-quantile of the latency is at most `bound`.

    May be asked after every few samples: over all looks together a system exactly at the bound is certified with
    a probability of at most 1 - confidence. Samples may be dependent: how much the exceedances cluster is
    estimated from them (`dispersion`), and until some ten clusters were seen, bursts of a mean length of
    `longest_dependence` samples are assumed. Bursts much longer than that can deceive the test; see
    docs/concepts/statistics.md for how often. 1 means: independent unless seen otherwise.
    """
    check_probability(p, "a percentile")
    check_probability(confidence, "a confidence")
    if longest_dependence < 1.0:
        raise InputError(f"the longest dependence is at least one sample, found {longest_dependence}")
    series = as_series(samples)
    n, error = series.size, 1.0 - confidence
    if not n:
        return Certificate(False, False, 1.0, 0, 0, 2.0 * longest_dependence - 1.0)
    exceeds = series > bound
    over = int(np.count_nonzero(exceeds))
    inflation = float(dispersion(exceeds, np.array([n]), longest_dependence)[0])
    refuted = bool(evidence(over, n, inflation, 1.0 - p, below=False) >= -math.log(error))
    upper = _rate_upper(over, n, inflation, error)
    return Certificate(upper <= 1.0 - p, refuted, upper, over, n, inflation)
