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
    parts = [least(squared(columns, points[at : at + _AT_ONCE]), k) for at in range(0, len(points), _AT_ONCE)]
    if len(parts) == 1:
        return parts[0]
    empty = (np.empty((0, k), np.intp), np.empty((0, k), np.float32))
    places, found = zip(empty, *parts, strict=True)
    return np.concatenate(places), np.concatenate(found)


def squared(columns: Columns, points: Points) -> NDArray[np.float32]:
    """Squared distances: a row for each point, a column for each image. Each is summed feature by feature, whatever
    else is asked for at the same time, so that one point alone gets the same to the bit."""
    apart = columns - points[:, :, None]
    apart *= apart
    total: NDArray[np.float32] = apart.sum(axis=1)
    return total


def least(distances: NDArray[np.float32], k: int) -> tuple[NDArray[np.intp], NDArray[np.float32]]:
    """In each row the places of the `k` least values, and those. Columns are put into groups and the least of each is
    taken: the k-th of those is no less than the k-th of all, so few remain to be sorted. Partitioning all takes several
    times as long."""
    rows, count = distances.shape
    groups = count // _GROUP
    if groups <= 2 * k:
        order = distances.argsort(axis=1, kind="stable")[:, :k]
        return order, np.take_along_axis(distances, order, axis=1)
    lowest = distances[:, : groups * _GROUP].reshape(rows, _GROUP, groups).min(axis=1)
    lowest.partition(k - 1, axis=1)
    near = distances <= lowest[:, k - 1 : k]
    if rows == 1:
        (places,) = near[0].nonzero()
        values = distances[0].take(places)
        first = values.argsort(kind="stable")[:k]
        return places.take(first)[None], values.take(first)[None]
    # Several times as quick as asking for rows and columns at once.
    row, column = np.divmod(near.ravel().nonzero()[0], count)
    counts = np.bincount(row, minlength=rows)
    slot = np.arange(len(row)) - (counts.cumsum() - counts).take(row)
    table = np.full((rows, int(counts.max())), np.inf, np.float32)
    known = np.zeros(table.shape, np.intp)
    table[row, slot], known[row, slot] = distances[row, column], column
    order = table.argsort(axis=1, kind="stable")[:, :k]
    return np.take_along_axis(known, order, axis=1), np.take_along_axis(table, order, axis=1)
