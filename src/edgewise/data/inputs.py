"""Images as a model's inputs, in a file: what calibration runs on."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..core.preprocess import parse_preprocess
from . import open_dataset
from .preprocess import prepare


def save(data: str, labels: str | None, preprocess: str, indices: Sequence[int], name: str, path: str) -> None:
    """The images at `indices`, prepared, as the array `name` of an .npz at `path`."""
    dataset, how = open_dataset(data, labels, labelled=False), parse_preprocess(preprocess)
    arrays: dict[str, Any] = {}
    arrays[name] = prepare([dataset.image(index) for index in indices], how)
    target = Path(path)
    # Written beside and renamed, so that a half-written file is never taken for inputs.
    part = target.with_name(f"{target.name}.{os.getpid()}.part")
    with part.open("wb") as file:
        np.savez(file, **arrays)
    part.replace(target)
