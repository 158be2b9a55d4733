"""When a measurement has seen enough."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np

from edgewise.core.stats import Stopping, interval

RULE = Stopping(width=0.05, min_runs=64, max_runs=1_000, min_s=1.0, max_s=10.0)


def noisy(n: int, sigma: float, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).lognormal(0.0, sigma, n)


def test_both_minima_must_be_met() -> None:
    assert RULE.decide(noisy(63, 0.001), 5.0, 1).reason == "minimum"
    assert RULE.decide(noisy(100, 0.001), 0.5, 1).reason == "minimum"
    assert not RULE.decide(noisy(100, 0.001), 0.5, 1).stop


def test_a_narrow_interval_stops() -> None:
    decision = RULE.decide(noisy(100, 0.01), 2.0, 1)
    assert (decision.stop, decision.reason) == (True, "width")
    assert decision.interval is not None
    assert decision.interval.relative_width <= 0.05
    assert decision.interval.level == 0.95


def test_a_wide_interval_continues() -> None:
    decision = RULE.decide(noisy(100, 0.5), 2.0, 1)
    assert (decision.stop, decision.reason) == (False, "continue")
    assert decision.interval is not None


def test_either_maximum_stops_whatever_else_holds() -> None:
    assert RULE.decide(noisy(1_000, 0.5), 0.1, 1).reason == "max_runs"
    assert RULE.decide(noisy(5, 0.5), 10.0, 1).reason == "max_s"
    assert RULE.decide(noisy(5, 0.5), 10.0, 1).interval is None
    assert RULE.decide([], 10.0, 1).stop


def test_a_drifting_series_runs_to_the_maximum() -> None:
    series = np.linspace(1.0, 1.3, 200) * noisy(200, 0.001)
    decision = RULE.decide(series, 2.0, 1)
    assert (decision.reason, decision.interval) == ("continue", None)


def test_width_zero_runs_to_the_maximum() -> None:
    rule = Stopping(width=0.0, min_runs=10, max_runs=100, min_s=0.0, max_s=1.0)
    assert rule.decide([1.0] * 50, 0.5, 1).reason == "continue"
    assert rule.decide([1.0] * 100, 0.5, 2).reason == "max_runs"


def test_later_looks_are_stricter() -> None:
    series = noisy(300, 0.2)
    first, later = RULE.decide(series, 2.0, 1).interval, RULE.decide(series, 2.0, 2).interval
    plain = interval(series)
    assert first is not None
    assert later is not None
    assert first == plain
    assert later.relative_width > first.relative_width


def test_looks_are_planned_geometrically() -> None:
    looks = [RULE.next_look(0)]
    while looks[-1] < 1_000:
        looks.append(RULE.next_look(looks[-1]))
    assert looks[0] == 64
    assert looks[-1] == 1_000
    assert len(looks) < 15
    assert all(later > earlier for earlier, later in pairwise(looks))
    assert Stopping(0.05, 5, None, 0.0, 1.0).next_look(1) == 5


def test_the_interval_at_the_stop_still_covers() -> None:
    rule = Stopping(width=0.04, min_runs=64, max_runs=2_000, min_s=0.0, max_s=math.inf)
    rng = np.random.default_rng(7)
    hits = []
    for series in rng.lognormal(0.0, 0.1, (120, 2_000)):
        n, looks = rule.next_look(0), 1
        while not (decision := rule.decide(series[:n], 0.0, looks)).stop:
            n, looks = rule.next_look(n), looks + 1
        assert decision.interval is not None
        hits.append(decision.interval.low <= 1.0 <= decision.interval.high)
    assert np.mean(hits) >= 0.92
