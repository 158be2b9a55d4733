"""Logistic regression with a ridge, by Newton's method: small, convex, and the same at every fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.errors import InputError

Floats = NDArray[np.float64]
_STEPS = 50
_PRECISION = 1e-8
# What no probability here goes beyond: keeps the weights of a step positive.
_EXTREME = 30.0


@dataclass(frozen=True, slots=True)
class Logistic:
    weights: Floats
    bias: float

    def logit(self, features: Floats) -> Floats:
        # Row by row rather than a product of matrices: a row has the same sum whatever stands beside it.
        found: Floats = (features * self.weights).sum(axis=1) + self.bias
        return found

    def probability(self, features: Floats) -> Floats:
        return sigmoid(self.logit(features))

    def saved(self) -> Floats:
        return np.append(self.weights, self.bias)


def load(array: NDArray[Any] | None, columns: int, what: str) -> Logistic:
    wanted = f"{what} is {columns + 1} finite numbers"
    if array is None or array.shape != (columns + 1,) or not np.issubdtype(array.dtype, np.floating):
        raise InputError(f"{wanted}, found {'nothing' if array is None else f'{array.dtype} {array.shape}'}")
    if not np.isfinite(array).all():
        raise InputError(wanted)
    return Logistic(array[:-1].astype(np.float64), float(array[-1]))


def sigmoid(logits: Floats) -> Floats:
    found: Floats = 1 / (1 + np.exp(-np.clip(logits, -_EXTREME, _EXTREME)))
    return found


def fit(features: Floats, target: NDArray[np.bool_], ridge: float = 1.0) -> Logistic:
    """The weights under which `target` is likeliest, less `ridge` / 2 times their squares; the bias is free, but for as
    much as keeps it finite where the target never changes. Columns are scaled, so that one ridge suits all of them."""
    mean = features.mean(axis=0)
    scale = features.std(axis=0)
    scale = np.where(scale > 1e-9, scale, 1.0)
    rows = np.column_stack([(features - mean) / scale, np.ones(len(features))])
    penalty = np.append(np.full(features.shape[1], ridge), 1e-3)
    wanted = target.astype(np.float64)
    weights = np.zeros(rows.shape[1])
    loss = _loss(rows, wanted, weights, penalty)
    for _ in range(_STEPS):
        found = sigmoid(rows @ weights)
        slope = rows.T @ (found - wanted) + penalty * weights
        curve = (rows * (found * (1 - found))[:, None]).T @ rows + np.diag(penalty)
        step = np.linalg.solve(curve, slope)
        # Far from the optimum a whole step may go too far.
        share, better = 1.0, _loss(rows, wanted, weights - step, penalty)
        while better > loss and share > 1e-4:
            share /= 2
            better = _loss(rows, wanted, weights - share * step, penalty)
        if better > loss:
            break
        gained = loss - better
        weights, loss = weights - share * step, better
        if gained <= _PRECISION * (1 + abs(loss)):
            break
    slopes = weights[:-1] / scale
    return Logistic(slopes, float(weights[-1] - slopes @ mean))


def _loss(rows: Floats, wanted: Floats, weights: Floats, penalty: Floats) -> float:
    logits = rows @ weights
    return float(np.logaddexp(0, logits).sum() - wanted @ logits + (penalty * weights * weights).sum() / 2)
