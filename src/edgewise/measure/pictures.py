"""Images of a dataset in the worker: decoded once, held, and shown to what is measured, a different one at each run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.errors import InputError
from ..core.protocols import Executable, Feeds, Outputs
from ..data import open_dataset
from ..data.dataset import Image

# What is held of decoded images, whatever was asked for: enough to be no one image, and no burden beside a model.
_MOST_BYTES = 256 << 20


@dataclass(frozen=True, slots=True)
class Pictures:
    """Images by their place in a dataset, whether they have labels or not."""

    data: str
    labels: str | None
    indices: tuple[int, ...]


def decoded(pictures: Pictures) -> list[Image]:
    """Those that can be, in their order, as many as may be held."""
    dataset = open_dataset(pictures.data, pictures.labels, labelled=pictures.labels is not None)
    found: list[Image] = []
    held = 0
    why: InputError | None = None
    for index in pictures.indices:
        try:
            # Arrays are read as a whole: a view would hold all of them.
            image = np.array(dataset.image(index))
        except InputError as error:
            why = error
            continue
        held += image.nbytes
        if found and held > _MOST_BYTES:
            break
        found.append(image)
    if not found:
        raise why or InputError(f"{dataset.label} has no image", "--data FOLDER, LIST.csv or ARRAYS.npz")
    return found


class Shown:
    """An executable that takes images, shown them in turn: a run is about the next ones, whatever it is fed."""

    def __init__(self, executable: Executable, images: Sequence[Image], batch: int, first: int = 0) -> None:
        self._executable = executable
        # Whole batches only; where there are fewer images than one takes, some come twice.
        order = [*images[first % len(images) :], *images[: first % len(images)]]
        order *= -(-batch // len(order))
        batches = [order[place : place + batch] for place in range(0, len(order) - batch + 1, batch)]
        self._feeds = cycle([{"images": _stacked(each)} for each in batches])

    def run(self, feeds: Feeds) -> Outputs:
        return self._executable.run(next(self._feeds))

    def close(self) -> None:
        self._executable.close()


def _stacked(images: Sequence[Image]) -> NDArray[Any]:
    sizes = {image.shape for image in images}
    if len(sizes) > 1:
        first, second = (f"{w}x{h}" for h, w, _ in list(sizes)[:2])
        raise InputError(f"images of {first} and {second} do not make one batch", "--batch 1")
    return np.stack(images)
