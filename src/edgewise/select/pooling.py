"""Answers of several candidates made into one: probabilities multiplied, each to a power of its own.

The powers are those under which the labels are likeliest. That is a convex problem in as many numbers as there are
candidates; with one candidate its power is one over the temperature, so calibration is the simplest case. On trained
families a product with fitted powers is more accurate than the mean of calibrated probabilities, which is what most
cascades take: a candidate that is far better gets its weight, and one that adds nothing gets none.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .calibrate import FLOOR
from .table import Scores

Floats = NDArray[np.float64]
# Of more images, some from all over are used: a few numbers have settled by then.
_ENOUGH = 3_000
_STEPS = 30
_PRECISION = 1e-6
# Keeps powers finite where candidates answer alike, or never err.
_RIDGE = 1e-3


def powers(scores: Sequence[Scores], labels: NDArray[np.int64]) -> tuple[float, ...]:
    """By Newton's method, from a mean of all."""
    if len(labels) > _ENOUGH:
        some = np.linspace(0, len(labels) - 1, _ENOUGH).round().astype(np.int64)
        scores, labels = [each[some] for each in scores], labels[some]
    logits = np.stack([np.fmax(each, FLOOR) for each in scores]).astype(np.float64)
    own = np.take_along_axis(logits, labels[None, :, None], axis=2)[:, :, 0]
    count = len(labels)
    found = np.full(len(scores), 1 / len(scores))
    loss = _loss(logits, own, found)
    for _ in range(_STEPS):
        shares = np.exp(_pooled(logits, found))
        weighted = shares * logits
        means = weighted.sum(axis=2)
        slope = (means - own).mean(axis=1) + _RIDGE * found
        flat, others = weighted.reshape(len(found), -1), logits.reshape(len(found), -1)
        curve = (flat @ others.T - means @ means.T) / count + _RIDGE * np.eye(len(found))
        step = np.linalg.solve(curve, slope)
        better = _loss(logits, own, found - step)
        while better > loss and np.abs(step).max() > _PRECISION:
            step = step / 2
            better = _loss(logits, own, found - step)
        if better > loss:
            break
        found, loss = found - step, better
        if np.abs(step).max() <= _PRECISION:
            break
    return tuple(float(power) for power in found)


def _loss(logits: Floats, own: Floats, found: Floats) -> float:
    summed = np.einsum("k,knc->nc", found, logits)
    most = summed.max(axis=1)
    total = np.log(np.exp(summed - most[:, None]).sum(axis=1)) + most
    return float((total - found @ own).mean() + _RIDGE * float(found @ found) / 2)


def _pooled(logits: Floats, found: Floats) -> Floats:
    return _normalized(np.einsum("k,knc->nc", found, logits))


def pool(scores: Sequence[Scores], found: Sequence[float]) -> Floats:
    """Logarithms of the probabilities of all together; those with a power of zero have no say."""
    total: Floats | None = None
    for each, power in zip(scores, found, strict=True):
        if power:
            part = np.multiply(np.fmax(each, FLOOR), power, dtype=np.float64)
            total = part if total is None else total + part
    return _normalized(np.zeros(scores[-1].shape) if total is None else total)


def _normalized(logits: Floats) -> Floats:
    logits = logits - logits.max(axis=1, keepdims=True)
    logits -= np.log(np.exp(logits).sum(axis=1, keepdims=True))
    return logits
