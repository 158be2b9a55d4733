"""A support vector machine for yes or no, with a Gaussian kernel, trained by dual coordinate descent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.errors import InputError
from .neighbours import Columns, Points, squared
from .table import Flags

# What being on the wrong side costs, and how wide the kernel is: exp(-width × squared distance) of scaled features.
COST = 1.0
WIDTH = 4.0
# Above this many rows some are drawn: the kernel of all pairs is kept while training.
ROWS = 2000
_SWEEPS = 60
_ENOUGH = 1e-3
_AT_ONCE = 32


@dataclass(frozen=True, slots=True)
class Machine:
    """The support vectors (turned, as for neighbours) and their weights. The kernel is one larger than the Gaussian,
    which takes the place of a bias."""

    columns: Columns
    weights: NDArray[np.float32]
    width: float

    def answers(self, points: Points) -> Flags:
        parts = [self._some(points[at : at + _AT_ONCE]) for at in range(0, len(points), _AT_ONCE)]
        return np.concatenate(parts) if parts else np.empty(0, np.bool_)

    def _some(self, points: Points) -> Flags:
        near = squared(self.columns, points)
        near *= np.float32(-self.width)
        np.exp(near, out=near)
        near += np.float32(1.0)
        near *= self.weights
        yes: Flags = near.sum(axis=1) > 0
        return yes

    def arrays(self) -> Mapping[str, NDArray[Any]]:
        return {"columns": self.columns, "weights": self.weights, "width": np.array(self.width)}


def train(points: Points, yes: Flags, *, cost: float = COST, width: float = WIDTH, seed: int = 0) -> Machine:
    """Coordinate by coordinate in an order drawn anew for each sweep (Hsieh and others, 2008), until no weight moves
    by much."""
    random = np.random.default_rng(seed)
    if len(points) > ROWS:
        drawn = np.sort(random.choice(len(points), ROWS, replace=False))
        points, yes = points[drawn], yes[drawn]
    side = np.where(yes, 1.0, -1.0)
    kernel = np.empty((len(points), len(points)))
    columns = np.ascontiguousarray(points.T)
    for at in range(0, len(points), _AT_ONCE):
        kernel[at : at + _AT_ONCE] = np.exp(-width * squared(columns, points[at : at + _AT_ONCE])) + 1.0
    weights = np.zeros(len(points))
    scores = np.zeros(len(points))
    for _ in range(_SWEEPS):
        largest = 0.0
        for row in random.permutation(len(points)):
            old = weights[row] * side[row]
            new = min(cost, max(0.0, old - (side[row] * scores[row] - 1.0) / kernel[row, row]))
            if new != old:
                weights[row] = new * side[row]
                scores += kernel[row] * ((new - old) * side[row])
                largest = max(largest, abs(new - old))
        if largest < _ENOUGH * cost:
            break
    support = weights != 0
    if not support.any():
        support[0] = True
    return Machine(np.ascontiguousarray(columns[:, support]), weights[support].astype(np.float32), width)


def load(arrays: Mapping[str, NDArray[Any]], features: int) -> Machine:
    """From its arrays, checked."""
    columns, weights, width = (arrays.get(name) for name in ("columns", "weights", "width"))
    if (
        columns is None
        or weights is None
        or width is None
        or columns.dtype != np.float32
        or weights.dtype != np.float32
        or weights.ndim != 1
        or not len(weights)
        or columns.shape != (features, len(weights))
        or width.shape != ()
        or width.dtype != np.float64
        or not float(width) > 0
        or not all(np.isfinite(each).all() for each in (columns, weights, width))
    ):
        raise InputError("a support vector machine whose arrays do not fit together")
    return Machine(np.ascontiguousarray(columns), weights, float(width))
