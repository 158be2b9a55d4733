"""When has a measurement seen enough?"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from .quantile import Interval, interval
from .series import Samples

Reason = Literal["minimum", "width", "max_runs", "max_s", "continue"]

# Stopping at the first narrow interval selects intervals that are too narrow by chance. Computed at a level
# with this share of the error, what is reported at the stop still covers at the level asked for.
_ERROR_SHARE = 0.6
# Looks are planned at sample counts growing by this factor, so that their number grows with the logarithm.
_GROWTH = 1.25


@dataclass(frozen=True, slots=True)
class Decision:
    stop: bool
    reason: Reason
    interval: Interval | None


@dataclass(frozen=True, slots=True)
class Stopping:
    """Both minima must be met; then the width of the median's interval, or either maximum, ends the run.

    `width` is relative to the median; 0 means: run to a maximum. The looks are planned on a geometric schedule
    (`next_look`) and the interval is computed at a stricter level than the one it is reported at, because a
    rule that stops at the first narrow interval picks narrow ones (Heidelberger & Welch 1981, "A spectral method
    for confidence interval generation and run length control in simulations").
    """

    width: float
    min_runs: int
    max_runs: int | None
    min_s: float
    max_s: float
    level: float = 0.95

    def next_look(self, runs: int) -> int:
        """The sample count at which to look again after having looked at `runs`."""
        planned = max(self.min_runs, math.ceil(runs * _GROWTH), runs + 1)
        return planned if self.max_runs is None else min(planned, max(self.max_runs, runs + 1))

    def decide(self, samples: Samples, elapsed_s: float, looks: int) -> Decision:
        """Whether to stop now, at the look number `looks` (1 is the first), and the interval to report then."""
        runs = len(samples)
        error = (1.0 - self.level) * (_ERROR_SHARE if looks > 1 else 1.0)
        if self.max_runs is not None and runs >= self.max_runs:
            return Decision(True, "max_runs", self._interval(samples, error))
        if elapsed_s >= self.max_s:
            return Decision(True, "max_s", self._interval(samples, error))
        if runs < self.min_runs or elapsed_s < self.min_s:
            return Decision(False, "minimum", None)
        found = self._interval(samples, error)
        if found is not None and self.width > 0.0 and found.relative_width <= self.width:
            return Decision(True, "width", found)
        return Decision(False, "continue", found)

    def _interval(self, samples: Samples, error: float) -> Interval | None:
        return _stricter(samples, self.level, error)


def interval_at_stop(samples: Samples, level: float = 0.95) -> Interval | None:
    """The interval to report for a series of which the end was chosen by its width."""
    return _stricter(samples, level, (1.0 - level) * _ERROR_SHARE)


def _stricter(samples: Samples, level: float, error: float) -> Interval | None:
    found = interval(samples, level=1.0 - error)
    return found and Interval(found.low, found.estimate, found.high, level)
