"""What comes out of a model to a row of scores: logarithms of probabilities, in the order of the data's classes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Scores = NDArray[np.float32]


def rows(outputs: NDArray[Any], *, probabilities: bool, offset: int = 0) -> Scores:
    """Each row by itself, so that it does not matter which others it came with. Outputs before `offset` are of no class
    of the data, and the others share all probability. What is not finite is never the answer: its logarithm is minus
    infinity, and so are all of a row with nothing finite."""
    scores = np.asarray(outputs, np.float64)[:, offset:]
    first = scores.max(axis=1, keepdims=True)
    # What is not finite shows in the largest of a row, but for minus infinity, which stays what it is.
    if probabilities or not np.isfinite(first).all():
        scores = _answers(scores, probabilities)
        first = scores.max(axis=1, keepdims=True)
        first = np.where(np.isfinite(first), first, 0.0)
    shifted = scores - first
    # At least one, wherever there is an answer.
    total = np.maximum(np.exp(shifted).sum(axis=1, keepdims=True), 1.0)
    found: Scores = (shifted - np.log(total)).astype(np.float32)
    return found


def _answers(scores: NDArray[np.float64], probabilities: bool) -> NDArray[np.float64]:
    """Minus infinity where there is none."""
    finite = np.isfinite(scores)
    if not probabilities:
        return np.where(finite, scores, -np.inf)
    with np.errstate(divide="ignore", invalid="ignore"):
        # A softmax of few bits may come out a little below nothing.
        found: NDArray[np.float64] = np.log(np.maximum(np.where(finite, scores, 0.0), 0.0))
    return found
