"""Parts of the images in which each class has its share, the same for the same seed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..core.errors import InputError

Places = NDArray[np.int64]


def folds(labels: Places, count: int, seed: int = 0) -> tuple[Places, ...]:
    """As many parts, equal but for one image. Images are shuffled, put in the order of their classes, and dealt out."""
    if not 2 <= count <= len(labels):
        raise InputError(f"{len(labels)} images cannot be cut into {count} folds", "--folds 5")
    order = np.random.default_rng(seed).permutation(len(labels))
    dealt = order[np.argsort(labels[order], kind="stable")]
    return tuple(np.sort(dealt[start::count]) for start in range(count))


def halves(labels: Places, share: float, seed: int = 0) -> tuple[Places, Places]:
    """Two parts, the first with about `share` of each class."""
    if not 0 < share < 1:
        raise InputError(f"a part is between 0 and 1 of the images, found {share}")
    order = np.random.default_rng(seed).permutation(len(labels))
    dealt = order[np.argsort(labels[order], kind="stable")]
    first = np.diff(np.floor(np.arange(len(labels) + 1) * share + 0.5)) > 0
    return np.sort(dealt[first]), np.sort(dealt[~first])


def outside(part: Places, count: int) -> Places:
    """The places that are not in the part."""
    kept = np.ones(count, np.bool_)
    kept[part] = False
    return np.flatnonzero(kept)
