"""Shares of right answers: intervals that cover, McNemar's test that errs as often as it says."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest

from edgewise.core.stats import Discordance, wilson


@pytest.mark.parametrize(("hits", "count"), [(0, 10), (10, 10), (5805, 10000), (1, 3), (999, 1000)])
def test_the_interval_of_a_share_is_wilsons(hits: int, count: int) -> None:
    expected = binomtest(hits, count).proportion_ci(method="wilson")
    assert wilson(hits, count) == pytest.approx((expected.low, expected.high), abs=1e-9)


@pytest.mark.parametrize(("first", "second"), [(0, 0), (3, 3), (1, 9), (40, 12), (500, 430)])
def test_p_is_the_exact_binomial_one(first: int, second: int) -> None:
    pair = Discordance(first, second, 5000)
    exact = binomtest(first, first + second).pvalue if first + second else 1.0
    assert pair.p == pytest.approx(exact, rel=1e-6)


def test_the_interval_of_a_difference_covers() -> None:
    """20,000 simulated pairs of models that differ by a point and disagree on a tenth of 1,000 images."""
    random = np.random.default_rng(0)
    draws = random.multinomial(1000, (0.045, 0.055, 0.9), size=20_000)
    pairs = [Discordance(int(first), int(second), 1000) for first, second, _ in draws]
    covered = np.mean([pair.interval[0] <= 0.01 <= pair.interval[1] for pair in pairs])
    assert 0.94 < covered < 0.965


def test_equal_models_are_called_different_as_often_as_promised() -> None:
    random = np.random.default_rng(1)
    draws = random.multinomial(1000, (0.05, 0.05, 0.9), size=5_000)
    assert np.mean([Discordance(int(a), int(b), 1000).p < 0.05 for a, b, _ in draws]) <= 0.05


def test_a_difference_has_a_sign() -> None:
    pair = Discordance(only_first=10, only_second=30, count=1000)
    assert pair.difference == pytest.approx(0.02)
    assert pair.interval[0] > 0 and pair.p < 0.01
