"""The rows of a table that are nearest to a point."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Points = NDArray[np.float32]  # a row for each image, scaled
Columns = NDArray[np.float32]  # the same turned: a row for each feature, so that one operation takes all images

# Points at a time: what is in between stays in the cache.
_AT_ONCE = 32
# Rows of which only the nearest is looked at first.
_GROUP = 24


def nearest(columns: Columns, points: Points, k: int) -> tuple[NDArray[np.intp], NDArray[np.float32]]:
    """For each point its `k` nearest, nearest first, and their squared distances. Of rows at the same distance the
    first ones are taken, so that the answer does not depend on how it is found. There must be `k` rows at least."""
    places = np.empty((len(points), k), np.intp)
    found = np.empty((len(points), k), np.float32)
    for begin in range(0, len(points), _AT_ONCE):
        for row, distances in enumerate(squared(columns, points[begin : begin + _AT_ONCE]), begin):
            places[row], found[row] = _least(distances, k)
    return places, found


def squared(columns: Columns, points: Points) -> NDArray[np.float32]:
    """Squared distances: a row for each point, a column for each image. Each is summed feature by feature, whatever
    else is asked for at the same time, so that one point alone gets the same to the bit."""
    apart = columns - points[:, :, None]
    apart *= apart
    total: NDArray[np.float32] = apart.sum(axis=1)
    return total


def _least(distances: NDArray[np.float32], k: int) -> tuple[NDArray[np.intp], NDArray[np.float32]]:
    """The rows are put into groups and the least of each is taken: the k-th of those is no less than the k-th of all,
    so few remain to be sorted. Partitioning all takes several times as long."""
    groups = len(distances) // _GROUP
    if groups > 2 * k:
        least = distances[: groups * _GROUP].reshape(_GROUP, groups).min(axis=0)
        least.partition(k - 1)
        near = (distances <= least[k - 1]).nonzero()[0]
    else:
        near = np.arange(len(distances))
    values = distances.take(near)
    order = values.argsort(kind="stable")[:k]
    return near.take(order), values.take(order)
