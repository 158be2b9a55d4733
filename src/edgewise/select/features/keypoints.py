"""Keypoints: pixels that can be told from all around them, such as corners and dots."""

from __future__ import annotations

import numpy as np

from .colour import Grey

# How much brighter or darker the surroundings are, of 256 greys; FAST's usual choice is between 10 and 20.
DIFFERENCE = 20
_RADIUS = 3
_CIRCLE = ((-3, 0), (-2, 2), (0, 3), (2, 2), (3, 0), (2, -2), (0, -3), (-2, -2))


def keypoints_of(grey: Grey) -> int:
    """As the FAST detector has it (Rosten and Drummond, 2006), but with eight pixels of its circle in place of sixteen,
    and not in a row: at least five of them are all brighter, or all darker. Along a straight edge that is never more
    than four. Of pixels that touch only those count that have no other to their left or above, which is about one for
    each corner."""
    height, width = grey.shape
    if min(height, width) <= 2 * _RADIUS:
        return 0
    # Rows one after the other, as for edges; what the ends of the rows are compared with is emptied below.
    level, far = grey.ravel(), _RADIUS * width
    centre = level[far:-far]
    brighter = np.minimum(centre, 255 - DIFFERENCE)
    brighter += np.uint8(DIFFERENCE)
    darker = np.maximum(centre, DIFFERENCE)
    darker -= np.uint8(DIFFERENCE)
    above = np.zeros(len(centre), np.uint8)
    below = np.zeros(len(centre), np.uint8)
    for down, across in _CIRCLE:
        offset = far + down * width + across
        pixel = level[offset : offset + len(centre)]
        above += (pixel > brighter).view(np.uint8)
        below += (pixel < darker).view(np.uint8)
    found = np.zeros(len(centre) + width + 1, np.bool_)
    corners = found[width + 1 :]
    np.greater_equal(np.maximum(above, below, out=above), 5, out=corners)
    table = corners.reshape(-1, width)
    table[:, :_RADIUS] = False
    table[:, -_RADIUS:] = False
    before = found[: -width - 1] | found[1:-width]
    before |= found[2 : 1 - width]
    before |= found[width:-1]
    return int(np.count_nonzero(corners > before))
