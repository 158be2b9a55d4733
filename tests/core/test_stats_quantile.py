"""Percentile floors, quantiles and their intervals."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgewise.core.errors import InputError
from edgewise.core.stats import carries, dependence, floor, interval, quantile

positive = st.lists(st.floats(1e-3, 1e12) | st.integers(1, 50).map(float), min_size=11, max_size=90)


@pytest.mark.parametrize(
    ("p", "samples"),
    [(0.50, 11), (0.75, 24), (0.90, 64), (0.95, 130), (0.97, 219), (0.99, 662), (0.999, 6_636), (0.9999, 66_381)],
)
def test_the_floors_are_those_of_loadgen(p: float, samples: int) -> None:
    assert floor(p) == samples
    assert carries(samples, p)
    assert not carries(samples - 1, p)


def test_a_lower_confidence_needs_fewer_samples() -> None:
    assert [floor(p, 0.95) for p in (0.90, 0.95, 0.99)] == [46, 93, 473]


def test_a_low_percentile_needs_as_many_samples_as_its_mirror() -> None:
    assert floor(0.1) == floor(0.9)


@pytest.mark.parametrize("p", [0.0, 1.0, -0.1, 99.0, float("nan")])
def test_a_percentile_outside_0_to_1_is_refused(p: float) -> None:
    with pytest.raises(InputError):
        floor(p)
    with pytest.raises(InputError):
        quantile([1.0, 2.0], p)


@pytest.mark.parametrize("samples", [[], [1.0, float("nan")], [1.0, float("inf")], [[1.0, 2.0]]])
def test_samples_that_are_no_series_are_refused(samples: list[float]) -> None:
    with pytest.raises(InputError):
        quantile(samples, 0.5)


def test_no_interval_below_the_floor() -> None:
    rng = np.random.default_rng(0)
    samples = rng.lognormal(0.0, 0.1, 663)
    assert interval(samples[:10]) is None
    assert interval(samples[:11]) is not None
    assert interval(samples[:661], 0.99) is None
    assert interval(samples[:662], 0.99) is not None


def test_no_interval_while_the_series_drifts() -> None:
    rng = np.random.default_rng(1)
    samples = np.linspace(100.0, 115.0, 500) * rng.lognormal(0.0, 0.02, 500)
    assert interval(samples) is None
    assert interval(samples, check_drift=False) is not None


def autoregression(rng: np.random.Generator, phi: float, shape: tuple[int, int]) -> np.ndarray:
    out = rng.standard_normal(shape)
    for t in range(1, shape[1]):
        out[:, t] = phi * out[:, t - 1] + np.sqrt(1 - phi**2) * out[:, t]
    return out


@pytest.mark.parametrize("phi", [0.0, 0.5, 0.9])
def test_intervals_cover_the_median_of_dependent_series(phi: float) -> None:
    series = np.exp(0.1 * autoregression(np.random.default_rng(2), phi, (400, 600)))
    found = [interval(row) for row in series]
    given_ = [one for one in found if one is not None]
    assert len(given_) >= 0.93 * len(found)
    # 0.93: two standard errors of 400 replications below 95 %.
    assert np.mean([one.low <= 1.0 <= one.high for one in given_]) >= 0.93
    oracle = 3.92 * np.median(series, axis=1).std()
    assert np.median([one.high - one.low for one in given_]) <= 1.6 * oracle


def test_the_naive_interval_would_not_cover() -> None:
    """The same series without the widening for dependence: the reason the widening is there."""
    series = np.exp(0.1 * autoregression(np.random.default_rng(3), 0.9, (300, 600)))
    ordered = np.sort(series, axis=1)
    spread = 1.96 * np.sqrt(150)
    low, high = ordered[:, int(300 - spread)], ordered[:, int(300 + spread)]
    assert np.mean((low <= 1.0) & (high >= 1.0)) < 0.6


def test_dependence_is_found_and_measured() -> None:
    rng = np.random.default_rng(4)
    free = dependence(rng.lognormal(size=2_000))
    assert abs(free.lag1) < 0.1
    assert free.inflation < 1.5
    assert free.effective == pytest.approx(2_000 / free.inflation)
    bound = dependence(np.exp(autoregression(rng, 0.9, (1, 5_000))[0]))
    assert 0.8 < bound.lag1 < 0.95
    assert 10 < bound.inflation < 30  # 19 in theory
    assert dependence([1.0] * 100).inflation == 1.0


def test_a_constant_series_has_an_interval_of_no_width() -> None:
    found = interval([7.0] * 100)
    assert found is not None
    assert (found.low, found.estimate, found.high, found.relative_width) == (7.0, 7.0, 7.0, 0.0)


def test_ticks_of_a_coarse_clock_cover_too() -> None:
    rng = np.random.default_rng(5)
    ticks = np.floor(rng.normal(500.5, 20.0, (200, 200)) / 10.0) * 10.0
    hits = [(one := interval(row)) is None or one.low <= 500.0 <= one.high for row in ticks]
    assert np.mean(hits) >= 0.93


@settings(deadline=None, max_examples=60)
@given(positive, st.sampled_from([0.5, 0.3]), st.sampled_from([0.9, 0.95, 0.99]))
def test_an_interval_contains_its_estimate(samples: list[float], p: float, level: float) -> None:
    found = interval(samples, p, level, check_drift=False)
    if carries(len(samples), p):
        assert found is not None
        assert min(samples) <= found.low <= found.estimate <= found.high <= max(samples)
        assert found.estimate == quantile(samples, p)
        assert found.relative_width >= 0.0
    else:
        assert found is None


@settings(deadline=None, max_examples=60)
@given(positive, st.sampled_from([0.125, 2.0, 1024.0]))
def test_an_interval_scales_with_the_samples(samples: list[float], factor: float) -> None:
    one = interval(samples, check_drift=False)
    other = interval([factor * sample for sample in samples], check_drift=False)
    assert one is not None
    assert other is not None
    assert [other.low, other.high] == [factor * one.low, factor * one.high]


@settings(deadline=None, max_examples=30)
@given(positive)
def test_a_higher_level_is_never_narrower(samples: list[float]) -> None:
    narrow, wide = (interval(samples, level=level, check_drift=False) for level in (0.8, 0.99))
    assert narrow is not None
    assert wide is not None
    assert wide.low <= narrow.low
    assert narrow.high <= wide.high
