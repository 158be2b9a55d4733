"""What answers so far tell about whether to go on asking: the columns that learned deferral looks at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .calibrate import FLOOR
from .pooling import Floats, pool
from .table import Scores

# Of the pooled answer's classes, the largest.
_LARGEST = 10
# Images of average accuracy that a class starts out with, so that rare ones are not judged by a few.
_PRIOR = 5.0
_CERTAIN = 1e-9


def columns(asked: int, classes: int) -> int:
    """How many there are, once so many were asked."""
    return min(_LARGEST, classes) + 3 + 4 * asked + 2


@dataclass(frozen=True, slots=True)
class Hints:
    """`logs` are the logarithms of the pooled probabilities, `first` and `second` their largest classes."""

    logs: Floats
    first: NDArray[np.int64]
    second: NDArray[np.int64]
    rows: Floats

    def with_history(self, history: Floats) -> Floats:
        """And, in the last two columns, how often the first two classes were right where they were answered before."""
        rows = self.rows.copy()
        rows[:, -2] = history[self.first]
        rows[:, -1] = history[self.second]
        return rows


def hints(scores: Sequence[Scores], powers: Sequence[float]) -> Hints:
    """A row for each image: the largest logarithms, the margin, the odds and the entropy of all together; and of each
    candidate how it sees the first two classes, whether it agrees, and how sure it is itself."""
    logs = pool(scores, powers)
    count, classes = logs.shape
    images = np.arange(count)
    order = np.argsort(-logs, axis=1, kind="stable")[:, :_LARGEST]
    largest = np.take_along_axis(logs, order, axis=1)
    wide = largest.shape[1]
    first, second = order[:, 0], order[:, min(1, wide - 1)]
    rows = np.empty((count, columns(len(scores), classes)))
    shares = np.exp(logs)
    rows[:, :wide] = largest
    rows[:, wide] = largest[:, 0] - largest[:, min(1, wide - 1)]
    rows[:, wide + 1] = largest[:, 0] - np.log(np.maximum(1 - np.exp(largest[:, 0]), _CERTAIN))
    rows[:, wide + 2] = (shares * logs).sum(axis=1)
    place = wide + 3
    for each in scores:
        own = np.fmax(each, FLOOR)
        most, here = own.max(axis=1), own[images, first]
        rows[:, place] = here
        rows[:, place + 1] = here - own[images, second]
        rows[:, place + 2] = here == most
        rows[:, place + 3] = most
        place += 4
    return Hints(logs, first, second, rows)


def histories(answers: NDArray[np.int64], right: NDArray[np.bool_], classes: int) -> Floats:
    """How often each class was right where it was answered."""
    given = np.bincount(answers, minlength=classes) + _PRIOR
    found: Floats = (np.bincount(answers, right, classes) + _PRIOR * right.mean()) / given
    return found
