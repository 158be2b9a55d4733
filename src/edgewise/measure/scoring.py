"""Whole rows of scores from the executable under test, in the worker: written to a file, part by part.

Images that cannot be decoded or prepared are passed over, and named: one broken picture in ten thousand is no reason to
have no answers.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.errors import InputError
from ..core.preprocess import parse_preprocess
from ..core.protocols import Executable
from ..core.types import Model
from ..data import open_dataset
from ..data.preprocess import prepare
from .answering import misfit, scores_of


class Scoring:
    """An executable of one image at a time, and the images it is asked about."""

    def __init__(self, executable: Executable, model: Model, data: str, labels: str | None, preprocess: str) -> None:
        self._executable = executable
        self._model = model
        self._data = open_dataset(data, labels)
        self._how = parse_preprocess(preprocess)
        self._shape = tuple(size for size in model.inputs[0].shape or () if isinstance(size, int))

    def score(self, indices: Sequence[int], path: str) -> int:
        """The raw outputs for each image, in an .npz at `path`; how many there are of it. While one runs, the next is
        decoded and prepared."""
        found: list[NDArray[Any] | None] = []
        reasons: list[str] = []
        with ThreadPoolExecutor(1) as pool:
            coming = pool.submit(self._load, indices[0])
            for number in range(len(indices)):
                batch, reason = coming.result()
                if number + 1 < len(indices):
                    coming = pool.submit(self._load, indices[number + 1])
                reasons.append(reason)
                found.append(None if batch is None else self._ask(batch))
        width = next((len(row) for row in found if row is not None), 0)
        empty = np.full(width, np.nan, np.float32)
        rows = np.stack([empty if row is None else row for row in found])
        target = Path(path)
        # Written beside and renamed, so that a half-written file is never taken for answers.
        part = target.with_name(f"{target.name}.{os.getpid()}.part")
        with part.open("wb") as file:
            np.savez(file, rows=rows, reasons=np.array(reasons, np.str_))
        part.replace(target)
        return len(indices)

    def _ask(self, batch: NDArray[Any]) -> NDArray[np.float32]:
        outputs = self._executable.run({self._model.inputs[0].name: batch})
        scores = scores_of(outputs[self._model.outputs[0].name], self._shape[0], self._model.label)
        row: NDArray[np.float32] = scores[0].astype(np.float32)
        return row

    def _load(self, index: int) -> tuple[NDArray[Any] | None, str]:
        """The image as the model takes it, or why there is none."""
        try:
            batch: NDArray[Any] = prepare([self._data.image(index)], self._how)
        except InputError as error:
            return None, error.message
        if batch.shape[1:] != self._shape[1:]:
            raise misfit(self._model.label, self._how, batch.shape[1:], self._shape[1:])
        # A model that is fixed to larger batches sees the image that often.
        return np.repeat(batch.astype(self._model.inputs[0].dtype, copy=False), self._shape[0], axis=0), ""
