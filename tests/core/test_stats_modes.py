"""Levels of latency and how a series moves between them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgewise.core.stats import modes

LEVELS = np.array([100.0, 130.0, 180.0])
SHARES = [0.60, 0.25, 0.15]


def planted(rng: np.random.Generator, n: int, dwell: int) -> np.ndarray:
    """Three levels with fixed shares, `dwell` samples at a time."""
    labels = np.repeat(rng.choice(3, n // dwell, p=SHARES), dwell)
    return LEVELS[labels] * rng.lognormal(0.0, 0.02, labels.size)


def test_three_planted_levels_are_found_with_their_shares() -> None:
    rng = np.random.default_rng(0)
    for n in (300, 2_000, 20_000):
        found = modes(planted(rng, n, 1))
        assert [mode.center for mode in found.modes] == pytest.approx(LEVELS, rel=0.02)
        assert [mode.share for mode in found.modes] == pytest.approx(SHARES, abs=0.08)
        assert sum(mode.share for mode in found.modes) == pytest.approx(1.0)
        assert all(mode.low <= mode.center <= mode.high for mode in found.modes)
        assert found.alternation == "mixed"
        assert found.switches == pytest.approx(found.expected_switches, rel=0.15)


def test_phases_are_told_from_mixing_and_their_length_is_measured() -> None:
    found = modes(planted(np.random.default_rng(1), 6_000, 25))
    assert len(found.modes) == 3
    assert found.alternation == "phases"
    # A phase is often followed by another of the same level: 25 / (1 - sum of squared shares).
    assert found.mean_dwell == pytest.approx(25 / (1 - sum(share**2 for share in SHARES)), rel=0.2)


def test_strict_alternation_is_seen() -> None:
    rng = np.random.default_rng(2)
    found = modes(np.tile([100.0, 120.0], 200) * rng.lognormal(0.0, 0.01, 400))
    assert len(found.modes) == 2
    assert found.alternation == "alternating"
    assert found.switches == 399


def test_one_level_alternates_with_nothing() -> None:
    found = modes(np.random.default_rng(3).lognormal(0.0, 0.05, 500))
    assert len(found.modes) == 1
    assert found.alternation == "none"
    assert found.mean_dwell == 500


def false_rate(series: np.ndarray) -> float:
    return float(np.mean([len(modes(row).modes) > 1 for row in series]))


@pytest.mark.parametrize(("n", "runs"), [(64, 150), (1_000, 100), (10_000, 15)])
def test_one_level_is_not_taken_for_several(n: int, runs: int) -> None:
    rng = np.random.default_rng(4)
    spikes = (rng.random((runs, n)) < 0.03) * rng.exponential(0.5, (runs, n))
    walk = rng.standard_normal((runs, n))
    for t in range(1, n):
        walk[:, t] = 0.9 * walk[:, t - 1] + 0.436 * walk[:, t]
    for series in (
        rng.lognormal(0.0, 0.02, (runs, n)),
        rng.lognormal(0.0, 1.0, (runs, n)),
        1.0 + rng.pareto(1.5, (runs, n)),
        1.0 + rng.exponential(0.1, (runs, n)),
        np.exp(rng.normal(0.0, 0.02, (runs, n)) + spikes),
        np.exp(0.1 * walk),
        np.round(rng.normal(20.0, 2.0, (runs, n)).clip(5)) * 41.0,
    ):
        assert false_rate(series) <= 0.07


def test_a_rare_level_is_a_tail() -> None:
    rng = np.random.default_rng(5)
    series = np.where(rng.random(2_000) < 0.02, 200.0, 100.0) * rng.lognormal(0.0, 0.01, 2_000)
    assert len(modes(series).modes) == 1


def test_levels_closer_than_two_percent_are_one() -> None:
    rng = np.random.default_rng(6)
    pick = rng.random(4_000) < 0.5
    near = np.where(pick, 100.0, 101.5) * rng.lognormal(0.0, 0.001, 4_000)
    apart = np.where(pick, 100.0, 103.0) * rng.lognormal(0.0, 0.001, 4_000)
    assert len(modes(near).modes) == 1
    assert len(modes(apart).modes) == 2


def test_few_and_odd_samples() -> None:
    assert modes([]).modes == ()
    assert len(modes([1.0]).modes) == 1
    assert len(modes([5.0] * 100).modes) == 1
    assert len(modes([1.0, 100.0] * 5).modes) == 1  # too few to tell
    assert len(modes([1_000] * 60 + [2_000] * 60).modes) == 1  # two ticks of one clock, once switched
    assert len(modes([0.0] * 60 + [2.0] * 60).modes) == 1  # no logarithm


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10_000), st.sampled_from([0.125, 3.0, 1024.0]))
def test_centres_scale_with_the_samples(seed: int, factor: float) -> None:
    series = planted(np.random.default_rng(seed), 400, 1)
    one, other = modes(series), modes(factor * series)
    assert [mode.center for mode in other.modes] == pytest.approx([factor * mode.center for mode in one.modes])
    assert (other.switches, other.alternation) == (one.switches, one.alternation)


@settings(deadline=None, max_examples=80)
@given(st.lists(st.floats(1e-3, 1e12) | st.integers(1, 9).map(float), max_size=120))
def test_any_series_gets_an_answer(samples: list[float]) -> None:
    found = modes(samples)
    assert sum(mode.share for mode in found.modes) == pytest.approx(1.0 if samples else 0.0)
    assert all(mode.share >= 0.05 for mode in found.modes)
    assert list(found.modes) == sorted(found.modes, key=lambda mode: mode.center)
    assert found.alternation in ("none", "mixed", "phases", "alternating")
