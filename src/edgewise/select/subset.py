"""Which candidates are worth choosing from: Algorithm 1 of the adaptive model selection paper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .table import Flags

# In the place of a candidate: none is right.
NOBODY = -1
THETA = 0.005


@dataclass(frozen=True, slots=True)
class Step:
    """A candidate was added: the share of images that one of those chosen so far gets right, how much of it is new,
    and how accurate every candidate was on the images that all chosen before get wrong."""

    candidate: int
    accuracy: float
    gain: float
    on_failures: tuple[float, ...]


def optimal(right: Flags, costs: Sequence[float]) -> NDArray[np.int64]:
    """For each image the cheapest candidate that is right, of several alike the first; NOBODY where none is."""
    order = np.argsort(np.asarray(costs), kind="stable")
    sorted_right = right[:, order]
    return np.where(sorted_right.any(axis=1), order[sorted_right.argmax(axis=1)], NOBODY)


def most_accurate(right: Flags, costs: Sequence[float]) -> int:
    """Of several alike the cheapest."""
    found = right.mean(axis=0)
    return min(range(len(costs)), key=lambda place: (-found[place], costs[place]))


def choose(right: Flags, costs: Sequence[float], *, theta: float = THETA, count: int | None = None) -> tuple[Step, ...]:
    """First the candidate that is optimal for most images; then always the most accurate one on what fails, as long as
    more than `theta` of all images are won by it. With `count`, so many, whatever they win. Ties go to the cheaper.

    The paper's listing adds the one that wins too little before it stops; its text leaves it out, and so does this.
    """
    images, candidates = right.shape
    best = optimal(right, costs)
    often = [int((best == place).sum()) for place in range(candidates)]
    first = max(range(candidates), key=lambda place: (often[place], -costs[place], -place))
    steps: list[Step] = []
    solved = np.zeros(images, np.bool_)
    following: int | None = first
    while following is not None:
        failures = right[~solved]
        on_failures = failures.mean(axis=0) if len(failures) else np.zeros(candidates)
        added = solved | right[:, following]
        gain = float(added.mean() - solved.mean())
        if steps and count is None and gain <= theta:
            break
        steps.append(Step(following, float(added.mean()), gain, tuple(on_failures.tolist())))
        solved = added
        following = None if len(steps) == count else _next(right[~solved], costs, [step.candidate for step in steps])
    return tuple(steps)


def _next(failures: Flags, costs: Sequence[float], chosen: Sequence[int]) -> int | None:
    """The most accurate of the others on these images."""
    won = failures.sum(axis=0)
    others = [place for place in range(len(costs)) if place not in chosen]
    return max(others, key=lambda place: (won[place], -costs[place], -place), default=None)
