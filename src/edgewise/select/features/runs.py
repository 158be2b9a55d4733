"""Connected parts of a picture in black and white, found by its runs: pixels side by side in one row.

A picture of thousands of pixels has hundreds of runs, so a few operations on short arrays take the place of a walk
from pixel to pixel. Pixels are counted row by row, and the last one of each row must be empty, or runs of two rows
would touch.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Places = NDArray[np.intp]


class Runs(NamedTuple):
    """Where they start and end (the pixel after the last), in order; `stride` pixels to a row."""

    starts: Places
    ends: Places
    stride: int

    @property
    def pixels(self) -> Places:
        return self.ends - self.starts


class Links(NamedTuple):
    """Runs that touch, corners included: one in a row, the other in the next."""

    upper: Places
    lower: Places


def runs_of_places(places: Places, stride: int) -> Runs:
    """Of the pixels at these places, which are in order."""
    apart = np.ones(len(places) + 1, np.bool_)
    np.not_equal(places[1:] - places[:-1], 1, out=apart[1:-1])
    return Runs(places[apart[:-1]], places[apart[1:]] + 1, stride)


def runs_of_mask(mask: NDArray[np.bool_]) -> Runs:
    """Of the pixels that are true."""
    changes = np.zeros(mask.size, np.bool_)
    flat = mask.ravel()
    changes[0] = flat[0]
    np.not_equal(flat[1:], flat[:-1], out=changes[1:])
    places = np.flatnonzero(changes)
    return Runs(places[0::2], places[1::2], mask.shape[1])


def no_runs(stride: int) -> Runs:
    return Runs(np.empty(0, np.intp), np.empty(0, np.intp), stride)


def one_below_the_other(upper: Runs, lower: Runs, pixels: int) -> Runs:
    """Two pictures as one, so that their parts are found in one go; the upper has so many pixels, and its last row is
    empty."""
    starts = np.concatenate((upper.starts, lower.starts + pixels))
    ends = np.concatenate((upper.ends, lower.ends + pixels))
    return Runs(starts, ends, upper.stride)


def links(runs: Runs) -> Links:
    first = runs.ends.searchsorted(runs.starts - runs.stride, "left")
    after = runs.starts.searchsorted(runs.ends - runs.stride, "right")
    counts = np.maximum(after - first, 0)
    lower = np.arange(len(counts)).repeat(counts)
    upper = (first - counts.cumsum() + counts).repeat(counts)
    upper += np.arange(len(lower))
    return Links(upper, lower)


def components(count: int, found: Links) -> Places:
    """For each run the first run of its part.

    Each run first points to the first one that it touches above, and pointers are followed by doubling; then parts
    that still touch are joined until none do.
    """
    root = np.arange(count)
    upper, lower = found
    # Backwards, because of several assignments the last one stays.
    root[lower[::-1]] = upper[::-1]
    root = _followed(root)
    while True:
        one, other = root.take(upper), root.take(lower)
        apart = (one != other).nonzero()[0]
        if not len(apart):
            return root
        upper, lower, one, other = upper.take(apart), lower.take(apart), one.take(apart), other.take(apart)
        root[np.maximum(one, other)] = np.minimum(one, other)
        root = _followed(root)


def _followed(root: Places) -> Places:
    while True:
        # Twice before looking: most pointers take more than one step.
        further = root.take(root)
        further = further.take(further)
        if np.array_equal(further, root):
            return root
        root = further
