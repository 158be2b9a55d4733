"""Does the latency live at several levels, and how does it move between them?"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from .density import fill_ticks, valleys
from .series import Floats, Samples, as_series

Alternation = Literal["none", "mixed", "phases", "alternating"]

# Fewer samples cannot show a mode of 5 % at all.
_FEWEST = 20
# Closer centres are one level for every decision taken on them.
_LEAST_DISTANCE = 0.02
# Standard errors by which the switches must miss their expectation: 0.3 % of independent series do.
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
        """Sample by sample ("mixed"), in long phases, or back and forth more often than by chance."""
        if len(self.modes) < 2:
            return "none"
        gap = self.switches - self.expected_switches
        if abs(gap) <= _SWITCH_ERRORS * self.switch_error:
            return "mixed"
        return "phases" if gap < 0 else "alternating"


def _apart(logs: Floats, edges: list[float]) -> list[float]:
    """The edges left when neighbouring levels with centres too close are taken as one."""
    while edges:
        groups = np.split(np.sort(logs), np.searchsorted(np.sort(logs), edges))
        gaps = np.diff([float(np.median(group)) for group in groups])
        nearest = int(np.argmin(gaps))
        if gaps[nearest] >= math.log1p(_LEAST_DISTANCE):
            break
        edges = edges[:nearest] + edges[nearest + 1 :]
    return edges


def _switching(labels: NDArray[np.intp]) -> tuple[int, float, float]:
    """Switches, their expectation and standard error if the order were random.

    The runs test for several kinds (Barton & David 1957, "Multiple runs").
    """
    n = labels.size
    counts = np.bincount(labels).astype(np.float64)
    squares, cubes = float((counts**2).sum()), float((counts**3).sum())
    expected = n - squares / n
    variance = (squares * (squares + n * (n + 1.0)) - 2.0 * n * cubes - float(n) ** 3) / (n * n * (n - 1.0))
    return int(np.count_nonzero(np.diff(labels))), expected, math.sqrt(max(variance, 0.0))


def modes(samples: Samples) -> Modes:
    """The well separated levels of the series and how it moves between them.

    Levels are the groups between the significant valleys of a kernel density of the logarithms (see `density`),
    each with at least 5 % of the samples and 2 % from the next.
    """
    series = as_series(samples)
    n = series.size
    if not n:
        return Modes((), 0, 0.0, 0.0)
    edges: list[float] = []
    if n >= _FEWEST and series.min() > 0.0 and series.max() >= series.min() * (1.0 + _LEAST_DISTANCE):
        logs = np.log(fill_ticks(series))
        edges = _apart(logs, valleys(logs))
    labels = np.searchsorted(np.exp(edges), series, side="right")
    groups = [series[labels == k] for k in range(len(edges) + 1)]
    found = tuple(
        Mode(float(np.median(group)), float(group.min()), float(group.max()), group.size / n) for group in groups
    )
    if len(found) == 1:
        return Modes(found, 0, 0.0, float(n))
    switches, expected, error = _switching(labels)
    return Modes(found, switches, expected, n / (switches + 1.0), error)
