"""The rows of a table that are nearest to a point."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Points = NDArray[np.float32]  # a row for each image, scaled
Columns = NDArray[np.float32]  # the same turned: a row for each feature, so that one operation takes all images

# Points at a time: what is in between stays in the cache.
_AT_ONCE = 32
# Rows of which only the nearest is looked at first.
_GROUP = 24
# Twice what a number of 32 bits is rounded by, relatively.
_ROUNDED = float(np.finfo(np.float32).eps)
# Points farther away than anything scaled can be are left to the exact way, before anything overflows.
_FAR = 1e6


@dataclass(frozen=True, slots=True)
class Known:
    """Rows to be found by what is near to them. `product` are the columns and, below them, the square of each row's
    length, of which `longest` is the largest: with it, one product nearly gives the distances from a point."""

    columns: Columns
    product: NDArray[np.float32]
    longest: float

    def nearest(self, points: Points, k: int) -> tuple[NDArray[np.intp], NDArray[np.float32]]:
        """As `nearest` says it. For one point the distance to most rows is only found nearly: the few that may be among
        the nearest for all that numbers are rounded are then looked at exactly, so that the answer is the same."""
        count = self.columns.shape[1]
        groups = count // _GROUP
        if len(points) != 1 or groups <= 2 * k:
            return nearest(self.columns, points, k)
        factors = np.ones(len(self.product), np.float32)
        np.multiply(points[0], np.float32(-2.0), out=factors[:-1])
        # Twice the most that this way and the exact one may be apart: by the number of terms, and how large they are.
        largest = float(factors[:-1] @ factors[:-1]) / 4 + self.longest
        apart = 2 * (4 * len(factors) + 16) * _ROUNDED * largest
        if not apart < _FAR:
            return nearest(self.columns, points, k)
        # No matrix product: its library may wake other threads for it, which takes longer than this.
        nearly = np.einsum("i,ij->j", factors, self.product)
        lowest = np.minimum.reduce(nearly[: groups * _GROUP].reshape(_GROUP, groups))
        # Two at the least: numpy adds up a single column in another order.
        last = max(2, k) - 1
        lowest.partition(last)
        (places,) = (nearly <= lowest[last] + np.float32(apart)).nonzero()
        values = squared(self.columns.take(places, axis=1), points)[0]
        first = values.argsort(kind="stable")[:k]
        return places.take(first)[None], values.take(first)[None]


def known(columns: Columns) -> Known:
    lengths = (columns.astype(np.float64) ** 2).sum(axis=0)
    # What is longer than a number of 32 bits can say is left to the exact way.
    with np.errstate(over="ignore"):
        product = np.concatenate((columns, lengths.astype(np.float32)[None]))
    return Known(columns, product, float(lengths.max(initial=0.0)))


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
