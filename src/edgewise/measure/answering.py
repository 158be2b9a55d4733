"""Labelled images through the executable under test, in the worker: decoded and prepared beside it, answers kept."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.errors import InputError, Unsupported
from ..core.evaluation import KEPT, Answers
from ..core.preprocess import parse_preprocess
from ..core.protocols import Executable
from ..core.types import Model, Preprocess
from ..data import open_dataset
from ..data.preprocess import prepare

Scores = NDArray[np.float64]
# A softmax computed in 8 or 16 bits does not add up to one exactly.
_ADDS_UP = 0.05


class Examination:
    """An executable, and the images it is asked about."""

    def __init__(self, executable: Executable, model: Model, data: str, labels: str | None, preprocess: str) -> None:
        self._executable = executable
        self._model = model
        self._data = open_dataset(data, labels)
        self._how = parse_preprocess(preprocess)
        self._shape = tuple(size for size in model.inputs[0].shape or () if isinstance(size, int))
        self._probabilities: bool | None = None

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
                parts.append(scores_of(outputs[self._model.outputs[0].name], size, self._model.label)[: len(batch)])
        scores = np.concatenate(parts)
        if self._probabilities is None:
            self._probabilities = adds_up(scores)
        labels = self._data.labels[list(indices)]
        self._check(labels, scores.shape[1])
        places, confidence = ranked(scores, probabilities=self._probabilities)
        return Answers(
            tuple(int(label) for label in labels),
            tuple(tuple(int(place) - self._how.label_offset for place in row) for row in places),
            tuple(float(value) for value in confidence),
            decode_ns,
            prepare_ns,
            run_ns,
            len(batches) * size,
            scores.shape[1],
        )

    def _check(self, labels: NDArray[np.int64], outputs: int) -> None:
        offset = self._how.label_offset
        if int(labels.max()) + offset >= outputs:
            raise InputError(
                f"{self._data.label} has the class {int(labels.max())}, and {self._model.label} has {outputs} "
                f"outputs" + (f" beginning at {offset}" if offset else ""),
                "name the classes in the order of the model's outputs: --labels names.txt",
            )

    def _load(self, indices: Sequence[int]) -> tuple[NDArray[Any], int, int]:
        """The images as the model takes them, and what decoding and preparing cost; the last batch is filled up."""
        begin = time.thread_time_ns()
        images = [self._data.image(index) for index in indices]
        decoded = time.thread_time_ns()
        batch: NDArray[Any] = prepare(images, self._how)
        if batch.shape[1:] != self._shape[1:]:
            raise misfit(self._model.label, self._how, batch.shape[1:], self._shape[1:])
        batch = batch.astype(self._model.inputs[0].dtype, copy=False)
        if len(batch) < self._shape[0]:
            batch = np.concatenate([batch, np.repeat(batch[-1:], self._shape[0] - len(batch), axis=0)])
        return batch, decoded - begin, time.thread_time_ns() - decoded


def misfit(label: str, how: Preprocess, found: tuple[int, ...], wanted: tuple[int, ...]) -> InputError:
    """What would make the images fit, where something would."""
    shown = ["x".join(map(str, shape)) for shape in (found, wanted)]
    last = wanted[-1] == 3 and wanted[0] != 3
    sides = wanted[:2] if last else wanted[1:]
    hint = None
    if 3 in (wanted[0], wanted[-1]) and sides[0] == sides[1]:
        crop = int(sides[0])
        better = replace(how, resize=crop * 8 // 7, crop=crop, layout="nhwc" if last else "nchw", squash=False)
        hint = f"--preprocess '{better}'"
    return InputError(f"images come out of {how} as {shown[0]}, and {label} takes {shown[1]}", hint)


def scores_of(output: NDArray[Any], batch: int, label: str) -> Scores:
    """One row of scores per image, from the model's first output."""
    sizes = [size for size in output.shape[1:] if size > 1]
    if output.shape[0] != batch or len(sizes) != 1:
        shape = "x".join(map(str, output.shape))
        raise Unsupported(f"{label} does not classify: its first output is {shape}, expected one score per class")
    return output.reshape(batch, -1).astype(np.float64)


def adds_up(scores: Scores) -> bool:
    """Whether these are probabilities already: a softmax was the model's last layer."""
    within = np.all((scores >= 0) & (scores <= 1 + _ADDS_UP))
    return bool(within and np.all(np.abs(scores.sum(axis=1) - 1) < _ADDS_UP))


def ranked(scores: Scores, *, probabilities: bool) -> tuple[NDArray[np.int64], Scores]:
    """The largest scores' places, largest first, and the share of the first of them.

    A row with nothing finite answers nothing: its places are -1 and its share is 0. Ties go to the lower class, so that
    every engine breaks them alike.
    """
    finite = np.isfinite(scores)
    scores = np.where(finite, scores, -np.inf)
    places = np.argsort(-scores, axis=1, kind="stable")[:, :KEPT]
    answered: NDArray[np.bool_] = np.any(finite, axis=1)
    first = np.where(answered, scores.max(axis=1), 0.0)
    weights = np.where(finite, scores if probabilities else np.exp(scores - first[:, None]), 0.0)
    total = weights.sum(axis=1)
    share = np.where(answered & (total > 0), weights.max(axis=1) / np.where(total > 0, total, 1), 0.0)
    return np.where(answered[:, None], places, -1), share
