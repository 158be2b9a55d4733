"""Certifying a percentile: never falsely, however often one looks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgewise.core.errors import InputError
from edgewise.core.stats import LONGEST_DEPENDENCE, certify
from edgewise.core.stats.certify import evidence
from edgewise.core.stats.dispersion import dispersion

ERROR = 0.01


def first_certified(over: np.ndarray, rate: float, longest: float = LONGEST_DEPENDENCE) -> np.ndarray:
    """The sample count at which each row is certified, looked at every 64 samples; inf if never."""
    looks = np.arange(64, over.shape[1] + 1, 64)
    seen = np.cumsum(over, axis=1)[:, looks - 1].astype(np.float64)
    wealth = evidence(seen, looks.astype(np.float64), dispersion(over, looks, longest), rate)
    certified = wealth >= -np.log(ERROR)
    return np.where(certified.any(axis=1), looks[certified.argmax(axis=1)], np.inf)


def bursts(rng: np.random.Generator, runs: int, n: int, length: float, rate: float) -> np.ndarray:
    """Slow twice as often as permitted over the bound; half of the slow samples are over it."""
    leave = 1 / length
    enter = leave * 2 * rate / (1 - 2 * rate)
    state = rng.random(runs) < 2 * rate
    out = np.empty((n, runs), dtype=bool)
    for t in range(n):
        draw = rng.random(runs)
        state = np.where(state, draw >= leave, draw < enter)
        out[t] = state & (rng.random(runs) < 0.5)
    return np.ascontiguousarray(out.T)


@pytest.mark.parametrize("n", [1, 63, 64, 700, 3_000])
def test_looking_at_many_prefixes_at_once_is_looking_at_each(n: int) -> None:
    """What benchmarks/coverage.py computes for all looks together is what `certify` says at each."""
    rng = np.random.default_rng(0)
    series = rng.lognormal(0.0, 1.0, 3_000)
    bound = float(np.quantile(series, 0.93))
    looks = np.unique([1, 63, 64, 700, 1_500, 3_000])
    inflation = dispersion((series > bound)[None, :], looks, LONGEST_DEPENDENCE)[0]
    one = certify(series[:n], bound, 0.9)
    place = int(np.searchsorted(looks, n))
    assert one.inflation == pytest.approx(inflation[place])
    wealth = evidence(float(one.over), float(n), inflation[place], 0.1)
    assert one.certified == bool(wealth >= -np.log(ERROR))
    assert one.over == np.count_nonzero(series[:n] > bound)


@pytest.mark.parametrize("length", [0.0, 2.0, 20.0])
def test_a_system_at_its_bound_is_not_certified(length: float) -> None:
    rng = np.random.default_rng(1)
    over = bursts(rng, 600, 8_192, length, 0.1) if length else rng.random((600, 8_192)) < 0.1
    # 1 % and two standard errors of 600 runs.
    assert np.isfinite(first_certified(over, 0.1)).mean() <= 0.018


def test_a_system_inside_its_bound_is_certified_within_three_times_the_count_of_loadgen() -> None:
    over = np.random.default_rng(2).random((200, 6_400)) < 0.08
    assert np.median(first_certified(over, 0.1)) <= 3 * 1_157


def test_a_system_far_inside_is_certified_and_one_far_outside_refuted() -> None:
    rng = np.random.default_rng(3)
    series = rng.lognormal(0.0, 0.1, 4_000)
    inside = certify(series, float(np.quantile(series, 0.97)), 0.9)
    outside = certify(series, float(np.quantile(series, 0.80)), 0.9)
    unsure = certify(series[:200], float(np.quantile(series, 0.91)), 0.9)
    assert (inside.certified, inside.refuted) == (True, False)
    assert (outside.certified, outside.refuted) == (False, True)
    assert (unsure.certified, unsure.refuted) == (False, False)
    assert inside.over / inside.n < inside.rate_upper <= 0.1 < outside.rate_upper


def test_clusters_are_allowed_for() -> None:
    rng = np.random.default_rng(4)
    clustered = bursts(rng, 1, 20_000, 20.0, 0.05)[0].astype(float)
    mixed = rng.permutation(clustered)
    one, other = certify(clustered, 0.5, 0.9), certify(mixed, 0.5, 0.9)
    assert one.over == other.over
    assert one.inflation > 5 * other.inflation
    assert one.rate_upper > other.rate_upper


def test_a_longer_assumed_dependence_asks_for_more_samples() -> None:
    calm = [1.0] * 40_000
    counts = [
        next(n for n in range(500, 40_001, 500) if certify(calm[:n], 2.0, longest_dependence=longest).certified)
        for longest in (1.0, 5.0, 20.0)
    ]
    assert counts == sorted(counts)
    assert 662 <= counts[0] < 2_000
    assert counts[2] > 5 * counts[0]


def test_no_sample_certifies_nothing() -> None:
    nothing = certify([], 1.0)
    assert (nothing.certified, nothing.refuted, nothing.rate_upper, nothing.n) == (False, False, 1.0, 0)


@pytest.mark.parametrize("wrong", [{"p": 1.0}, {"p": 0.0}, {"confidence": 1.0}, {"longest_dependence": 0.5}])
def test_what_makes_no_sense_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InputError):
        certify([1.0], 1.0, **wrong)


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.floats(1e-3, 1e12) | st.integers(1, 9).map(float), max_size=150),
    st.floats(1e-3, 1e12),
    st.sampled_from([0.5, 0.9, 0.99]),
)
def test_any_series_gets_an_answer(samples: list[float], bound: float, p: float) -> None:
    found = certify(samples, bound, p)
    assert not (found.certified and found.refuted)
    assert found.certified == (found.rate_upper <= 1.0 - p)
    assert found.over / max(found.n, 1) <= found.rate_upper <= 1.0
    assert found.inflation >= 1.0


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 2_000), st.integers(2_000, 5_000), st.floats(1.0, 50.0))
def test_the_evidence_grows_with_the_permitted_rate_and_falls_with_the_count(
    over: int, n: int, inflation: float
) -> None:
    rates = [evidence(over, n, inflation, rate) for rate in (0.05, 0.2, 0.5, 0.9)]
    assert rates == sorted(rates)
    assert evidence(over + 1, n, inflation, 0.2) < evidence(over, n, inflation, 0.2)
