"""The rows of a table that are nearest to a point."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Points = NDArray[np.float32]  # a row for each image, scaled
Columns = NDArray[np.float32]  # the same turned: a row for each feature, so that one operation takes all images

# Images at a time: what is in between stays in the cache.
_AT_ONCE = 32


def nearest(columns: Columns, points: Points, k: int) -> tuple[NDArray[np.intp], NDArray[np.float32]]:
    """For each point its `k` nearest (fewer than there are), in no order, and their squared distances. Of rows at the
    same distance the first ones are taken, so that the answer does not depend on how it is found."""
    if len(points) > _AT_ONCE:
        parts = [nearest(columns, points[at : at + _AT_ONCE], k) for at in range(0, len(points), _AT_ONCE)]
        return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])
    distances = squared(columns, points)
    places = distances.argpartition(k, axis=1)[:, : k + 1]
    found = np.take_along_axis(distances, places, axis=1)
    # The last of these is the nearest of all that are not taken.
    tied = found[:, :k].max(axis=1) == found[:, k]
    for row in tied.nonzero()[0]:
        places[row] = distances[row].argsort(kind="stable")[: k + 1]
        found[row] = distances[row, places[row]]
    return places[:, :k], found[:, :k]


def squared(columns: Columns, points: Points) -> NDArray[np.float32]:
    """Squared distances: a row for each point, a column for each image. Each is summed feature by feature, whatever
    else is asked for at the same time, so that one point alone gets the same to the bit."""
    apart = columns - points[:, :, None]
    total: NDArray[np.float32] = np.square(apart, out=apart).sum(axis=1)
    return total
