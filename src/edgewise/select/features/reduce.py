"""A large image in few pixels, quickly: every other step only looks at those."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Planes = NDArray[np.uint8]  # (3, height, width): red, green, blue
# A side of the square with as many pixels as are looked at, more or less.
SIDE = 72


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
