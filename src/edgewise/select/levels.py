"""The levels of a chain: what decides at each of them whether an image is its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.errors import InputError
from . import cnn, svm, tree
from .cnn import Thumbnails
from .neighbours import Points
from .subset import optimal
from .table import Flags

KINDS = ("knn", "tree", "svm", "cnn")
# None: nearest neighbours, which all such levels share.
Level = tree.Tree | svm.Machine | cnn.Network | None


def kinds_of(text: str, count: int) -> tuple[str, ...]:
    """One kind for each level of `knn+tree`: the last one named goes on."""
    named = text.split("+")
    if unknown := [name for name in named if name not in KINDS]:
        raise InputError(
            f"a level is one of {', '.join(KINDS)}, found {unknown[0]!r}", "--method 'premodel(levels=knn+tree)'"
        )
    return tuple(named[min(level, len(named) - 1)] for level in range(count))


def kind_of(level: Level) -> str:
    if level is None:
        return "knn"
    if isinstance(level, cnn.Network):
        return "cnn"
    return "tree" if isinstance(level, tree.Tree) else "svm"


def labels_of(right: Flags, costs: Sequence[float], chain: Sequence[int]) -> Flags:
    """For each level (row) the images that are its own: its candidate is the cheapest of the chain that is right."""
    best = optimal(right[:, list(chain)], [costs[candidate] for candidate in chain])
    return np.stack([best == level for level in range(len(chain))])


def deciding(votes: Flags) -> NDArray[np.intp]:
    """The first level (row) that says yes, for each image (column); as many as there are levels where none does."""
    return np.where(votes.any(axis=0), votes.argmax(axis=0), len(votes))


def learn(kind: str, points: Points, thumbnails: Thumbnails, yes: Flags, seed: int) -> Level:
    if kind == "tree":
        return tree.grow(points, yes)
    if kind == "cnn":
        return cnn.train(thumbnails, yes, seed=seed)
    return svm.train(points, yes, seed=seed) if kind == "svm" else None


def answers(level: tree.Tree | svm.Machine | cnn.Network, points: Points, thumbnails: Thumbnails) -> Flags:
    """Each looks at what it has learned to look at."""
    return level.answers(thumbnails if isinstance(level, cnn.Network) else points)


def arrays_of(levels: Sequence[Level]) -> dict[str, NDArray[Any]]:
    """What they learned, under names that say which level it is of."""
    return {
        f"level{place}.{name}": array
        for place, level in enumerate(levels)
        if level is not None
        for name, array in level.arrays().items()
    }


def load(kind: str, place: int, arrays: Mapping[str, NDArray[Any]], features: int) -> Level:
    begin = f"level{place}."
    own = {name.removeprefix(begin): array for name, array in arrays.items() if name.startswith(begin)}
    if kind == "tree":
        return tree.load(own, features)
    if kind == "cnn":
        return cnn.load(own)
    return svm.load(own, features) if kind == "svm" else None
