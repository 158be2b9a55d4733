"""The features of every image, in a file, and what computing those of one takes: for a worker."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ..data import open_dataset
from .features import extract


def taken_ns(data: str, labels: str | None, indices: Sequence[int], only: Sequence[str]) -> float:
    """The mean of what these features of an image take, decoding apart, once all of them were seen before."""
    dataset = open_dataset(data, labels, labelled=False)
    images = [dataset.image(index) for index in indices]
    took_ns: list[int] = []
    for _ in range(2):
        took_ns.clear()
        for image in images:
            begin = time.perf_counter_ns()
            extract(image, only=tuple(only))
            took_ns.append(time.perf_counter_ns() - begin)
    return statistics.fmean(took_ns)


def save(data: str, labels: str | None, indices: Sequence[int], path: str) -> None:
    """An .npz at `path`: `rows`, one for each image, and `took_ns`, the median of what one took, decoding apart."""
    dataset = open_dataset(data, labels, labelled=False)
    found = []
    took_ns = []
    for index in indices:
        image = dataset.image(index)
        begin = time.perf_counter_ns()
        found.append(extract(image))
        took_ns.append(time.perf_counter_ns() - begin)
    target = Path(path)
    # Written beside and renamed, so that a half-written file is never taken for features.
    part = target.with_name(f"{target.name}.{os.getpid()}.part")
    with part.open("wb") as file:
        np.savez(file, rows=np.stack(found), took_ns=np.float64(statistics.median(took_ns)))
    part.replace(target)
