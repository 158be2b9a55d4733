"""Does the latency live at several levels, and how does it move between them?"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from .density import Bump, bumps, undithered
from .series import Floats, Samples, as_series

Alternation = Literal["none", "mixed", "phases", "alternating"]

# Fewer samples cannot show a mode of 5 % at all.
_FEWEST = 20
# A smaller group is a tail, not a mode.
_LEAST_SHARE = 0.05
# Closer centres are one level for every decision taken on them.
_LEAST_DISTANCE = 0.02
# Standard errors by which the number of switches must miss its expectation: about 0.3 % of independent series.
_SWITCH_ERRORS = 3.0


@dataclass(frozen=True, slots=True)
class Mode:
    """One level: the median, smallest and largest of its samples, and their share of the series."""

    center: float
    low: float
    high: float
    share: float


@dataclass(frozen=True, slots=True)
class Modes:
    """The levels from fast to slow; how often the series switched between them, and would if independent."""

    modes: tuple[Mode, ...]
    switches: int
    expected_switches: float
    mean_dwell: float
    switch_error: float = 0.0

    @property
    def alternation(self) -> Alternation:
        """Sample by sample ("mixed"), in long phases, or back and forth: the runs test of Wald & Wolfowitz."""
        if len(self.modes) < 2:
            return "none"
        gap = self.switches - self.expected_switches
        if abs(gap) <= _SWITCH_ERRORS * self.switch_error:
            return "mixed"
        return "phases" if gap < 0 else "alternating"


def _split(logs: Floats, found: list[Bump]) -> list[float]:
    """The valleys that stay when bumps too small or too near their neighbour are joined to it."""
    while len(found) > 1:
        edges = [-math.inf, *(bump.valley for bump in found[1:]), math.inf]
        groups = [logs[(logs >= a) & (logs < b)] for a, b in zip(edges[:-1], edges[1:], strict=True)]
        shares = [group.size / logs.size for group in groups]
        least = int(np.argmin(shares))
        if shares[least] < _LEAST_SHARE:
            # Joined across the shallower of its valleys.
            sides = [k for k in (least, least + 1) if 0 < k < len(found)]
            del found[max(sides, key=lambda k: found[k].height)]
            continue
        centres = [float(np.median(group)) for group in groups]
        gaps = np.diff(centres)
        nearest = int(np.argmin(gaps))
        if gaps[nearest] >= math.log1p(_LEAST_DISTANCE):
            break
        del found[nearest + 1]
    return [bump.valley for bump in found[1:]]


def _switching(labels: NDArray[np.intp]) -> tuple[int, float, float]:
    """Switches, their expectation and standard error if the order were random (Barton & David 1957, "Multiple runs")."""
    n = labels.size
    counts = np.bincount(labels).astype(np.float64)
    squares, cubes = float((counts**2).sum()), float((counts**3).sum())
    expected = n - squares / n
    variance = (squares * (squares + n * (n + 1.0)) - 2.0 * n * cubes - float(n) ** 3) / (n * n * (n - 1.0))
    return int(np.count_nonzero(np.diff(labels))), expected, math.sqrt(max(variance, 0.0))


def modes(samples: Samples) -> Modes:
    """The well separated levels of the series and how it moves between them.

    Levels are bumps of a kernel density of the logarithms, kept apart only by a valley so deep that one level
    would hardly show it (see `density.bumps`), each with at least 5 % of the samples and 2 % from the next.
    """
    series = as_series(samples)
    n = series.size
    if not n:
        return Modes((), 0, 0.0, 0.0)
    valleys: list[float] = []
    if n >= _FEWEST and series.min() > 0.0 and series.max() >= series.min() * (1.0 + _LEAST_DISTANCE):
        logs = np.log(undithered(series))
        valleys = _split(logs, bumps(logs))
    labels = np.searchsorted(np.exp(valleys), series, side="right")
    groups = [series[labels == k] for k in range(len(valleys) + 1)]
    found = tuple(Mode(float(np.median(g)), float(g.min()), float(g.max()), g.size / n) for g in groups if g.size)
    if len(found) < 2:
        return Modes(found, 0, 0.0, float(n))
    switches, expected, error = _switching(labels)
    return Modes(found, switches, expected, n / (switches + 1.0), error)
