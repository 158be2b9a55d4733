"""Drift and the onset of the steady part."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgewise.core.stats import drift, steady

RUNS = 200


def rate(flags: list[bool]) -> float:
    return float(np.mean(flags))


def noise(rng: np.random.Generator, n: int, phi: float, sigma: float) -> np.ndarray:
    out = rng.standard_normal((RUNS, n))
    for t in range(1, n):
        out[:, t] = phi * out[:, t - 1] + np.sqrt(1 - phi**2) * out[:, t]
    return 1.0 + sigma * out


def phases(rng: np.random.Generator, n: int, dwell: float) -> np.ndarray:
    """Three levels, each kept for `dwell` samples on average."""
    state = rng.choice(3, RUNS, p=[0.6, 0.25, 0.15])
    out = np.empty((RUNS, n))
    for t in range(n):
        state = np.where(rng.random(RUNS) < 1 / dwell, rng.choice(3, RUNS, p=[0.6, 0.25, 0.15]), state)
        out[:, t] = np.array([1.0, 1.3, 1.8])[state]
    return out * rng.lognormal(0.0, 0.03, (RUNS, n))


@pytest.mark.parametrize(("phi", "sigma"), [(0.0, 0.05), (0.5, 0.05), (0.9, 0.03)])
def test_a_ten_percent_drift_is_flagged(phi: float, sigma: float) -> None:
    rng = np.random.default_rng(1)
    time = np.linspace(0.0, 1.0, 1_000)
    steps = 1.0 + 0.1 * (time > rng.uniform(0.2, 0.8, (RUNS, 1)))
    for level in (1.0 + 0.1 * time, 1.0 - 0.1 * time, steps):
        found = [drift(row) for row in level * noise(rng, 1_000, phi, sigma)]
        assert rate([one.flagged for one in found]) >= 0.95


def test_the_change_is_the_planted_one() -> None:
    rng = np.random.default_rng(2)
    up = drift(np.linspace(100.0, 120.0, 400) * rng.lognormal(0.0, 0.01, 400))
    assert up.change == pytest.approx(0.20, abs=0.03)
    throttled = drift(np.repeat([100.0, 130.0], 200) * rng.lognormal(0.0, 0.01, 400))
    assert throttled.change == pytest.approx(0.30, abs=0.03)
    faster = drift(np.repeat([100.0, 80.0], 200) * rng.lognormal(0.0, 0.01, 400))
    assert faster.change == pytest.approx(-0.20, abs=0.03)
    assert up.flagged and throttled.flagged and faster.flagged
    assert max(up.p_value, throttled.p_value, faster.p_value) < 0.001


def test_stationary_series_are_rarely_flagged() -> None:
    rng = np.random.default_rng(3)
    bursts = np.where(phases(rng, 1_000, 20) > 1.6, 2.0, 1.0)
    for series in (
        noise(rng, 1_000, 0.0, 0.05),
        noise(rng, 1_000, 0.9, 0.05),
        bursts * rng.lognormal(0.0, 0.05, bursts.shape),
        phases(rng, 1_000, 1),
        phases(rng, 1_000, 20),
        rng.lognormal(0.0, 1.0, (RUNS, 200)),
    ):
        # 5 % and two standard errors of 200 runs.
        assert rate([drift(row).flagged for row in series]) <= 0.08


def test_a_significant_but_tiny_drift_is_not_worth_a_flag() -> None:
    found = drift(np.linspace(100.0, 100.5, 1_000))
    assert found.p_value < 0.001
    assert not found.flagged


def test_constant_and_short_series_do_not_drift() -> None:
    assert not drift([3.0] * 500).flagged
    assert not drift([0.1] * 500).flagged
    assert drift([1.0, 2.0, 3.0]).p_value == 1.0
    assert drift([]).change == 0.0
    assert drift([5.0, 4.0, 3.0, 2.0, 1.0]).flagged


@pytest.mark.parametrize("n", [5, 12, 20, 60, 300])
def test_independent_noise_is_steady_from_the_start(n: int) -> None:
    found = [steady(row) for row in noise(np.random.default_rng(n), n, 0.0, 0.03)]
    assert rate([one is None for one in found]) <= 0.07
    assert rate([one == 0 for one in found]) >= 0.85


@pytest.mark.parametrize(
    ("n", "slow"), [(20, [5.0]), (20, [8.0, 2.0, 1.3]), (60, [1.2] * 12), (300, [3.0, 2.0, *[1.15] * 40])]
)
def test_the_onset_follows_the_planted_warm_up(n: int, slow: list[float]) -> None:
    series = noise(np.random.default_rng(4), n, 0.0, 0.03)
    series[:, : len(slow)] *= slow
    found = [steady(row) for row in series]
    onsets = [one for one in found if one is not None]
    assert len(onsets) >= 0.9 * RUNS
    assert np.median(onsets) == len(slow)
    assert min(onsets) >= len(slow) - 1


def test_not_steady_while_it_still_changes() -> None:
    series = noise(np.random.default_rng(5), 50, 0.0, 0.03)
    late = np.where(np.arange(50) < 35, 1.2, 1.0)
    for level in (late, np.linspace(1.5, 1.0, 50), 1.0 + np.exp(-np.arange(50) / 25.0)):
        assert rate([steady(row) is None for row in level * series]) >= 0.9


def test_too_few_samples_are_not_steady_yet() -> None:
    assert steady([]) is None
    assert steady([1.0] * 4) is None
    assert steady([1.0] * 5) == 0
    assert steady([9.0, 1.0, 1.0, 1.0, 1.0]) == 1


def test_warming_up_ends_soon_after_the_planted_end() -> None:
    """As the measuring loop uses it: asked again after every few calls."""
    rng = np.random.default_rng(6)
    ends = []
    for _ in range(50):
        series = rng.lognormal(0.0, 0.02, 500)
        series[:10] *= np.linspace(4.0, 1.1, 10)
        ends.append(next(n for n in range(5, 500, 5) if steady(series[:n]) is not None))
    assert 15 <= np.median(ends) <= 40


@settings(deadline=None, max_examples=80)
@given(st.lists(st.floats(1e-3, 1e12) | st.integers(1, 9).map(float), max_size=80))
def test_any_series_gets_an_answer(samples: list[float]) -> None:
    onset = steady(samples)
    assert onset is None or 0 <= onset < max(1, len(samples) // 2)
    assert 0.0 <= drift(samples).p_value <= 1.0


@settings(deadline=None, max_examples=40)
@given(st.lists(st.integers(1, 1000).map(float), min_size=12, max_size=80), st.sampled_from([0.5, 4.0, 1024.0]))
def test_the_unit_does_not_matter(samples: list[float], factor: float) -> None:
    scaled = [factor * sample for sample in samples]
    assert drift(scaled).flagged == drift(samples).flagged
    assert steady(scaled) == steady(samples)
