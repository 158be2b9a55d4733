"""The monitor cries wolf no more often than promised, however long the stream, and does cry when there is one."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from simulated import simulated

from edgewise.core.errors import InputError
from edgewise.select import drift
from edgewise.select.drift import Monitor, signal
from edgewise.select.policies import cascade


def watched(monitor: Monitor, stream: np.ndarray) -> int | None:
    for value in stream:
        if monitor.see(float(value)):
            return monitor.alarm_at
    return None


@pytest.mark.parametrize("kind", ["smooth", "saturated"])
def test_false_alarms_over_whole_streams_are_within_alpha(kind: str) -> None:
    """200 streams of 1,000 images after a calibration of 200: so few that its own noise is large."""
    random = np.random.default_rng(0)
    alpha, times = 0.1, 200

    def drawn(count: int) -> np.ndarray:
        values = random.beta(4, 1, count)
        return values if kind == "smooth" else np.where(values > 0.8, 1.0, values)

    alarms = sum(
        watched(Monitor(drawn(200), alpha=alpha, seed=seed), drawn(1_000)) is not None for seed in range(times)
    )
    assert alarms / times <= alpha + 2 * math.sqrt(alpha * (1 - alpha) / times)


@pytest.mark.parametrize("values", [(1.0,), (-1.0, 0.0), (-2.0, -1.0, 0.0)])
def test_ties_are_no_reason_for_an_alarm_however_long_the_stream(values: tuple[float, ...]) -> None:
    """Few values, all of them ties, and a stream a hundred times as long as calibration: what is wrong with a rank by a
    hundredth adds up."""
    random = np.random.default_rng(1)
    alpha, times = 0.1, 50
    wealth = []
    for seed in range(times):
        monitor = Monitor(random.choice(values, 20), alpha=alpha, seed=seed)
        for value in random.choice(values, 2_000):
            monitor.see(float(value))
        wealth.append((monitor.alarmed, monitor.log_wealth))
    assert sum(alarmed for alarmed, _ in wealth) / times <= alpha + 2 * math.sqrt(alpha * (1 - alpha) / times)
    assert np.median([log for _, log in wealth]) < 0


def signals(policy: cascade.Cascade, images: int, seed: int, difficulty: float = 1.0, scale: float = 1.0) -> np.ndarray:
    strengths = tuple(scale * each for each in (1.2, 1.8, 2.4, 3.0))
    replayed = policy.replay(simulated(images, seed=seed, difficulty=difficulty, strengths=strengths))
    asked = replayed.ran.sum(axis=1)
    return np.array([signal(int(n), float(c)) for n, c in zip(asked, replayed.confidence, strict=True)])


def test_harder_images_are_noticed_within_four_hundred() -> None:
    policy = cascade.fit(simulated(2_000, seed=1))
    for seed in range(10):
        monitor = Monitor(signals(policy, 1_000, 100 + seed), alpha=0.01, seed=seed)
        assert watched(monitor, signals(policy, 500, 200 + seed)) is None
        found = watched(monitor, signals(policy, 400, 300 + seed, scale=0.6))
        assert found is not None and found > 500


def test_a_change_after_many_images_is_noticed_too() -> None:
    random = np.random.default_rng(3)
    monitor = Monitor(random.beta(4, 1, 2_000), alpha=0.01)
    assert watched(monitor, random.beta(4, 1, 20_000)) is None
    found = watched(monitor, random.beta(2, 1, 1_000))
    assert found is not None


def test_a_change_at_both_ends_is_noticed() -> None:
    random = np.random.default_rng(4)
    monitor = Monitor(random.normal(size=1_000), alpha=0.01)
    assert watched(monitor, 2 * random.normal(size=1_000)) is not None


def test_what_is_saved_goes_on_as_if_nothing_happened() -> None:
    random = np.random.default_rng(5)
    values, stream = random.random(300), random.random(400) ** 1.3
    whole, first = Monitor(values, seed=7), Monitor(values, seed=7)
    for value in stream[:150]:
        first.see(float(value))
    second = drift.load(json.loads(json.dumps(first.saved())))
    for value in stream[150:]:
        second.see(float(value))
    for value in stream:
        whole.see(float(value))
    assert second.saved() == whole.saved() and second.seen == 400
    assert second.log_wealth == whole.log_wealth


@pytest.mark.parametrize(
    "change",
    [{"edges": [1.0, 0.5]}, {"lots": [0.5]}, {"lots": None}, {"counts": [1]}, {"wealth": []}, {"wealth": "all"},
     {"alpha": 2.0}, {"seen": -1}, {"log": None}, {"seed": "x"}, {"alarm_at": "now"}, {"counts": None}],
)  # fmt: skip
def test_a_state_that_does_not_fit_together_is_refused(change: dict[str, object]) -> None:
    state = Monitor(np.random.default_rng(0).random(50)).saved()
    assert drift.load(state).alpha == 0.01
    with pytest.raises(InputError):
        drift.load(state | change)


def test_a_monitor_takes_signals_and_a_rate() -> None:
    for values, alpha in (([], 0.01), ([0.5], 0.01), ([0.5, math.nan], 0.01), ([0.1, 0.5], 1.0)):
        with pytest.raises(InputError):
            Monitor(values, alpha=alpha)


def test_the_fewer_asked_and_the_surer_the_larger_the_signal() -> None:
    assert signal(1, 0.9) > signal(1, 0.5) > signal(2, 0.99) > signal(3, 0.2)
