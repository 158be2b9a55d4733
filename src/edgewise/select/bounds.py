"""How large the mean of losses of -1, 0 and 1 may be: upper bounds that hold whatever their distribution.

`exact` is the default. The losses have three values, so what is unknown is two numbers: their mean, and the share of
answers that differ from the reference's. For a grid of such shares that the data leave possible, the chance of a sum as
small as the one seen is computed, not bounded, and the largest counts (Berger & Boos 1994, "P values maximized over a
confidence set for the nuisance parameter"). Of these bounds it is the tightest on average where luck sets off harm, and
the same at every call; betting comes near, and depends on the order of the images.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from ..core.stats.special import beta_cdf

Losses = NDArray[np.int64]
# The part of delta that the confidence set of the share of answers that differ may be wrong with.
_SET_ASIDE = 0.1
# Shares of it that are tried, evenly. The chance mostly grows with the share, so that the last one decides. Not where
# nearly all answers differ: sums are then nearly all even or nearly all odd, and the chance of those up to a number of
# the other kind turns back. That happens within a few answers of all, so shares that many answers below the end are
# tried as well. Nothing proves that no larger chance lies between them; tests look closely.
_PLACES = 17
_BELOW = (0.125, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0)
_HALVINGS = 28
# Of delta, against the rounding of a Fourier transform of some ten thousand terms.
_ROUNDING = 1e-9


def share_limits(hits: int, count: int, error: float) -> tuple[float, float]:
    """The exact interval of a share (Clopper & Pearson 1934); either end is wrong with at most half of `error`."""
    low = 0.0 if hits == 0 else _root(lambda share: beta_cdf(hits, count - hits + 1, share) - error / 2)
    high = 1.0 if hits == count else _root(lambda share: beta_cdf(hits + 1, count - hits, share) - (1 - error / 2))
    return low, high


def _root(rising: Callable[[float], float], low: float = 0.0, high: float = 1.0) -> float:
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if rising(middle) > 0 else (middle, high)
    return (low + high) / 2


def at_most(total: int, count: int, harm: float, luck: float) -> float:
    """The chance that `count` losses add up to `total` or less: from the product of their characteristic functions."""
    if total >= count:
        return 1.0
    size = 1 << (2 * count + 1).bit_length()
    turn = np.exp(2j * np.pi * np.arange(size // 2 + 1) / size)
    values = (harm * turn + luck * turn.conj() + max(0.0, 1 - harm - luck)) ** count
    # The transform's place k is the sum k, and -k from its end.
    masses = np.fft.irfft(values.conj(), size)
    head = masses[: total + 1].sum() if total >= 0 else -masses[size + total + 1 :].sum()
    return float(min(1.0, max(0.0, masses[size - count :].sum() + head)))


def p_exact(losses: Losses, epsilon: float, delta: float) -> float:
    """Valid for every distribution whose mean is above epsilon: where as many answers differ, a larger mean only makes
    a small sum rarer."""
    count, total, differing = len(losses), int(losses.sum()), int((losses != 0).sum())
    error = _SET_ASIDE * delta
    most = share_limits(differing, count, 2 * error)[1]
    # The mean is no larger than the share of answers that differ.
    least = min(max(epsilon, 0.0), 1.0)
    if most < least:
        return min(1.0, error + _ROUNDING)
    worst = 0.0
    below = [most - by / count for by in _BELOW] if most > 1 - _BELOW[-1] / count else []
    for differ in (*np.linspace(least, most, _PLACES), *(share for share in below if share > least)):
        mean = max(epsilon, -float(differ))
        worst = max(worst, at_most(total, count, (differ + mean) / 2, (differ - mean) / 2))
    return min(1.0, worst + error + _ROUNDING)


def _exact(losses: Losses, delta: float) -> float:
    return _root(lambda bound: delta - p_exact(losses, bound, delta), float(losses.mean()), 1.0)


def _betting(losses: Losses, delta: float) -> float:
    """Wealth from betting against a mean of at least the bound, the stakes growing with what was learned before
    (Waudby-Smith & Ramdas 2024, "Estimating means of bounded random variables by betting")."""
    order = np.random.default_rng(0).permutation(len(losses))
    scaled = (losses[order] + 1) / 2
    counts = np.arange(1, len(scaled) + 1)
    means = (0.5 + np.cumsum(scaled)) / (counts + 1)
    spread = (0.25 + np.cumsum((scaled - means) ** 2)) / (counts + 1)
    before = np.concatenate([[0.25], spread[:-1]])
    stakes = np.sqrt(2 * math.log(1 / delta) / (len(scaled) * before))

    def wealth(bound: float) -> float:
        stake = np.minimum(stakes, 0.9 / max(1e-9, 1 - bound))
        grown = np.cumsum(np.log1p(-stake * (scaled - bound)))
        return float(grown.max()) - math.log(1 / delta)

    return 2 * _root(wealth, float(scaled.mean()), 1.0) - 1


def _bernstein(losses: Losses, delta: float) -> float:
    """Maurer & Pontil 2009, "Empirical Bernstein bounds and sample variance penalization", for a range of two."""
    count, spread = len(losses), float(losses.var(ddof=1)) if len(losses) > 1 else 1.0
    log = math.log(2 / delta)
    return float(losses.mean()) + math.sqrt(2 * spread * log / count) + 14 * log / (3 * max(1, count - 1))


def _hoeffding(losses: Losses, delta: float) -> float:
    return float(losses.mean()) + math.sqrt(2 * math.log(1 / delta) / len(losses))


def _harm(losses: Losses, delta: float) -> float:
    """Of the share of harm alone: luck is not set against it."""
    return share_limits(int((losses == 1).sum()), len(losses), 2 * delta)[1]


# Each gives, at level delta, an upper bound of the mean.
BOUNDS: Mapping[str, Callable[[Losses, float], float]] = {
    "exact": _exact,
    "betting": _betting,
    "bernstein": _bernstein,
    "hoeffding": _hoeffding,
    "harm": _harm,
}


def shown(losses: Losses, epsilon: float, delta: float, method: str) -> bool:
    """Whether the mean is at most epsilon, at level delta."""
    if method == "exact":
        return p_exact(losses, epsilon, delta) <= delta
    return BOUNDS[method](losses, delta) <= epsilon
