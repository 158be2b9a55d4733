"""Brightness, contrast and hue."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from numpy.typing import NDArray

from .reduce import Planes

Grey = NDArray[np.uint8]
_LEVELS = np.arange(256, dtype=np.float64)
_BINS = 7


def grey_of(planes: Planes) -> Grey:
    """The luma of ITU-R BT.601, as photographs are made grey nearly everywhere, in 256ths."""
    red, green, blue = planes.astype(np.uint16)
    grey: Grey = ((red * 77 + green * 150 + blue * 29 + 128) >> 8).astype(np.uint8)
    return grey


def levels_of(planes: Planes, counts: NDArray[np.int64]) -> tuple[float, float, float, float, float]:
    """Mean and root mean square of brightness, then of perceived brightness, and contrast, all from 0 to 255.
    `counts` says how often each grey occurs. Perceived brightness weighs the means (or root mean squares) of red,
    green and blue as the HSP colour model does; contrast is the standard deviation of brightness."""
    pixels = planes[0].size
    mean = float(counts @ _LEVELS) / pixels
    square = float(counts @ (_LEVELS * _LEVELS)) / pixels
    values = planes.reshape(3, -1).astype(np.float32)
    means = (values.sum(axis=1) / pixels).tolist()
    squares = (np.square(values, out=values).sum(axis=1) / pixels).tolist()
    perceived = math.sqrt(_perceived(*(each * each for each in means)))
    deviation = math.sqrt(max(0.0, square - mean * mean))
    return mean, math.sqrt(square), perceived, math.sqrt(_perceived(*squares)), deviation


def _perceived(red: float, green: float, blue: float) -> float:
    return 0.241 * red + 0.691 * green + 0.068 * blue


def hues(planes: Planes) -> NDArray[np.float64]:
    """The share of the pixels in each seventh of the circle of hues, red first. Hues are looked up by the five upper
    bits of each colour; what is grey in those has the hue 0, as in OpenCV, and counts as red."""
    upper = planes >> 3
    codes = upper[0].astype(np.uint16)
    for plane in upper[1:]:
        codes <<= 5
        codes |= plane
    found = _hue_of_code().take(codes)
    # Seven looks at bytes are quicker than one count of places.
    return np.array([np.count_nonzero(found == place) / codes.size for place in range(_BINS)])


@cache
def _hue_of_code() -> NDArray[np.uint8]:
    codes = np.arange(1 << 15)
    red, green, blue = ((codes >> shift & 31).astype(np.float64) for shift in (10, 5, 0))
    most = np.maximum(np.maximum(red, green), blue)
    range_ = most - np.minimum(np.minimum(red, green), blue)
    range_[range_ == 0] = 1.0
    # In sixths of the circle.
    sixth = np.where(most == red, (green - blue) / range_ % 6, (blue - red) / range_ + 2)
    sixth = np.where((most == blue) & (most > red) & (most > green), (red - green) / range_ + 4, sixth)
    bins: NDArray[np.uint8] = np.minimum(sixth * _BINS / 6, _BINS - 1).astype(np.uint8)
    bins.setflags(write=False)
    return bins
