"""Edges: where brightness changes steeply, in lines one pixel wide.

As in Canny's detector: the gradient by Sobel's operator, and of a steep slope only the steepest pixel across it. Unlike
it, the picture is not smoothed first (the mean of four pixels has done some of that), a slope is followed along the
rows or the columns only, whichever is nearer to its direction, and there is one threshold in place of two.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .colour import Grey
from .runs import Places

# A gradient this large: a step of 32 of the 256 greys.
STEEP = 128
_BINS = 7
# Edges of 1 or 2 pixels, to 4, 8, 16, 32, 64, and longer ones.
_LONGER = np.array([3, 5, 9, 17, 33, 65])
# Where the half circle begins: a quarter of a bin below the horizontal, so that neither horizontal nor vertical edges,
# which are most, lie between two bins.
_BEGINNING = 0.25


class Edges(NamedTuple):
    """Pixels counted row by row, and the gradient there, downwards positive."""

    places: Places
    across: NDArray[np.int16]
    down: NDArray[np.int16]


NO_EDGES = Edges(np.empty(0, np.intp), np.empty(0, np.int16), np.empty(0, np.int16))


def edges_of(grey: Grey) -> Edges:
    """The outermost pixels have no gradient and are on no edge."""
    height, width = grey.shape
    if min(height, width) < 3:
        return NO_EDGES
    # Rows one after the other are one long row: neighbours are at fixed distances, and arrays without gaps are quick.
    # What comes out at the ends of the rows is nonsense, and is emptied below.
    level = grey.ravel().astype(np.int16)
    rows = level[width:-width] * 2
    rows += level[: -2 * width]
    rows += level[2 * width :]
    columns = level[1:-1] * 2
    columns += level[:-2]
    columns += level[2:]
    slope = np.zeros((2, height * width), np.int16)
    np.subtract(rows[2:], rows[:-2], out=slope[0, width + 1 : -width - 1])
    np.subtract(columns[2 * width :], columns[: -2 * width], out=slope[1, width + 1 : -width - 1])
    slope.reshape(2, height, width)[:, :, (0, -1)] = 0
    across, down = slope
    steep = np.abs(slope)
    steepness = steep[0] + steep[1]
    places = np.flatnonzero(steepness >= STEEP)
    beside = np.where(steep[0].take(places) >= steep[1].take(places), 1, width)
    own = steepness.take(places)
    steepest = own > steepness.take(places - beside)
    steepest &= own >= steepness.take(places + beside)
    places = places[steepest]
    return Edges(places, across.take(places), down.take(places))


def lengths(pixels: NDArray[Any]) -> NDArray[np.int64]:
    """How many edges are that long. Pixels that touch, corners included, are one edge, however it bends or branches,
    and its length is their number."""
    return np.bincount(_LONGER.searchsorted(pixels, "right"), minlength=_BINS)


def angles(found: Edges) -> NDArray[np.float64]:
    """The share of edge pixels in each seventh of the half circle: horizontal edges in the first, and then
    anticlockwise."""
    if not len(found.places):
        return np.zeros(_BINS)
    turned = np.arctan2(found.across, found.down, dtype=np.float32)
    turned *= np.float32(_BINS / np.pi)
    # From minus to plus a half circle and a bit: never below zero once one is added.
    turned += np.float32(_BINS + _BEGINNING)
    return np.bincount(turned.astype(np.intp) % _BINS, minlength=_BINS) / len(turned)
