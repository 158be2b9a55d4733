"""The distribution functions the tests here need: Student, F and binomial, without scipy.

They come from the regularized incomplete beta function, by its continued fraction
(DLMF 8.17.22; evaluated as in Lentz 1976, "Generating Bessel functions in Mie scattering calculations").
"""

from __future__ import annotations

import math
from functools import lru_cache

# Lentz's method converges in O(sqrt(max(a, b))) steps; 2,000 serve counts far beyond a million.
_STEPS = 2_000
_TINY = 1e-300
_PRECISION = 1e-14
# Halving an interval of 1e3 this often leaves less than double precision.
_HALVINGS = 80
# Student's quantile is below this at every level and degree of freedom asked for here (t = 636 at 99.9 %, 1 dof).
_T_MAX = 1e3


def _fraction(a: float, b: float, x: float) -> float:
    c, d = 1.0, 1.0 - (a + b) * x / (a + 1.0)
    d = 1.0 / (d if abs(d) > _TINY else _TINY)
    value = d
    for m in range(1, _STEPS):
        for numerator in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1.0 + numerator * d
            d = 1.0 / (d if abs(d) > _TINY else _TINY)
            c = 1.0 + numerator / c
            c = c if abs(c) > _TINY else _TINY
            value *= c * d
        if abs(c * d - 1.0) < _PRECISION:
            break
    return value


def beta_cdf(a: float, b: float, x: float) -> float:
    """The regularized incomplete beta function I_x(a, b)."""
    if x <= 0.0:
        return 0.0
    if x >= 1.0:
        return 1.0
    log_front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    front = math.exp(log_front)
    # The fraction converges fast only below the mean; above it the symmetric form is used.
    if x < (a + 1.0) / (a + b + 2.0):
        return front * _fraction(a, b, x) / a
    return 1.0 - front * _fraction(b, a, 1.0 - x) / b


def binomial_cdf(k: int, n: int, p: float) -> float:
    """P(X <= k) for X binomial(n, p)."""
    if k < 0:
        return 0.0
    return 1.0 if k >= n else beta_cdf(n - k, k + 1.0, 1.0 - p)


def f_tail(value: float, above: float, below: float) -> float:
    """P(F > value) with `above` and `below` degrees of freedom."""
    return beta_cdf(below / 2.0, above / 2.0, below / (below + above * value)) if value > 0.0 else 1.0


def t_cdf(value: float, freedom: float) -> float:
    tail = 0.5 * beta_cdf(freedom / 2.0, 0.5, freedom / (freedom + value * value))
    return 1.0 - tail if value > 0.0 else tail


@lru_cache(maxsize=4096)
def t_quantile(level: float, freedom: float) -> float:
    """Student's quantile for a level of at least one half."""
    low, high = 0.0, _T_MAX
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if t_cdf(middle, freedom) < level else (low, middle)
    return high
