"""Does the level of the series change from its start to its end?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .dependence import long_run
from .series import Floats, Samples, as_series, ranks
from .special import f_tail

# A stationary series is flagged about this often.
_SIGNIFICANCE = 0.015
# A smaller change is not worth refusing an interval for: it is a third of the slow-down comparisons must find.
_SMALLEST_CHANGE = 0.01
# Blocks: enough to leave degrees of freedom beside the two of a line, few enough to be long and so independent.
_FEWEST_BLOCKS = 12
# Of fewer samples even a strict rise is no surprise: five rise or fall strictly in 2 of 120 orders.
_SHORTEST = 5
_MOST_BLOCKS = 32
# A block as long as this many times the inflation is nearly independent of its neighbours.
_LENGTHS_PER_BLOCK = 2.0


@dataclass(frozen=True, slots=True)
class Drift:
    """`change`: relative change from the start to the end of the fitted level; `p_value` of no drift."""

    flagged: bool
    change: float
    p_value: float


def _fit_line(levels: Floats) -> Floats:
    time = np.arange(levels.size) - (levels.size - 1) / 2.0
    slope = float(time @ levels) / float(time @ time)
    return np.asarray(levels.mean() + slope * time, dtype=np.float64)


def _fit_step(levels: Floats) -> Floats:
    """The two levels, and the place of the step between them, that leave the smallest squares."""
    n = levels.size
    left = np.arange(1, n, dtype=np.float64)
    sums = np.cumsum(levels - levels.mean())[:-1]
    place = int(np.argmax(sums * sums / (left * (n - left)))) + 1
    return np.concatenate([np.full(place, levels[:place].mean()), np.full(n - place, levels[place:].mean())])


def _tail(levels: Floats, fit: Floats) -> float:
    """P value of the F test that the fit's one parameter beyond a constant explains nothing."""
    freedom = levels.size - 2
    explained = float(((fit - levels.mean()) ** 2).sum())
    unexplained = float(((levels - fit) ** 2).sum())
    # Rounding leaves residues of a constant series that are no drift.
    if explained <= levels.size * (1e-12 * float(np.abs(levels).max())) ** 2:
        return 1.0
    return f_tail(explained * freedom / unexplained, 1.0, freedom) if unexplained else 0.0


def _medians(series: Floats, blocks: int) -> Floats:
    """Medians of blocks of equal length; the last takes what is left over."""
    size = series.size // blocks
    whole = np.median(series[: size * (blocks - 1)].reshape(blocks - 1, size), axis=1)
    return np.append(whole, np.median(series[size * (blocks - 1) :]))


def drift(samples: Samples) -> Drift:
    """Whether the level changes along the series: tests of a line and of a step through block medians.

    Medians of long blocks are robust against bursts and nearly independent whatever the dependence inside
    them (batch means: Schmeiser 1982, "Batch size effects in the analysis of simulation output"); blocks grow
    with the dependence left when line or step is taken out. The tests are F tests of the medians' ranks, so that
    levels far apart do not count for more (Conover & Iman 1981, "Rank transformations as a bridge between
    parametric and nonparametric statistics"). The step's place is searched, so its p value is multiplied by the
    number of places, and the smaller of the two p values by two (Bonferroni).
    """
    series = as_series(samples)
    if series.size < _SHORTEST:
        return Drift(False, 0.0, 1.0)
    inflation = min(long_run(series - fit(series)).inflation for fit in (_fit_line, _fit_step))
    blocks = int(series.size / (_LENGTHS_PER_BLOCK * inflation))
    blocks = min(max(blocks, _FEWEST_BLOCKS), _MOST_BLOCKS, series.size)
    levels = _medians(series, blocks)
    order = ranks(levels)
    sloped = _tail(order, _fit_line(order))
    stepped = (blocks - 1) * _tail(order, _fit_step(order))
    fit = (_fit_line if sloped <= stepped else _fit_step)(levels)
    p_value = min(1.0, 2.0 * min(sloped, stepped))
    extent = float(np.ptp(fit)) / abs(float(np.median(levels))) if np.median(levels) else 0.0
    change = float((fit[-1] - fit[0]) / abs(fit[0])) if fit[0] else 0.0
    return Drift(p_value < _SIGNIFICANCE and extent >= _SMALLEST_CHANGE, change, p_value)
