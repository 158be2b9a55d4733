"""What an image looks like, in the numbers by which the adaptive model selection paper chooses a network.

Its Table 2 names them and gives a few words for each; nothing there says how they are computed, so that is said in the
files of this folder. (The paper counts 30 features. Its table lists these 29, and 29 less the 12 that its Table 3
removes are the 17 it goes on with.) An image is looked at in about 72 × 72 pixels: what is chosen must cost far less
than what it saves.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from ...core.errors import InputError
from .colour import grey_of, hues, levels_of
from .edges import NO_EDGES, Edges, angles, edges_of, lengths
from .keypoints import keypoints_of
from .main_object import shape_of, standing_out
from .reduce import reduced
from .runs import components, links, one_below_the_other, runs_of_mask, runs_of_places

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
    `only`, what is not needed for these is left out where that saves time, and is 0."""
    if image.ndim != 3 or image.shape[2] != 3 or image.dtype != np.uint8 or not image.size:
        found = f"{image.dtype} of shape {image.shape}"
        raise InputError(f"features are those of an RGB image, bytes of shape (height, width, 3); found {found}")
    wanted = _kinds(only)
    row = np.zeros(len(NAMES))
    planes = reduced(image)
    grey = grey_of(planes)
    counts = np.bincount(grey.ravel(), minlength=256)
    edges = edges_of(grey) if wanted & {"edge_length", "edge_angle"} else NO_EDGES
    if "n_keypoints" in wanted:
        row[0] = keypoints_of(grey)
    if "brightness" in wanted:
        row[1:6] = levels_of(planes, counts)
    if wanted & {"edge_length", "object"}:
        row[6:13], row[27:29] = _parts(grey, counts, edges)
    if "edge_angle" in wanted:
        row[13:20] = angles(edges)
    if "hue" in wanted:
        row[20:27] = hues(planes)
    return row


@cache
def _kinds(names: tuple[str, ...]) -> frozenset[str]:
    """What is computed together, of all that these belong to."""
    found = {name.rstrip("1234567") for name in names}
    brightness, shape = found & {*NAMES[1:6]}, found & {*NAMES[27:29]}
    together = {kind for kind, some in (("brightness", brightness), ("object", shape)) if some}
    return frozenset(found - brightness - shape | together)


def _parts(
    grey: NDArray[np.uint8], counts: NDArray[np.int64], edges: Edges
) -> tuple[NDArray[np.int64], tuple[float, float]]:
    """How long edges are, and the main object's shape. Both are about connected parts, which are found in one go."""
    lines = runs_of_places(edges.places, grey.shape[1])
    runs = one_below_the_other(lines, runs_of_mask(standing_out(grey, counts)), grey.size)
    touching = links(runs)
    root = components(len(runs.starts), touching)
    own = len(lines.starts)
    pixels = np.bincount(root[:own], weights=lines.pixels)
    return lengths(pixels[pixels > 0]), shape_of(runs, touching, root, own, grey)
