"""Does a series hold its level, drift along a line, or change in steps; and where are the steps?"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from .dependence import cautious_inflation
from .series import Floats, Samples, as_series

# More steps than this in some sixty levels are noise of another kind.
_MOST_STEPS = 6
# Steps of the explanations from whose residues the dependence is taken.
_SIMPLE = 3
# Levels between two steps: of fewer, a burst could be the larger part.
_SHORTEST = 5
_SHORTEST_SHARE = 1 / 12
# A step or a slope counts from this many standard errors on, the dependence of the residues allowed for. The places of
# steps are searched for, so the usual two would find some in any noise; see tests/core/test_stats_steps.py.
_ERRORS = 5.0
_SMALLEST_STEP = 0.03
_SMALLEST_DRIFT = 0.02
# Levels are compared no more finely than this: what is constant to a thousandth is constant.
_FINEST = 1e-3


@dataclass(frozen=True, slots=True)
class Course:
    """`places[i]` is the index at which the level becomes `levels[i + 1]`. `change`: the last fitted level over the
    first, less 1."""

    kind: Literal["steady", "drift", "steps"]
    change: float
    places: tuple[int, ...]
    levels: tuple[float, ...]


def course(samples: Samples) -> Course:
    """The simplest of a constant, a line and a staircase that explains positive levels in time order.

    Staircases of least squares by dynamic programming, their number of steps and the line against them by Schwarz's
    criterion (Yao 1988, "Estimating the number of change-points via Schwarz' criterion"), of logarithms, so that
    changes are relative; then what is too small, or within the noise, is taken back.
    """
    series = as_series(samples)
    level = float(np.median(series)) if series.size else 0.0
    steady = Course("steady", 0.0, (), (level,))
    if series.size < 2 * _SHORTEST or not (series > 0).all():
        return steady
    logs = np.log(series)
    shortest = max(_SHORTEST, math.ceil(series.size * _SHORTEST_SHARE))
    fits, line = _staircases(logs, shortest), _line(logs)
    # As in a test of drift, by what is left of the simpler explanations: those with many steps fit the noise as well.
    simple = [line, *(_stairs(logs, places) for places in fits[: _SIMPLE + 1])]
    inflation = min(cautious_inflation(logs - fit) for fit in simple)

    def score(fit: Floats, parameters: int) -> float:
        effective = logs.size / inflation
        return effective * math.log(_variance(logs, fit, 0)) + parameters * math.log(logs.size)

    def stairs_score(places: tuple[int, ...]) -> float:
        return score(_stairs(logs, places), 2 * len(places))

    places = _kept(logs, min(fits, key=stairs_score), inflation)
    if score(line, 1) < stairs_score(places):
        change = math.expm1(float(line[-1] - line[0]))
        error = math.sqrt(_variance(logs, line, 2) * inflation * 12 / series.size)
        found = abs(change) >= _SMALLEST_DRIFT and abs(line[-1] - line[0]) > _ERRORS * error
        return Course("drift", change, (), (math.exp(line[0]), math.exp(line[-1]))) if found else steady
    if not places:
        return steady
    stairs = np.exp(_stairs(logs, places))
    levels = tuple(float(stairs[place]) for place in (0, *places))
    return Course("steps", levels[-1] / levels[0] - 1, places, levels)


def _staircases(logs: Floats, shortest: int) -> list[tuple[int, ...]]:
    """For each number of steps from none on, the places that leave the least squares."""
    n = logs.size
    sums, squares = np.zeros(n + 1), np.zeros(n + 1)
    np.cumsum(logs, out=sums[1:])
    np.cumsum(logs * logs, out=squares[1:])

    def left(begin: int, end: int) -> float:
        return float(squares[end] - squares[begin] - (sums[end] - sums[begin]) ** 2 / (end - begin))

    # best[end]: squares left, and the places, of the staircase over the first `end` levels.
    best: dict[int, tuple[float, tuple[int, ...]]] = {end: (left(0, end), ()) for end in range(shortest, n + 1)}
    found = [best[n][1]]
    for _ in range(_MOST_STEPS):
        following = {}
        for end in range(2 * shortest, n + 1):
            tried = [
                (best[p][0] + left(p, end), (*best[p][1], p)) for p in range(shortest, end - shortest + 1) if p in best
            ]
            if tried:
                following[end] = min(tried)
        if n not in following:
            break
        best = following
        found.append(best[n][1])
    return found


def _stairs(logs: Floats, places: tuple[int, ...]) -> Floats:
    parts = np.split(logs, places)
    return np.concatenate([np.full(part.size, np.median(part)) for part in parts])


def _line(logs: Floats) -> Floats:
    time = np.arange(logs.size) - (logs.size - 1) / 2.0
    return np.asarray(logs.mean() + float(time @ logs) / float(time @ time) * time, dtype=np.float64)


def _variance(logs: Floats, fit: Floats, parameters: int) -> float:
    """Of what the fit leaves; never nothing."""
    return float(np.sum((logs - fit) ** 2)) / max(1, logs.size - parameters) + _FINEST**2


def _kept(logs: Floats, places: tuple[int, ...], inflation: float) -> tuple[int, ...]:
    """The places without those, the weakest first, that are too small or within the noise of their neighbours."""
    while places:
        variance = _variance(logs, _stairs(logs, places), 1 + 2 * len(places)) * inflation
        edges = (0, *places, logs.size)
        levels = [float(np.median(part)) for part in np.split(logs, places)]
        strengths = []
        for i, place in enumerate(places):
            gap = abs(levels[i + 1] - levels[i])
            share = 1 / (place - edges[i]) + 1 / (edges[i + 2] - place)
            enough = max(_ERRORS * math.sqrt(variance * share), math.log1p(_SMALLEST_STEP))
            strengths.append(gap / enough)
        weakest = min(range(len(places)), key=strengths.__getitem__)
        if strengths[weakest] >= 1:
            break
        places = places[:weakest] + places[weakest + 1 :]
    return places
