"""A large image in few pixels, quickly: every other step only looks at those."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from numpy.typing import NDArray

Planes = NDArray[np.uint8]  # (3, height, width): red, green, blue
# A side of the square with as many pixels as are looked at, more or less.
SIDE = 72
# A side of the thumbnail: enough to tell where something is and about what, and a quarter of the work of 32 × 32.
THUMB = 16
PIXELS = 3 * THUMB * THUMB


def step_of(height: int, width: int) -> int:
    """Pixels on a side of the cells that become one pixel; 1 below 108 × 108, so small images stay as they are."""
    return max(1, math.floor(math.sqrt(height * width) / SIDE + 0.5))


def reduced(image: NDArray[np.uint8]) -> Planes:
    """Each cell becomes the mean of four pixels, two rows and two columns half a cell apart: of all its pixels where a
    cell is 2 × 2, and of a sample where it is larger. What does not fill a cell at the right and below is left out."""
    height, width, _ = image.shape
    step = step_of(height, width)
    if step == 1:
        return np.ascontiguousarray(image.transpose(2, 0, 1))
    down, across = min(step, height), min(step, width)
    rows, columns = height // down * down, width // across * across
    upper, lower = image[:rows:down], image[down // 2 : rows : down]
    # Means of bytes without leaving bytes: rounded down here and up below, so that the whole is not darker.
    both = (upper & lower) + ((upper ^ lower) >> 1)
    left = np.ascontiguousarray(both[:, :columns:across].transpose(2, 0, 1))
    right = np.ascontiguousarray(both[:, across // 2 : columns : across].transpose(2, 0, 1))
    mean: Planes = (left | right) - ((left ^ right) >> 1)
    return mean


def thumbnail_of(planes: Planes) -> NDArray[np.float64]:
    """The mean of each cell of THUMB × THUMB, whatever the shape of the image, in whole numbers: red, green, blue.
    Where there are fewer pixels than cells, several cells show the same one."""
    rows, columns = _cells(planes.shape[1]), _cells(planes.shape[2])
    # Sums of whole numbers this small are exact, in whatever order a product adds them up.
    sums = rows @ planes.astype(np.float32) @ columns.T
    pixels = rows.sum(axis=1)[:, None] * columns.sum(axis=1)
    means: NDArray[np.float64] = np.rint(sums / pixels).ravel().astype(np.float64)
    return means


@cache
def _cells(pixels: int) -> NDArray[np.float32]:
    """Which of so many pixels (columns) are in each cell (row): at least one."""
    edges = np.arange(THUMB + 1) * pixels // THUMB
    places = np.arange(pixels)
    inside = (places >= edges[:-1, None]) & (places < np.maximum(edges[1:], edges[:-1] + 1)[:, None])
    return inside.astype(np.float32)
