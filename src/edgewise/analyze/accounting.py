"""A profile's account: operators + dispatch + copy + other - looking = plain latency, every term as it was measured.

Instrumented runs are slower than plain ones, in part because of the instruments: so the first four add up to an
instrumented run, and `looking` is what an instrumented run took more than the plain one beside it. It is not known
which of the others it sits in, so it is taken off none of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import stdev

from ..core.profile import Profile
from ..core.stats.special import t_quantile

# Operator times are said to add up when their sum is this close to the plain latency (GOALS, T5).
CLOSE = 0.05
# The interval is over blocks of consecutive pairs, since neighbours are alike; fewer blocks or pairs tell too little.
_MOST_BLOCKS, _FEWEST_BLOCKS, _PAIRS = 10, 5, 4


@dataclass(frozen=True, slots=True)
class Account:
    """Means over the same pairs of runs, so that the parts add up exactly; None where the engine does not tell.

    `sum_ratio` is operators over plain latency, with the ends of its 95 % interval in this process.
    """

    plain_ns: float
    instrumented_ns: float
    operators_ns: float
    dispatch_ns: float | None
    copy_ns: float | None
    other_ns: float
    times_ns: tuple[float, ...]
    events: int
    pairs: int
    sum_ratio: float
    sum_ratio_range: tuple[float, float] | None

    @property
    def looking_ns(self) -> float:
        return self.instrumented_ns - self.plain_ns

    @property
    def adds_up(self) -> bool | None:
        """Whether operators are within 5 % of the latency; None where the interval leaves that open."""
        low, high = self.sum_ratio_range or (self.sum_ratio, self.sum_ratio)
        if low >= 1 - CLOSE and high <= 1 + CLOSE:
            return True
        return False if high < 1 - CLOSE or low > 1 + CLOSE else None


def account(profile: Profile) -> Account:
    """Where operator times are means already, they contain every run, and so must all that is set beside them."""
    everything = range(len(profile.plain_ns))
    chosen = everything if profile.spans.averaged else _typical(profile, everything)

    # Whole numbers as long as they are added and subtracted, so that what is nothing comes out as nothing.
    def total(samples: Sequence[int]) -> int:
        return sum(samples[i] for i in chosen)

    times = [total(op.samples_ns) if op.samples_ns else 0 for op in profile.ops]
    operators, plain, instrumented = sum(times), total(profile.plain_ns), total(profile.instrumented_ns)
    executor = total(profile.spans.executor_ns) if profile.spans.executor_ns else None
    engine = total(profile.spans.engine_ns) if profile.spans.engine_ns else None
    dispatch = None if executor is None else executor - operators
    copy = None if engine is None else instrumented - engine
    other = instrumented - operators - (dispatch or 0) - (copy or 0)
    runs = len(chosen)
    sums = _sums(profile)
    ratio = _ratio(profile, sums, everything)
    return Account(
        plain / runs,
        instrumented / runs,
        operators / runs,
        None if dispatch is None else dispatch / runs,
        None if copy is None else copy / runs,
        other / runs,
        tuple(taken / runs for taken in times),
        sum(bool(op.samples_ns) for op in profile.ops),
        len(everything),
        ratio,
        _range(profile, sums, ratio),
    )


def _typical(profile: Profile, pairs: Sequence[int]) -> Sequence[int]:
    """The middle half by the time both runs took together: neither what was interrupted nor the luckiest."""
    ordered = sorted(pairs, key=lambda i: profile.plain_ns[i] + profile.instrumented_ns[i])
    return ordered[len(ordered) // 4 : len(ordered) - len(ordered) // 4]


def _sums(profile: Profile) -> Sequence[float]:
    """What all operators took together in each run.

    Where their times are means they cannot be set beside single runs: their share of all instrumented runs, as a ratio
    of means, stands in for each run's own.
    """
    ran = [op.samples_ns for op in profile.ops if op.samples_ns]
    sums: list[float] = [sum(run) for run in zip(*ran, strict=True)] if ran else [0.0] * len(profile.plain_ns)
    if profile.spans.averaged:
        share = sum(sums) / sum(profile.instrumented_ns)
        return [share * watched for watched in profile.instrumented_ns]
    return sums


def _ratio(profile: Profile, sums: Sequence[float], pairs: Sequence[int]) -> float:
    typical = _typical(profile, pairs)
    return sum(sums[i] for i in typical) / sum(profile.plain_ns[i] for i in typical)


def _range(profile: Profile, sums: Sequence[float], ratio: float) -> tuple[float, float] | None:
    """Student's over blocks, on the logarithm (batch means)."""
    pairs = len(sums)
    blocks = min(_MOST_BLOCKS, pairs // _PAIRS)
    if blocks < _FEWEST_BLOCKS or not ratio:
        return None
    edges = [pairs * i // blocks for i in range(blocks + 1)]
    logs = [math.log(_ratio(profile, sums, range(a, b))) for a, b in pairwise(edges)]
    half = t_quantile(0.975, blocks - 1) * stdev(logs) / math.sqrt(blocks)
    return ratio * math.exp(-half), ratio * math.exp(half)
