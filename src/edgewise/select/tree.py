"""A decision tree for yes or no: CART (Breiman and others, 1984), by Gini's impurity, grown to a fixed depth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.errors import InputError
from .neighbours import Points
from .table import Flags

DEPTH = 8
LEAF = 5
_NONE = -1


@dataclass(frozen=True, slots=True)
class Tree:
    """Node 0 is the root. A node with a feature sends what is at most its threshold to `left`, the rest to `right`;
    one without answers `yes`. A node comes before those below it."""

    feature: NDArray[np.int32]
    threshold: NDArray[np.float32]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    yes: Flags

    def answers(self, points: Points) -> Flags:
        if len(points) == 1:
            return np.array([self._answer(points[0].tolist())])
        at = np.zeros(len(points), np.intp)
        rows = np.arange(len(points))
        while True:
            feature = self.feature[at]
            inner = feature != _NONE
            if not inner.any():
                return self.yes[at]
            low = points[rows, np.maximum(feature, 0)] <= self.threshold[at]
            at = np.where(inner, np.where(low, self.left[at], self.right[at]), at)

    def _answer(self, point: list[float]) -> bool:
        at = 0
        while (feature := int(self.feature[at])) != _NONE:
            at = int(self.left[at] if point[feature] <= float(self.threshold[at]) else self.right[at])
        return bool(self.yes[at])

    def arrays(self) -> Mapping[str, NDArray[Any]]:
        return {name: getattr(self, name) for name in self.__slots__}


def grow(points: Points, yes: Flags, *, depth: int = DEPTH, leaf: int = LEAF) -> Tree:
    """At most so deep, and with so many images in each leaf at least. Of several splits alike the first feature's and
    lowest is taken."""
    nodes: list[tuple[int, float, int, int, bool]] = []

    def add(rows: NDArray[np.intp], level: int) -> int:
        own = len(nodes)
        answer = bool(2 * int(yes[rows].sum()) > len(rows))
        nodes.append((_NONE, 0.0, _NONE, _NONE, answer))
        found = _split(points[rows], yes[rows], leaf) if level < depth else None
        if found is not None:
            feature, threshold = found
            low = points[rows, feature] <= threshold
            left, right = add(rows[low], level + 1), add(rows[~low], level + 1)
            nodes[own] = (feature, float(threshold), left, right, answer)
        return own

    add(np.arange(len(points)), 0)
    feature, threshold, left, right, answers = zip(*nodes, strict=True)
    return Tree(
        np.array(feature, np.int32),
        np.array(threshold, np.float32),
        np.array(left, np.int32),
        np.array(right, np.int32),
        np.array(answers, np.bool_),
    )


def _split(points: Points, yes: Flags, leaf: int) -> tuple[int, np.float32] | None:
    """The feature and threshold that leave the least impurity; None where none leaves less."""
    count, total = len(yes), int(yes.sum())
    if total in (0, count) or count < 2 * leaf:
        return None
    order = points.argsort(axis=0, kind="stable")
    values = np.take_along_axis(points, order, axis=0)
    ones = yes[order].cumsum(axis=0)[leaf - 1 : count - leaf].astype(np.float64)
    below = np.arange(leaf, count - leaf + 1, dtype=np.float64)[:, None]
    # Twice the impurity of a part of n with p ones is 2 p (n - p) / n.
    impurity = ones * (below - ones) / below
    rest = total - ones
    impurity += rest * (count - below - rest) / (count - below)
    # Between equal values nothing can be cut.
    impurity[values[leaf - 1 : count - leaf] == values[leaf : count - leaf + 1]] = np.inf
    row, feature = divmod(int(impurity.argmin()), points.shape[1])
    if not impurity[row, feature] < total * (count - total) / count - 1e-9:
        return None
    # The lower value itself: the middle of two neighbours may be rounded to the upper.
    return feature, values[leaf - 1 + row, feature]


def load(arrays: Mapping[str, NDArray[Any]], features: int) -> Tree:
    """From its arrays, checked: a walk from the root ends in a leaf whatever the point."""
    try:
        tree = Tree(*(arrays[name] for name in Tree.__slots__))
    except KeyError as missing:
        raise InputError(f"a decision tree without its {missing.args[0]!r}") from None
    kinds = (np.int32, np.float32, np.int32, np.int32, np.bool_)
    nodes = len(tree.feature)
    own = np.arange(nodes)
    inner = tree.feature != _NONE
    ahead = [(each > own) & (each < nodes) | ~inner for each in (tree.left, tree.right)] if nodes else []
    if (
        not nodes
        or any(array.shape != (nodes,) for array in tree.arrays().values())
        or any(array.dtype != kind for array, kind in zip(tree.arrays().values(), kinds, strict=True))
        or not all(each.all() for each in ahead)
        or tree.feature.min() < _NONE
        or tree.feature.max() >= features
        or not np.isfinite(tree.threshold).all()
    ):
        raise InputError("a decision tree whose nodes do not fit together")
    return tree
