"""What comes out of a model to a row of a table: logarithms of probabilities, in the order of the data's classes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .table import Scores


def rows(outputs: NDArray[Any], *, probabilities: bool, offset: int = 0) -> Scores:
    """Each row by itself, so that it does not matter which others it came with. Outputs before `offset` are of no class
    of the data, and the others share all probability. What is not finite is never the answer: its logarithm is minus
    infinity, and so are all of a row with nothing finite."""
    scores = np.asarray(outputs, np.float64)[:, offset:]
    finite = np.isfinite(scores)
    if probabilities:
        with np.errstate(divide="ignore", invalid="ignore"):
            # A softmax of few bits may come out a little below nothing.
            scores = np.log(np.maximum(np.where(finite, scores, 0.0), 0.0))
    else:
        scores = np.where(finite, scores, -np.inf)
    first = scores.max(axis=1, keepdims=True)
    answered = np.isfinite(first)
    shifted = np.where(answered, scores - np.where(answered, first, 0.0), 0.0)
    total = np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return np.where(answered, shifted - total, -np.inf).astype(np.float32)
