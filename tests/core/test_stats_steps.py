"""A staircase is told from a slope and from noise, dependent noise included."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from edgewise.core.stats.steps import course


def noise(seed: int, n: int = 60, spread: float = 0.02, lag1: float = 0.0) -> NDArray[np.float64]:
    """Logarithms; `lag1` makes neighbours alike."""
    draws = np.random.default_rng(seed).normal(0, spread * np.sqrt(1 - lag1**2), n + 50)
    series = np.zeros_like(draws)
    for i in range(1, draws.size):
        series[i] = lag1 * series[i - 1] + draws[i]
    return series[50:]


@pytest.mark.parametrize("lag1", [0.0, 0.7])
def test_noise_is_steady(lag1: float) -> None:
    kinds = [course(np.exp(noise(seed, lag1=lag1))).kind for seed in range(40)]
    assert kinds.count("steady") >= 36


@pytest.mark.parametrize("lag1", [0.0, 0.7])
def test_a_step_is_found_where_it_is(lag1: float) -> None:
    found = [course(np.exp(noise(seed, lag1=lag1) + 0.2 * (np.arange(60) >= 20))) for seed in range(20)]
    exact = [f for f in found if f.kind == "steps" and len(f.places) == 1 and abs(f.places[0] - 20) <= 1]
    assert len(exact) >= 17
    assert exact[0].change == pytest.approx(np.expm1(0.2), abs=0.03)


def test_several_steps_are_counted() -> None:
    stairs = 0.1 * (np.arange(60) >= 15) - 0.15 * (np.arange(60) >= 30) + 0.2 * (np.arange(60) >= 45)
    found = course(np.exp(noise(1, spread=0.01) + stairs))
    assert found.kind == "steps" and found.places == (15, 30, 45)


def test_a_slope_is_a_drift_and_not_a_staircase() -> None:
    found = [course(np.exp(noise(seed, spread=0.01) + np.linspace(0, 0.1, 60))) for seed in range(20)]
    assert [f.kind for f in found].count("drift") >= 18
    assert found[0].change == pytest.approx(np.expm1(0.1), abs=0.02)


def test_a_burst_is_no_step() -> None:
    series = noise(3)
    series[30:32] += 0.5
    assert course(np.exp(series)).kind == "steady"


@pytest.mark.parametrize("series", [[], [1.0], [2.0] * 5, [3.0] * 60, [0.0] * 60])
def test_what_is_short_or_constant_is_steady(series: list[float]) -> None:
    assert course(series).kind == "steady"
