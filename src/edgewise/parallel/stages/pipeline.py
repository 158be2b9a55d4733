"""Where to cut a graph so that the slowest stage of a pipeline is as quick as can be: exact, over measured costs.

Units are pieces of the graph in an order they can run in; a stage is a stretch of them on one target, and each target
has one stage at most. A frame passes all stages, and the pipeline delivers as often as its slowest stage is done.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise

# What handing over from target `a` to target `b` after unit `i` costs the stage that receives.
Transfer = Callable[[int, int, int], float]


@dataclass(frozen=True, slots=True)
class Stage:
    """Units `first` to `last`, the latter not included, on the target with this number."""

    first: int
    last: int
    target: int
    cost: float


def free(after: int, giver: int, taker: int) -> float:
    return 0.0


def pipeline(costs: Sequence[Sequence[float | None]], transfer: Transfer = free) -> list[Stage]:
    """Stages with the least cost of the slowest; of equals, the fewest. `costs[target][unit]`: None where the target
    does not run the unit. An empty list where no order of targets runs them all."""
    count = len(costs[0])
    # best[units done, targets used, the last of them]: the slowest stage, how many there are, and how it came about.
    best: dict[tuple[int, int, int], tuple[float, int, list[Stage]]] = {(0, 0, -1): (0.0, 0, [])}
    for done in range(count):
        for (at, used, giver), (slowest, stages, taken) in list(best.items()):
            if at != done:
                continue
            for taker in range(len(costs)):
                if used >> taker & 1:
                    continue
                cost = 0.0 if giver < 0 else transfer(done - 1, giver, taker)
                for last, unit in enumerate(costs[taker][done:], done + 1):
                    if unit is None:
                        break
                    cost += unit
                    key = (last, used | 1 << taker, taker)
                    found = (max(slowest, cost), stages + 1)
                    if key not in best or found < best[key][:2]:
                        best[key] = (*found, [*taken, Stage(done, last, taker, cost)])
    ends = [value for (at, *_), value in best.items() if at == count]
    return min(ends, key=lambda value: value[:2])[2] if ends else []


# What these stages take, measured as they are; None for one that does not run.
Check = Callable[[Sequence[Stage]], Sequence[float | None]]


def refined(
    costs: Sequence[Sequence[float | None]], transfer: Transfer, check: Check, tries: int = 4
) -> tuple[list[Stage], int]:
    """The best of a few cuts that were measured whole, each stage with the cost it had, and how many were measured.

    A stage takes less than its units alone, by a factor that its target tells; with the costs of every target corrected
    by its factor the best cut is sought again. When that is no news, the slowest stage gives a unit to the neighbour
    that has less to do.
    """
    seen: set[tuple[tuple[int, int, int], ...]] = set()
    best: list[Stage] = []
    now = pipeline(costs, transfer)
    factors = [1.0] * len(costs)
    while now and len(seen) < tries:
        seen.add(_key(now))
        found = check(now)
        for stage, cost in zip(now, found, strict=True):
            added = sum(costs[stage.target][unit] or 0.0 for unit in range(stage.first, stage.last))
            if cost is not None and added > 0:
                factors[stage.target] = cost / added
        taken = [replace(s, cost=c) for s, c in zip(now, found, strict=True) if c is not None]
        if len(taken) == len(now) and (not best or slowest(taken) < slowest(best)):
            best = taken
        corrected = [[None if c is None else c * f for c in row] for row, f in zip(costs, factors, strict=True)]
        options = [pipeline(corrected, transfer), *_eased(best, costs)]
        now = next((each for each in options if each and _key(each) not in seen), [])
    return best, len(seen)


def slowest(stages: Sequence[Stage]) -> float:
    return max((stage.cost for stage in stages), default=0.0)


def by_shares(work: Sequence[float], shares: Sequence[float]) -> list[Stage]:
    """Stages in the order of the targets, cut where the work comes nearest to the shares, a unit each at least; a
    stage's cost is its work. Empty where there are fewer units than shares."""
    count = len(work)
    if count < len(shares):
        return []
    done = [0.0, *accumulate(work)]
    goals = [goal / sum(shares) * done[-1] for goal in accumulate(shares)]
    edges = [0]
    for place, goal in enumerate(goals[:-1]):
        choices = range(edges[-1] + 1, count - (len(goals) - place - 1) + 1)
        edges.append(min(choices, key=lambda at: (abs(done[at] - goal), at)))
    edges.append(count)
    return [Stage(a, b, target, done[b] - done[a]) for target, (a, b) in enumerate(pairwise(edges))]


def _key(stages: Sequence[Stage]) -> tuple[tuple[int, int, int], ...]:
    return tuple((stage.first, stage.last, stage.target) for stage in stages)


def _eased(stages: Sequence[Stage], costs: Sequence[Sequence[float | None]]) -> list[list[Stage]]:
    """The slowest stage a unit shorter, which a neighbour does that can; the one with less to do first."""
    if len(stages) < 2:
        return []
    place = max(range(len(stages)), key=lambda each: stages[each].cost)
    now, found = stages[place], []
    for other in sorted((place - 1, place + 1), key=lambda each: stages[each].cost if 0 <= each < len(stages) else 0):
        if not 0 <= other < len(stages) or now.last - now.first < 2:
            continue
        unit = now.first if other < place else now.last - 1
        if costs[stages[other].target][unit] is None:
            continue
        made = list(stages)
        if other < place:
            made[place], made[other] = replace(now, first=unit + 1), replace(stages[other], last=unit + 1)
        else:
            made[place], made[other] = replace(now, last=unit), replace(stages[other], first=unit)
        found.append(made)
    return found
