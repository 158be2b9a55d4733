"""What a policy must be measured by: mixing single candidates at random, and knowing beforehand who will be right."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..core.choice import Spot
from .policy import Replayed
from .table import Table


def hull(spots: Sequence[Spot]) -> tuple[Spot, ...]:
    """What drawing one of them by lot for each image reaches: corners of the concave upper left edge, from the cheapest
    to the most accurate."""
    corners: list[Spot] = []
    for spot in sorted(spots, key=lambda each: (each.cost, -each.accuracy)):
        if corners and spot.accuracy <= corners[-1].accuracy:
            continue
        while len(corners) > 1 and _below(corners[-2], corners[-1], spot):
            corners.pop()
        corners.append(spot)
    return tuple(corners)


def _below(first: Spot, middle: Spot, last: Spot) -> bool:
    """Whether the middle one is no better than mixing the other two."""
    return (middle.accuracy - first.accuracy) * (last.cost - first.cost) <= (last.accuracy - first.accuracy) * (
        middle.cost - first.cost
    )


def cost_at(corners: Sequence[Spot], accuracy: float) -> float | None:
    """Of the cheapest mix that is as accurate; None where none is."""
    if accuracy > corners[-1].accuracy:
        return None
    return float(np.interp(accuracy, [each.accuracy for each in corners], [each.cost for each in corners]))


def accuracy_at(corners: Sequence[Spot], cost: float) -> float:
    """Of the best mix for that cost; the cheapest candidate's where none is as cheap."""
    return float(np.interp(cost, [each.cost for each in corners], [each.accuracy for each in corners]))


def alone(table: Table, objective: str) -> NDArray[np.float64]:
    """What asking each candidate, and only it, costs."""
    return table.costs(np.eye(len(table.candidates), dtype=np.bool_), objective)


def oracle(table: Table, objective: str = "time", *, top: int = 1) -> Replayed:
    """The cheapest candidate that is right; where none is, the cheapest."""
    right = table.right(top)
    order = np.argsort(alone(table, objective), kind="stable")
    last = order[right[:, order].argmax(axis=1)]
    rows = np.arange(len(table))
    ran = np.zeros(right.shape, np.bool_)
    ran[rows, last] = True
    scores = np.stack([each.argmax(axis=1) for each in table.scores], axis=1)
    return Replayed(scores[rows, last], ran, last, np.ones(len(table)), right[rows, last])
