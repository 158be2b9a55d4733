"""How much smaller each layer becomes, so that all of them together cost what is wanted and lose least."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .pieces import Choice


@dataclass(frozen=True, slots=True)
class Candidate:
    """A layer in one form, or as it is: what it costs, and the share of its output's energy that is lost."""

    choice: Choice | None
    cost: float
    error: float


def gated(whole: Candidate, candidates: Sequence[Candidate], most_error: float) -> list[Candidate]:
    """The layer as it is, and of its forms those that cost less and do not lose too much."""
    return [whole, *(each for each in candidates if each.cost < whole.cost and each.error <= most_error)]


def shrink(tables: Mapping[str, Sequence[Candidate]], saved: float) -> dict[str, Candidate]:
    """One of each layer's candidates, the first of which is the layer as it is. Again and again the step that loses
    least for what it saves is taken, until `saved` is reached or no step is left."""
    now = {name: table[0] for name, table in tables.items()}
    left = saved
    while left > 0:
        steps = [
            (name, each, (each.error - now[name].error) / (now[name].cost - each.cost))
            for name, table in tables.items()
            for each in table
            if each.cost < now[name].cost
        ]
        if not steps:
            break
        name, best, _ = min(steps, key=lambda step: (step[2], step[1].cost))
        if now[name].cost - best.cost >= left:
            # The last step need not go further than it has to.
            enough = [step for step in steps if now[step[0]].cost - step[1].cost >= left]
            name, best, _ = min(enough, key=lambda step: (step[1].error - now[step[0]].error, step[1].cost))
        left -= now[name].cost - best.cost
        now[name] = best
    return now
