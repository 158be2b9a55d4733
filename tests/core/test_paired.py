"""The interleaved comparison on simulated process pairs: level, power, and what it refuses to say."""

from __future__ import annotations

import numpy as np
import pytest

from edgewise.core.stats import Ratio, ratio


def simulate(random: np.random.Generator, speed: float, process: float, noise: float, starts: int = 5) -> Ratio:
    """Process pairs whose members differ by `process`, in rounds with `noise`, on a machine that drifts."""
    pairs = []
    for _ in range(starts):
        a, b = 1e6 * np.exp(random.normal(0, process, 2))
        rounds = []
        for r in range(8):
            drift = 1 + 0.1 * np.sin(r)
            rounds.append(
                (a * drift * np.exp(random.normal(0, noise)), b / speed * drift * np.exp(random.normal(0, noise)))
            )
        pairs.append(rounds)
    found = ratio(pairs)
    assert found
    return found


def test_interval_covers_the_truth_in_spite_of_process_effects() -> None:
    random = np.random.default_rng(7)
    found = [simulate(random, 1.3, 0.02, 0.02) for _ in range(2000)]
    covered = np.mean([f.low <= 1.3 <= f.high for f in found])
    assert 0.935 <= covered <= 0.965


def test_equal_things_are_seldom_called_different() -> None:
    random = np.random.default_rng(8)
    assert np.mean([simulate(random, 1.0, 0.02, 0.02).different for _ in range(2000)]) <= 0.05


def test_a_three_percent_difference_shows() -> None:
    random = np.random.default_rng(9)
    assert np.mean([simulate(random, 1.03, 0.005, 0.01).different for _ in range(1000)]) >= 0.8


def test_rounds_alone_would_be_fooled() -> None:
    """Why processes are the unit: many rounds of one process pair are precise, and wrong."""
    random = np.random.default_rng(10)
    called = 0
    for _ in range(200):
        a, b = 1e6 * np.exp(random.normal(0, 0.02, 2))
        rounds = [[(a * np.exp(random.normal(0, 0.001)), b * np.exp(random.normal(0, 0.001)))] for _ in range(50)]
        naive = ratio(rounds)
        assert naive
        called += naive.different
    assert called > 100


def test_one_process_pair_has_no_interval() -> None:
    assert ratio([[(1.0, 2.0)] * 10]) is None
    assert ratio([]) is None


def test_detectable_is_the_larger_bound() -> None:
    assert Ratio(0.98, 1.0, 1.01, 0.95, 5).detectable == pytest.approx(1 / 0.98 - 1)
    assert not Ratio(0.98, 1.0, 1.01, 0.95, 5).different
    assert not Ratio(1.002, 1.004, 1.006, 0.95, 5).different
    assert Ratio(1.28, 1.31, 1.35, 0.95, 5).different
