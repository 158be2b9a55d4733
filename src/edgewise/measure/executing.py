"""A user's own images and arrays through an executable, in the worker: prepared, run, and what came out."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.errors import InputError
from ..core.preprocess import PRESETS, parse_preprocess
from ..core.protocols import Executable, Feeds
from ..core.types import Model
from ..data import arrays, files
from ..data.preprocess import prepare
from .answering import adds_up

_ARRAYS = (".npz", ".npy")
_FORM = "numpy.savez(path, INPUT=array)"
# How often seeded noise is run where nothing was given: enough for a median.
_NOISE_RUNS = 11


@dataclass(frozen=True, slots=True)
class Output:
    """What an output of a model came to; `low` and `high` are None where nothing in it was finite."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Executed:
    """One input. `latency_ns` is of the run it was in, alone or in a batch; `ranked` are classes of the data with their
    shares, from the most likely down: empty where the model does not classify."""

    input: str
    latency_ns: int
    prepare_ns: int
    ranked: tuple[tuple[int, float], ...]
    outputs: tuple[Output, ...]


class Execution:
    """An executable, how images become its input, and the outputs kept so far."""

    def __init__(self, executable: Executable, model: Model, preprocess: str | None, noise: Feeds) -> None:
        self._executable, self._model, self._noise = executable, model, noise
        self._how = parse_preprocess(preprocess) if preprocess else None
        self._kept: list[dict[str, NDArray[Any]]] = []

    def run(self, inputs: Sequence[str], top: int, keep: bool) -> list[Executed]:
        """What was given, in order: arrays one by one, images as many at once as the model takes. Nothing: noise."""
        if not inputs:
            return [self._noise_run(keep)]
        found: list[Executed] = []
        waiting: list[str] = []
        for path in inputs:
            if Path(path).suffix.lower() in _ARRAYS:
                found += [*self._images(waiting, top, keep), self._arrays(path, top, keep)]
                waiting = []
            else:
                waiting.append(path)
        return found + self._images(waiting, top, keep)

    def save(self, path: str) -> None:
        """All outputs that were kept, one array each: the inputs one after another along the first axis."""
        names = self._kept[0] if self._kept else {}
        joined = {name: np.concatenate([np.atleast_1d(part[name]) for part in self._kept]) for name in names}
        try:
            with open(path, "wb") as file:
                np.savez(file, **joined)  # type: ignore[arg-type]
        except OSError as error:
            raise InputError(f"{path} cannot be written: {error.strerror}") from None

    def _noise_run(self, keep: bool) -> Executed:
        times = []
        for _ in range(_NOISE_RUNS):
            outputs, took = self._once(self._noise)
            times.append(took)
        if keep:
            self._kept.append(outputs)
        return Executed("seeded noise", sorted(times)[_NOISE_RUNS // 2], 0, (), _facts(outputs))

    def _once(self, feeds: Feeds) -> tuple[dict[str, NDArray[Any]], int]:
        begin = time.perf_counter_ns()
        outputs = self._executable.run(feeds)
        took = time.perf_counter_ns() - begin
        return {name: np.array(value) for name, value in outputs.items()}, took

    def _images(self, paths: Sequence[str], top: int, keep: bool) -> list[Executed]:
        if not paths:
            return []
        model, tensor = self._model, self._model.inputs[0]
        shape = tuple(size for size in tensor.shape or () if isinstance(size, int))
        if len(model.inputs) != 1 or len(shape) != 4:
            names = ", ".join(t.name for t in model.inputs)
            raise InputError(
                f"{model.label} does not take one image, but {names}; {paths[0]} cannot be given", f"FEEDS.npz: {_FORM}"
            )
        if self._how is None:
            raise InputError(
                f"{model.label} does not say how an image becomes its input; known ways: {', '.join(PRESETS)}",
                "--preprocess imagenet",
            )
        found: list[Executed] = []
        for first in range(0, len(paths), shape[0]):
            chunk = paths[first : first + shape[0]]
            begin = time.perf_counter_ns()
            batch: NDArray[Any] = prepare([files.decode(Path(path)) for path in chunk], self._how)
            if batch.shape[1:] != shape[1:]:
                shown = ["x".join(map(str, sizes)) for sizes in (batch.shape[1:], shape[1:])]
                raise InputError(
                    f"{chunk[0]} comes out of {self._how} as {shown[0]}, and {model.label} takes {shown[1]}",
                    f"--preprocess 'imagenet(resize={shape[-2] * 8 // 7}, crop={shape[-2]})'",
                )
            # The last batch is filled up; what is made of the filling is not shown.
            filled = np.concatenate([batch, np.repeat(batch[-1:], shape[0] - len(batch), axis=0)])
            preparing = (time.perf_counter_ns() - begin) // len(chunk)
            outputs, took = self._once({tensor.name: filled.astype(tensor.dtype, copy=False)})
            own = {
                name: value[: len(chunk)] if value.ndim and value.shape[0] == shape[0] else value
                for name, value in outputs.items()
            }
            if keep:
                self._kept.append(own)
            for place, path in enumerate(chunk):
                each = {n: v[place : place + 1] if v.ndim and len(v) == len(chunk) else v for n, v in own.items()}
                found.append(Executed(path, took, preparing, self._ranked(each, top), _facts(each)))
        return found

    def _arrays(self, path: str, top: int, keep: bool) -> Executed:
        outputs, took = self._once(self._feeds(path))
        if keep:
            self._kept.append(outputs)
        return Executed(path, took, 0, self._ranked(outputs, top), _facts(outputs))

    def _feeds(self, path: str) -> dict[str, NDArray[Any]]:
        """One array per input, of its shape; a missing first axis of one is added."""
        tensors, feeds = self._model.inputs, dict[str, NDArray[Any]]()
        single = Path(path).suffix.lower() == ".npy"
        if single and len(tensors) != 1:
            names = ", ".join(tensor.name for tensor in tensors)
            raise InputError(f"{path} is one array, and {self._model.label} takes {names}", f"FEEDS.npz: {_FORM}")
        for tensor in tensors:
            value = _read_array(path) if single else arrays.member(path, tensor.name, _FORM)
            wanted = tuple(size for size in tensor.shape or () if isinstance(size, int))
            value = value[np.newaxis] if (1, *value.shape) == wanted else value
            if value.shape != wanted or value.dtype.kind not in "biuf":
                shown = "x".join(map(str, value.shape)) or "a single value"
                raise InputError(
                    f"{tensor.name!r} of {path} is {value.dtype} {shown}, and {self._model.label} takes "
                    f"{tensor.dtype} {'x'.join(map(str, wanted))}"
                )
            feeds[tensor.name] = value.astype(tensor.dtype, copy=False)
        return feeds

    def _ranked(self, outputs: Mapping[str, NDArray[Any]], top: int) -> tuple[tuple[int, float], ...]:
        """The largest scores of the first output as shares, where it is one row of scores."""
        first = outputs[self._model.outputs[0].name]
        if first.ndim < 2 or first.shape[0] != 1 or sum(size > 1 for size in first.shape) != 1:
            return ()
        scores = first.reshape(1, -1).astype(np.float64)
        if not np.isfinite(scores).all():
            return ()
        shares = scores[0] if adds_up(scores) else np.exp(scores[0] - scores.max())
        shares = shares / shares.sum()
        offset = self._how.label_offset if self._how else 0
        places = np.argsort(-shares, kind="stable")[:top]
        return tuple((int(place) - offset, float(shares[place])) for place in places)


def _facts(outputs: Mapping[str, NDArray[Any]]) -> tuple[Output, ...]:
    found = []
    for name, value in outputs.items():
        finite = value[np.isfinite(value)] if value.dtype.kind == "f" else value
        low, high = (float(finite.min()), float(finite.max())) if finite.size else (None, None)
        found.append(Output(name, str(value.dtype), tuple(value.shape), low, high))
    return tuple(found)


def _read_array(path: str) -> NDArray[Any]:
    """Mapped first: a header that claims more than the file holds is refused before memory is taken for it."""
    try:
        return np.array(np.load(path, mmap_mode="r", allow_pickle=False))
    except (OSError, ValueError, EOFError, SyntaxError, MemoryError) as error:
        raise InputError(f"{path} cannot be read as an array: {error}", "numpy.save(path, array)") from None
