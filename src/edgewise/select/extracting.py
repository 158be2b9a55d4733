"""What every image looks like, in a file, and what it takes to see that: for a worker."""

from __future__ import annotations

import math
import os
import statistics
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ..data import open_dataset
from ..measure.pictures import Pictures, decoded
from .features import FAMILIES, NAMES, SHARED, THUMBNAIL, extract

_TIMES = 4


def taken_ns(data: str, labels: str | None, indices: Sequence[int]) -> dict[str, float]:
    """What an image takes for each family of features beyond what all of them share, and that: means over images,
    decoding apart. Of several times for one image the least counts: what else the machine does only adds."""
    images = decoded(Pictures(data, labels, tuple(indices)))
    took_ns = {family: [math.inf] * len(images) for family in (SHARED, *FAMILIES)}
    for _ in range(_TIMES):
        for place, image in enumerate(images):
            for family, took in took_ns.items():
                only = FAMILIES.get(family, ())
                begin = time.perf_counter_ns()
                extract(image, only)
                took[place] = min(took[place], time.perf_counter_ns() - begin)
    means = {family: statistics.fmean(took) for family, took in took_ns.items()}
    shared = means.pop(SHARED)
    return {SHARED: shared} | {family: max(0.0, mean - shared) for family, mean in means.items()}


def save(data: str, labels: str | None, indices: Sequence[int], path: str) -> None:
    """An .npz at `path`, with a row for each image: `rows` are features, `thumbnails` are bytes."""
    dataset = open_dataset(data, labels, labelled=False)
    rows = np.empty((len(indices), len(NAMES)))
    thumbnails = []
    for place, index in enumerate(indices):
        found = extract(dataset.image(index), (*NAMES, THUMBNAIL))
        rows[place] = found[: len(NAMES)]
        thumbnails.append(found[len(NAMES) :].astype(np.uint8))
    target = Path(path)
    # Written beside and renamed, so that a half-written file is never taken for features.
    part = target.with_name(f"{target.name}.{os.getpid()}.part")
    with part.open("wb") as file:
        np.savez(file, rows=rows, thumbnails=np.stack(thumbnails))
    part.replace(target)
