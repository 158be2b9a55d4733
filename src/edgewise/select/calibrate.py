"""Probabilities that mean what they say: one temperature per candidate, and how far shares of right answers are off.

A table has logarithms of probabilities. They differ from a network's logits by a constant in each row, which a softmax
takes out again, so a temperature on them is the same as on the logits (Guo et al. 2017, "On calibration of modern
neural networks").
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .table import Flags, Scores

Floats = NDArray[np.float64]
# Below what a 32-bit float holds as a probability. A row with nothing finite becomes even: nothing is known of it.
FLOOR = -100.0
# Of more images, some from all over are used: one number has settled by then.
_ENOUGH = 4_000
_COLDEST, _HOTTEST = 0.05, 20.0
_STEPS = 60
_PRECISION = 1e-7


@dataclass(frozen=True, slots=True)
class Bin:
    """Images whose confidence is about the same: how many, the mean of it, and the share answered right."""

    images: int
    confidence: float
    right: float


def temperature(scores: Scores, labels: NDArray[np.int64]) -> float:
    """What divides the logits so that the labels are likeliest. Newton's method, kept inside a bracket that halves:
    in one over the temperature the negative logarithm of the likelihood is convex."""
    if len(scores) > _ENOUGH:
        some = np.linspace(0, len(scores) - 1, _ENOUGH).round().astype(np.int64)
        scores, labels = scores[some], labels[some]
    logits = np.fmax(scores, FLOOR).astype(np.float64)
    logits -= logits.max(axis=1, keepdims=True)
    own = np.take_along_axis(logits, labels[:, None], axis=1)[:, 0]
    low, factor, high = 1 / _HOTTEST, 1.0, 1 / _COLDEST
    for _ in range(_STEPS):
        weights = np.exp(factor * logits)
        weights /= weights.sum(axis=1, keepdims=True)
        weighted = weights * logits
        mean = weighted.sum(axis=1)
        slope = float((mean - own).mean())
        curve = float(((weighted * logits).sum(axis=1) - mean * mean).mean())
        low, high = (low, factor) if slope > 0 else (factor, high)
        step = factor - slope / curve if curve > 0 else high
        before, factor = factor, step if low < step < high else (low + high) / 2
        if abs(factor - before) <= _PRECISION * before:
            break
    return 1 / factor


def tempered(scores: Scores, divisor: float) -> Floats:
    """Logarithms of probabilities at a temperature."""
    logits = np.fmax(scores, FLOOR).astype(np.float64)
    logits /= divisor
    logits -= logits.max(axis=1, keepdims=True)
    logits -= np.log(np.exp(logits).sum(axis=1, keepdims=True))
    return logits


def reliability(confidence: Floats, right: Flags, bins: int = 15) -> tuple[Bin, ...]:
    """Images in bins of equal width of confidence; empty bins are left out."""
    places = np.minimum((confidence * bins).astype(np.int64), bins - 1)
    counts = np.bincount(places, minlength=bins)
    sums = np.bincount(places, confidence, bins)
    hits = np.bincount(places, right, bins)
    return tuple(
        Bin(int(counts[place]), float(sums[place] / counts[place]), float(hits[place] / counts[place]))
        for place in range(bins)
        if counts[place]
    )


def calibration_error(bins: tuple[Bin, ...]) -> float:
    """How far confidence and share of right answers are apart, by the mean over images (the expected calibration
    error)."""
    total = sum(each.images for each in bins)
    return sum(each.images * abs(each.confidence - each.right) for each in bins) / total if total else 0.0
