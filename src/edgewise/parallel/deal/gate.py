"""Whether a helper helps: the stream with it and without it, in turns. One that adds nothing had better rest.

A target that is quick by itself may cost the others more than it does: it takes memory bandwidth, heat, or the core
that feeds a GPU. The rule has no clock and no processes; `rate` is asked for frames per second.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import fmean

from ...core.types import Target

# What a stream must gain by somebody who takes part in it.
LEAST_GAIN = 1.01
# With and without, each second pair the other way round, so that a machine that becomes slower favours nobody.
PAIRS = 3

Rate = Callable[[frozenset[int]], float]


def groups(targets: Sequence[Target], frame_ns: Sequence[float]) -> list[tuple[int, ...]]:
    """Workers that are alike but for their cores, those first that do least together. Where all are, the quickest is
    one group and the others are another."""
    found: dict[Target, list[int]] = {}
    for who, target in enumerate(targets):
        found.setdefault(replace(target, cores=()), []).append(who)
    those = [tuple(each) for each in found.values()]
    if len(those) == 1:
        quickest = min(those[0], key=lambda who: frame_ns[who])
        those = [(quickest,), tuple(who for who in those[0] if who != quickest)]
    return sorted(those, key=lambda each: sum(1 / frame_ns[who] for who in each))


def resting(those: Sequence[tuple[int, ...]], rate: Rate) -> dict[int, float]:
    """Who had better rest, and what the stream gained by them. `rate` is given those that rest. Somebody works."""
    found: dict[int, float] = {}
    for group in those:
        if len(found) + len(group) == sum(map(len, those)):
            continue
        gained = gain(frozenset(found), frozenset([*found, *group]), rate)
        if gained <= LEAST_GAIN:
            found |= dict.fromkeys(group, gained)
    return found


def gain(few: frozenset[int], more: frozenset[int], rate: Rate) -> float:
    """How many times as fast the stream is while `few` rest as while `more` do."""
    logs = []
    for pair in range(PAIRS):
        if pair % 2:
            without, together = rate(more), rate(few)
        else:
            together, without = rate(few), rate(more)
        logs.append(math.log(together / without))
    return math.exp(fmean(logs))
