"""The main object: the largest connected part of a picture that stands out from its border."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .colour import Grey
from .runs import Links, Places, Runs

_LEVELS = np.arange(256, dtype=np.float64)


def standing_out(grey: Grey, counts: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Bright and dark are told apart by Otsu's threshold (1979), and whatever most of the border is, is background.
    `counts` says how often each grey occurs. The last column is left out: parts are found by runs, which end there."""
    threshold = otsu(counts)
    if threshold is None:
        return np.zeros(grey.shape, np.bool_)
    mask = grey > threshold
    border = sum(map(np.count_nonzero, (mask[0], mask[-1], mask[:, 0], mask[:, -1])))
    if border > sum(grey.shape):
        np.logical_not(mask, out=mask)
    mask[:, -1] = False
    return mask


def shape_of(runs: Runs, touching: Links, root: Places, begin: int, grey: Grey) -> tuple[float, float]:
    """Area divided by perimeter, and the width of its box divided by the height, of the largest part among the runs
    from `begin` on. Holes count to the perimeter, which is made of sides of pixels (so that of a circle is too long,
    by 4/π). A picture without anything in it is taken whole."""
    height, width = grey.shape
    if begin == len(root):
        return height * width / (2 * (height + width)), width / height
    areas = np.bincount(root[begin:], weights=runs.pixels[begin:])
    main = int(areas.argmax())
    own = root == main
    starts, ends = runs.starts[own], runs.ends[own]
    ours = own.take(touching.lower)
    lower, upper = touching.lower[ours], touching.upper[ours]
    shared = np.minimum(runs.ends.take(lower) - runs.stride, runs.ends.take(upper))
    shared -= np.maximum(runs.starts.take(lower) - runs.stride, runs.starts.take(upper))
    # Runs that touch by their corners share no side: the difference is zero.
    area = int(areas[main])
    perimeter = 2 * (len(starts) + area - int(shared.sum()))
    rows = int(starts[-1]) // runs.stride - int(starts[0]) // runs.stride + 1
    columns = int(((ends - 1) % runs.stride).max()) - int((starts % runs.stride).min()) + 1
    return area / perimeter, columns / rows


def otsu(counts: NDArray[np.int64]) -> int | None:
    """The grey that parts a picture best into what is above and what is not; None where there is one grey only."""
    below = counts.cumsum()
    sums = (counts * _LEVELS).cumsum()
    pixels, total = int(below[-1]), float(sums[-1])
    parts = (below * (pixels - below)).astype(np.float64)
    if not parts.any():
        return None
    between = sums * pixels - total * below
    between *= between
    # Where a part is empty both are zero.
    return int((between / np.maximum(parts, 1.0)).argmax())
