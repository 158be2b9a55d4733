"""The rows of a table that are nearest to a point."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Points = NDArray[np.float32]  # a row for each image, scaled
Columns = NDArray[np.float32]  # the same turned: a row for each feature, so that one operation takes all images

# Rows of which only the nearest is looked at first.
_GROUP = 24
# Twice what a number of 32 bits is rounded by, relatively.
_ROUNDED = float(np.finfo(np.float32).eps)
# Where rounding alone may do more than this, all rows are measured, before anything overflows.
_FAR = 1e6
# A product of no more terms is left to one thread by numpy's library: waking another takes longer.
_ALONE = 9000
# The square of a length that is nowhere near.
_NOWHERE = 1e30


@dataclass(frozen=True, slots=True)
class Known:
    """Rows to be found by what is near to them. `product` are the columns and, below them, the square of each row's
    length, of which `longest` is the largest: in parts one after the other, the last of them filled up."""

    columns: Columns
    product: NDArray[np.float32]
    longest: float

    def nearest(self, point: Sequence[float], k: int) -> list[int]:
        """The `k` nearest, in no order; of rows at the same distance the first ones. There must be `k` at least.

        One product gives all distances nearly, and so the few that may be among the nearest for all that numbers are
        rounded. Only where they are more than `k` they are measured."""
        places: list[int] = self._perhaps(point, k).tolist()
        if len(places) == k:
            return places
        return [place for _, place in sorted(zip(self.distances(point, places), places, strict=True))[:k]]

    def distances(self, point: Sequence[float], places: Sequence[int]) -> list[float]:
        return [math.dist(row, point) for row in self.columns.take(places, axis=1).T.tolist()]

    def _perhaps(self, point: Sequence[float], k: int) -> NDArray[np.intp]:
        """Those that may be among the nearest, in their order."""
        # Twice the most that a distance may be off: by the number of terms, and how large they are.
        apart = 2 * (4 * len(point) + 20) * _ROUNDED * (sum([value * value for value in point]) + self.longest)
        if not apart < _FAR:
            return np.arange(self.columns.shape[1])
        factors = np.array([*[-2.0 * value for value in point], 1.0], np.float32)
        nearly = np.matmul(factors, self.product).ravel()
        # The k-th of what is the least of some rows is no less than the k-th of all.
        many = len(nearly) > 2 * k * _GROUP
        lowest = np.minimum.reduce(nearly.reshape(_GROUP, -1)) if many else nearly.copy()
        lowest.partition(k - 1)
        places: NDArray[np.intp] = (nearly <= lowest.item(k - 1) + apart).nonzero()[0]
        return places


def known(columns: Columns) -> Known:
    features, count = columns.shape
    lengths = (columns.astype(np.float64) ** 2).sum(axis=0)
    # Whole groups, as many as may be in a part, and no more than there are.
    wide = _GROUP * max(1, min(_ALONE // (features + 1) // _GROUP, -(-count // _GROUP)))
    parts = max(1, -(-count // wide))
    product = np.zeros((features + 1, parts * wide), np.float32)
    product[:-1, :count] = columns
    product[-1] = _NOWHERE
    product[-1, :count] = np.minimum(lengths, _NOWHERE)
    parted = np.ascontiguousarray(product.reshape(features + 1, parts, wide).swapaxes(0, 1))
    return Known(columns, parted, float(lengths.max(initial=0.0)))


def squared(columns: Columns, points: Points) -> NDArray[np.float32]:
    """Squared distances: a row for each point, a column for each image. Each is summed feature by feature, whatever
    else is asked for at the same time, so that one point alone gets the same to the bit."""
    apart = columns - points[:, :, None]
    apart *= apart
    total: NDArray[np.float32] = apart.sum(axis=1)
    return total


def least(distances: NDArray[np.float32], k: int) -> tuple[NDArray[np.intp], NDArray[np.float32]]:
    """In each row the places of the `k` least values, and those; of values alike the first. Columns are put into groups
    and the least of each is taken: the k-th of those is no less than the k-th of all, so few remain to be sorted.
    Partitioning all takes several times as long."""
    rows, count = distances.shape
    groups = count // _GROUP
    if groups <= 2 * k:
        order = distances.argsort(axis=1, kind="stable")[:, :k]
        return order, np.take_along_axis(distances, order, axis=1)
    lowest = distances[:, : groups * _GROUP].reshape(rows, _GROUP, groups).min(axis=1)
    lowest.partition(k - 1, axis=1)
    near = distances <= lowest[:, k - 1 : k]
    # Several times as quick as asking for rows and columns at once.
    row, column = np.divmod(near.ravel().nonzero()[0], count)
    counts = np.bincount(row, minlength=rows)
    slot = np.arange(len(row)) - (counts.cumsum() - counts).take(row)
    table = np.full((rows, int(counts.max())), np.inf, np.float32)
    known = np.zeros(table.shape, np.intp)
    table[row, slot], known[row, slot] = distances[row, column], column
    order = table.argsort(axis=1, kind="stable")[:, :k]
    return np.take_along_axis(known, order, axis=1), np.take_along_axis(table, order, axis=1)
