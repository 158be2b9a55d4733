"""The distribution functions against scipy's, where scipy is installed."""

from __future__ import annotations

import pytest

from edgewise.core.stats.special import beta_cdf, binomial_cdf, f_tail, t_cdf, t_quantile


@pytest.fixture(scope="module")
def oracle():
    return pytest.importorskip("scipy.stats", reason="scipy is the oracle of this test")


@pytest.mark.parametrize(
    ("k", "n", "p"), [(0, 1, 0.5), (3, 10, 0.3), (640, 66_000, 0.01), (10, 10, 0.2), (90, 1_000, 0.1)]
)
def test_binomial(oracle, k: int, n: int, p: float) -> None:
    assert binomial_cdf(k, n, p) == pytest.approx(oracle.binom.cdf(k, n, p), rel=1e-9)


@pytest.mark.parametrize("freedom", [1.0, 3.0, 12.0, 500.0])
@pytest.mark.parametrize("level", [0.6, 0.9, 0.975, 0.9995])
def test_student(oracle, level: float, freedom: float) -> None:
    value = t_quantile(level, freedom)
    assert value == pytest.approx(oracle.t.ppf(level, freedom), rel=1e-8)
    assert t_cdf(value, freedom) == pytest.approx(level, rel=1e-9)
    assert t_cdf(-value, freedom) == pytest.approx(1.0 - level, rel=1e-6)


@pytest.mark.parametrize("value", [0.0, 0.1, 1.0, 4.2, 80.0])
def test_f(oracle, value: float) -> None:
    assert f_tail(value, 1.0, 22.0) == pytest.approx(oracle.f.sf(value, 1, 22), rel=1e-9, abs=1e-15)


def test_beta_at_its_ends() -> None:
    assert beta_cdf(2.0, 3.0, -1.0) == beta_cdf(2.0, 3.0, 0.0) == 0.0
    assert beta_cdf(2.0, 3.0, 1.0) == 1.0
    assert binomial_cdf(-1, 5, 0.5) == 0.0
