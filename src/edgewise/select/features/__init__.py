"""What an image looks like, in the numbers by which the adaptive model selection paper chooses a network.

Its Table 2 names them and gives a few words for each; nothing there says how they are computed, so that is said in the
files of this folder. (The paper counts 30 features. Its table lists these 29, and 29 less the 12 that its Table 3
removes are the 17 it goes on with.) An image is looked at in about 72 × 72 pixels: what is chosen must cost far less
than what it saves.

Behind them, for a network that sees pixels, stands the image in very few of them, under one name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from ...core.errors import InputError
from .colour import grey_of, hues, levels_of
from .edges import NO_EDGES, Edges, angles, edges_of, lengths
from .keypoints import keypoints_of
from .main_object import shape_of, standing_out
from .reduce import PIXELS, reduced, thumbnail_of
from .runs import Runs, components, links, no_runs, one_below_the_other, runs_of_mask, runs_of_places

BINS = 7
NAMES: tuple[str, ...] = (
    "n_keypoints",
    "avg_brightness",
    "brightness_rms",
    "avg_perceived_brightness",
    "perceived_brightness_rms",
    "contrast",
    *(f"edge_length{number}" for number in range(1, BINS + 1)),
    *(f"edge_angle{number}" for number in range(1, BINS + 1)),
    *(f"hue{number}" for number in range(1, BINS + 1)),
    "area_by_perim",
    "aspect_ratio",
)
# Not a number but an image: PIXELS of them, from 0 to 255, behind the others.
THUMBNAIL = "thumbnail"
# What is computed together, and is priced together.
FAMILIES: Mapping[str, tuple[str, ...]] = {
    "keypoints": NAMES[:1],
    "brightness": NAMES[1:6],
    "edges": NAMES[6:20],
    "hue": NAMES[20:27],
    "object": NAMES[27:],
    THUMBNAIL: (THUMBNAIL,),
}
# What all of them begin with, where it is priced.
SHARED = "shared"
# The seven that the paper ends with (its Table 4).
PAPER: tuple[str, ...] = (
    "n_keypoints",
    "avg_perceived_brightness",
    "hue1",
    "contrast",
    "area_by_perim",
    "edge_length1",
    "aspect_ratio",
)


def extract(image: NDArray[np.uint8], only: tuple[str, ...] = NAMES) -> NDArray[np.float64]:
    """The features of one RGB image, in the order of NAMES: always finite, and the same for the same pixels. With
    `only`, families of which none is named are left out, and are 0. Where THUMBNAIL is named, it follows."""
    if image.ndim != 3 or image.shape[2] != 3 or image.dtype != np.uint8 or not image.size:
        found = f"{image.dtype} of shape {image.shape}"
        raise InputError(f"features are those of an RGB image, bytes of shape (height, width, 3); found {found}")
    wanted = families_of(only)
    row = np.zeros(len(NAMES) + (PIXELS if THUMBNAIL in wanted else 0))
    planes = reduced(image)
    grey = grey_of(planes)
    counts = np.bincount(grey.ravel(), minlength=256)
    if "keypoints" in wanted:
        row[0] = keypoints_of(grey)
    if "brightness" in wanted:
        row[1:6] = levels_of(planes, counts)
    if not wanted.isdisjoint(("edges", "object")):
        edges = edges_of(grey) if "edges" in wanted else NO_EDGES
        outstanding = runs_of_mask(standing_out(grey, counts)) if "object" in wanted else no_runs(grey.shape[1])
        row[6:13], shape = _parts(grey, edges, outstanding)
        row[13:20] = angles(edges)
        if "object" in wanted:
            row[27:29] = shape
    if "hue" in wanted:
        row[20:27] = hues(planes)
    if THUMBNAIL in wanted:
        row[len(NAMES) :] = thumbnail_of(planes)
    return row


@cache
def families_of(names: tuple[str, ...]) -> frozenset[str]:
    return frozenset(family for family, own in FAMILIES.items() if not set(own).isdisjoint(names))


def price_ns(prices: Mapping[str, float], names: Sequence[str]) -> float:
    """What looking at an image for these takes, where `prices` are those of families and of what they share. Edges and
    the main object are found in one go, which is a little less than this says."""
    return prices.get(SHARED, 0.0) + sum(prices.get(family, 0.0) for family in families_of(tuple(names)))


def _parts(grey: NDArray[np.uint8], edges: Edges, outstanding: Runs) -> tuple[NDArray[np.int64], tuple[float, float]]:
    """How long edges are, and the main object's shape. Both are about connected parts, which are found in one go."""
    lines = runs_of_places(edges.places, grey.shape[1])
    runs = one_below_the_other(lines, outstanding, grey.size)
    touching = links(runs)
    root = components(len(runs.starts), touching)
    own = len(lines.starts)
    pixels = np.bincount(root[:own], weights=lines.pixels)
    return lengths(pixels[pixels > 0]), shape_of(runs, touching, root, own, grey)
