"""Labelled images through the executable under test, in the worker: decoded and prepared beside it, answers kept."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.errors import InputError, Unsupported
from ..core.evaluation import KEPT, Answers
from ..core.preprocess import parse_preprocess
from ..core.protocols import Executable
from ..core.types import Model
from ..data import open_dataset
from ..data.preprocess import prepare

Scores = NDArray[np.float64]


class Examination:
    """An executable, and the images it is asked about."""

    def __init__(self, executable: Executable, model: Model, data: str, labels: str | None, preprocess: str) -> None:
        if len(model.inputs) != 1 or model.inputs[0].dtype != "float32" or len(model.inputs[0].shape or ()) != 4:
            found = ", ".join(f"{t.name} ({t.dtype} {t.shape})" for t in model.inputs)
            raise Unsupported(f"{model.label} does not take one image: its inputs are {found}")
        self._executable = executable
        self._model = model
        self._data = open_dataset(data, labels)
        self._how = parse_preprocess(preprocess)
        self._shape = tuple(size for size in model.inputs[0].shape or () if isinstance(size, int))

    def answer(self, indices: Sequence[int]) -> Answers:
        """Batch by batch; while one runs, the next is decoded and prepared."""
        size = self._shape[0]
        batches = [indices[first : first + size] for first in range(0, len(indices), size)]
        parts = []
        decode_ns = prepare_ns = run_ns = 0
        with ThreadPoolExecutor(1) as pool:
            coming = pool.submit(self._load, batches[0])
            for number, batch in enumerate(batches):
                images, decoding, preparing = coming.result()
                if number + 1 < len(batches):
                    coming = pool.submit(self._load, batches[number + 1])
                begin = time.perf_counter_ns()
                outputs = self._executable.run({self._model.inputs[0].name: images})
                run_ns += time.perf_counter_ns() - begin
                decode_ns, prepare_ns = decode_ns + decoding, prepare_ns + preparing
                parts.append(_scores(outputs[self._model.outputs[0].name], size, self._model.label)[: len(batch)])
        ranked, confidence = _ranked(np.concatenate(parts))
        labels = self._data.labels[list(indices)]
        outputs_known, highest = len(parts[0][0]), int(labels.max()) + self._how.label_offset
        if highest >= outputs_known:
            raise InputError(
                f"{self._data.label} has the class {int(labels.max())}, and {self._model.label} has {outputs_known} "
                f"outputs" + (f" beginning at {self._how.label_offset}" if self._how.label_offset else ""),
                "name the classes in the order of the model's outputs: --labels names.txt",
            )
        return Answers(
            tuple(int(label) for label in labels),
            tuple(tuple(int(place) - self._how.label_offset for place in row) for row in ranked),
            tuple(float(value) for value in confidence),
            decode_ns,
            prepare_ns,
            run_ns,
        )

    def _load(self, indices: Sequence[int]) -> tuple[NDArray[np.float32], int, int]:
        """The images as the model takes them, and what decoding and preparing cost; the last batch is filled up."""
        begin = time.thread_time_ns()
        images = [self._data.image(index) for index in indices]
        decoded = time.thread_time_ns()
        batch = prepare(images, self._how)
        if batch.shape[1:] != self._shape[1:]:
            found, wanted = ("x".join(map(str, shape[1:])) for shape in (batch.shape, self._shape))
            raise InputError(
                f"images come out of {self._how} as {found}, and {self._model.label} takes {wanted}",
                f"--preprocess 'imagenet(resize={self._shape[-1] * 8 // 7}, crop={self._shape[-1]})'",
            )
        if len(batch) < self._shape[0]:
            batch = np.concatenate([batch, np.repeat(batch[-1:], self._shape[0] - len(batch), axis=0)])
        return batch, decoded - begin, time.thread_time_ns() - decoded


def _scores(output: NDArray[Any], batch: int, label: str) -> Scores:
    """One row of scores per image, from the model's first output."""
    sizes = [size for size in output.shape[1:] if size > 1]
    if output.shape[0] != batch or len(sizes) != 1:
        shape = "x".join(map(str, output.shape))
        raise Unsupported(f"{label} does not classify: its first output is {shape}, expected one score per class")
    return output.reshape(batch, -1).astype(np.float64)


def _ranked(scores: Scores) -> tuple[NDArray[np.int64], Scores]:
    """The largest scores' places, largest first, and the share of the first of them."""
    # What is not finite is no answer, and must not win by its sign.
    scores = np.where(np.isfinite(scores), scores, -np.inf)
    kept = min(KEPT, scores.shape[1])
    largest = np.argpartition(-scores, kept - 1, axis=1)[:, :kept] if kept < scores.shape[1] else None
    rows = np.arange(len(scores))[:, None]
    places = np.tile(np.arange(kept), (len(scores), 1)) if largest is None else largest
    # Ties go to the lower class, so that every engine breaks them alike.
    order = np.lexsort((places, -scores[rows, places]), axis=1)
    places = places[rows, order]
    first = scores[rows[:, 0], places[:, 0]]
    if np.all(scores >= 0) and np.allclose(scores.sum(axis=1), 1, atol=1e-3):
        return places, first
    with np.errstate(invalid="ignore"):
        total = np.exp(scores - first[:, None]).sum(axis=1)
    return places, np.where(np.isfinite(first), 1 / total, 0.0)
