"""What one image takes, in the worker: made the model's input, and asked about, one after another, on the clock."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle

import numpy as np

from ..core.protocols import Executable
from ..core.types import Model
from ..data.dataset import Image
from .asking import Asking


@dataclass(frozen=True, slots=True)
class Priced:
    """A turn: what preparing and running took, image by image. The turn began at `started_ns` since the epoch."""

    started_ns: int
    elapsed_ns: int
    prepare_ns: tuple[int, ...]
    run_ns: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Went:
    """A turn of a chooser: what each image took from a decoded image to an answer, the answer (the place of the largest
    score), and who was asked (a row of zeros and ones)."""

    time_ns: tuple[int, ...]
    answers: tuple[int, ...]
    asked: tuple[tuple[int, ...], ...]


class Pricing:
    """Images in turn, from where the last turn stopped, each asked about as a chooser does: a run ends with the row of
    scores that a policy gets."""

    def __init__(self, executable: Executable, model: Model, preprocess: str, images: Sequence[Image]) -> None:
        self._asking = Asking(executable, model, preprocess, model.label)
        self._asking.see(images[0])
        self._images = cycle(images)

    def price(self, duration_ns: int, settle_ns: int) -> Priced:
        """For so long, at least one; before it, some that do not count."""
        if settle_ns:
            self._take(settle_ns)
        started, begin = time.time_ns(), time.perf_counter_ns()
        prepare_ns, run_ns = self._take(duration_ns)
        return Priced(started, time.perf_counter_ns() - begin, tuple(prepare_ns), tuple(run_ns))

    def _take(self, duration_ns: int) -> tuple[list[int], list[int]]:
        clock, asking = time.perf_counter_ns, self._asking
        prepare_ns: list[int] = []
        run_ns: list[int] = []
        deadline = clock() + duration_ns
        while True:
            image = next(self._images)
            begin = clock()
            batch = asking.prepared(image)
            prepared = clock()
            asking.rows([batch])
            end = clock()
            prepare_ns.append(prepared - begin)
            run_ns.append(end - prepared)
            if end >= deadline:
                return prepare_ns, run_ns


def went(executable: Executable, images: Sequence[Image]) -> Went:
    """A chooser shown each of `images` alone."""
    clock, run = time.perf_counter_ns, executable.run
    time_ns, answers, asked = [], [], []
    for image in images:
        begin = clock()
        outputs = run({"images": image[np.newaxis]})
        time_ns.append(clock() - begin)
        scores = outputs["scores"][0]
        answers.append(int(scores.argmax()) if np.isfinite(scores).any() else -1)
        asked.append(tuple(int(each) for each in outputs["asked"][0]))
    return Went(tuple(time_ns), tuple(answers), tuple(asked))
