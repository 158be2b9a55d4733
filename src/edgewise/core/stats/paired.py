"""Comparison of two series measured in turns, over several fresh pairs of processes.

Two processes that run the same thing differ: where memory landed, which pages the system had. That difference stays
for as long as the processes live, so rounds within one pair of processes cannot average it out, and an interval over
rounds alone calls equal things different. The unit of replication is therefore the pair of processes (the highest
level at which variation occurs: Kalibera & Jones, 2013, "Rigorous benchmarking in reasonable time"). Within a pair,
interleaved rounds cancel what drifts slowly.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median, stdev

from .special import t_quantile

# Below this, a difference is within what the placement of pages and code does to two copies of one program, and
# does not repeat on the next machine: it is reported, and not called a difference.
SMALLEST_DIFFERENCE = 0.01


@dataclass(frozen=True, slots=True)
class Ratio:
    """Time of the first over time of the second, with its interval."""

    low: float
    estimate: float
    high: float
    level: float
    pairs: int

    @property
    def different(self) -> bool:
        return self.low > 1 + SMALLEST_DIFFERENCE or self.high < 1 / (1 + SMALLEST_DIFFERENCE)

    @property
    def detectable(self) -> float:
        """The largest difference the interval leaves room for."""
        return max(self.high, 1 / self.low) - 1


def ratio(pairs: Sequence[Sequence[tuple[float, float]]], level: float = 0.95) -> Ratio | None:
    """`pairs[g][r]` is what round r of process pair g took on either side (a median each). None below two pairs.

    Each process pair gives one number, the median over its rounds of the log ratio; the interval is Student's over
    those, which are independent and, being medians of many rounds, close to normal.
    """
    logs = [median(math.log(a / b) for a, b in rounds) for rounds in pairs if rounds]
    if len(logs) < 2:
        return None
    centre = fmean(logs)
    half = t_quantile(0.5 + level / 2, len(logs) - 1) * stdev(logs) / math.sqrt(len(logs))
    return Ratio(math.exp(centre - half), math.exp(centre), math.exp(centre + half), level, len(logs))
