"""A candidate asked about images: each made its input, run, and what comes out made rows of scores.

A chooser asks by this code, and a candidate is priced by it: what it costs is what it takes where it is chosen.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.chooser import HINT
from ..core.errors import InputError
from ..core.preprocess import parse_preprocess
from ..core.protocols import Executable
from ..core.types import Model
from ..data.dataset import Image
from ..data.preprocess import Batch, prepare
from .answering import adds_up, scores_of
from .rows import Scores, rows


class Asking:
    """`probabilities`: whether that is what comes out; None: seen from what does. `classes`: how many there have to be;
    0: as many as there are."""

    def __init__(
        self,
        executable: Executable,
        model: Model,
        preprocess: str,
        name: str,
        *,
        probabilities: bool | None = None,
        classes: int = 0,
    ) -> None:
        self._run, self._name = executable.run, name
        self._how = parse_preprocess(preprocess)
        tensor = model.inputs[0]
        self._input, self._dtype, self._output = tensor.name, np.dtype(tensor.dtype), model.outputs[0].name
        self._shape = tuple(size for size in tensor.shape or () if isinstance(size, int))
        self._probabilities, self._classes = probabilities, classes

    @property
    def batch(self) -> int:
        """How many images it takes at once."""
        return self._shape[0]

    def prepared(self, image: Image) -> Batch:
        """What candidates of the same preprocessing share."""
        return prepare([image], self._how)

    def rows(self, inputs: Sequence[Batch]) -> Scores:
        """A row for each of as many prepared images as it takes at once, or fewer: the batch is filled up, and what is
        made of the filling is not looked at."""
        count, size = len(inputs), self._shape[0]
        batch: NDArray[Any] = inputs[0]
        if size > 1:
            batch = np.concatenate([*inputs, *[inputs[-1]] * (size - count)])
        if batch.shape != self._shape:
            found, wanted = ("x".join(map(str, shape[1:])) for shape in (batch.shape, self._shape))
            raise InputError(f"an image comes out of {self._how} as {found}, and {self._name} takes {wanted}")
        if batch.dtype != self._dtype:
            batch = batch.astype(self._dtype)
        raw = scores_of(self._run({self._input: batch})[self._output], size, self._name)[:count]
        offset = self._how.label_offset
        if self._classes and raw.shape[1] - offset != self._classes:
            raise InputError(
                f"{self._name} tells {raw.shape[1] - offset} classes apart, and the plan {self._classes}", HINT
            )
        known = self._probabilities
        return rows(raw, probabilities=adds_up(raw) if known is None else known, offset=offset)

    def see(self, image: Image) -> None:
        """From one image, what is not known of its outputs: so that it need not be seen each time."""
        batch = np.repeat(self.prepared(image), self._shape[0], axis=0).astype(self._dtype, copy=False)
        self._probabilities = adds_up(
            scores_of(self._run({self._input: batch})[self._output], self._shape[0], self._name)
        )
