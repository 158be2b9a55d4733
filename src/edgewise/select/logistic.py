"""Logistic regression with a ridge, by Newton's method: small, convex, and the same at every fit."""

from __future__ import annotations

from collections.abc import Mapping
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
_PARTS = ("mean", "scale", "weights")


@dataclass(frozen=True, slots=True)
class Logistic:
    """Columns are shifted and scaled before they are weighted, so that one ridge suits all of them."""

    mean: Floats
    scale: Floats
    weights: Floats
    bias: float

    def logit(self, features: Floats) -> Floats:
        # Row by row rather than a product of matrices: a row has the same sum whatever stands beside it.
        found: Floats = ((features - self.mean) / self.scale * self.weights).sum(axis=1) + self.bias
        return found

    def probability(self, features: Floats) -> Floats:
        return sigmoid(self.logit(features))

    def saved(self, prefix: str) -> dict[str, NDArray[Any]]:
        parts = {name: getattr(self, name) for name in _PARTS}
        return {f"{prefix}_{name}": value for name, value in parts.items()} | {f"{prefix}_bias": np.array(self.bias)}


def load(arrays: Mapping[str, NDArray[Any]], prefix: str, columns: int) -> Logistic:
    found = []
    for name, shape in (*((part, (columns,)) for part in _PARTS), ("bias", ())):
        array = arrays.get(f"{prefix}_{name}")
        if array is None or array.shape != shape or not np.issubdtype(array.dtype, np.floating):
            what = "nothing" if array is None else f"{array.dtype} {array.shape}"
            raise InputError(f"{prefix}_{name} of a policy is numbers of shape {shape}, found {what}")
        if not np.isfinite(array).all() or (name == "scale" and (array <= 0).any()):
            raise InputError(f"{prefix}_{name} of a policy is {'positive and ' if name == 'scale' else ''}finite")
        found.append(array.astype(np.float64))
    return Logistic(found[0], found[1], found[2], float(found[3]))


def sigmoid(logits: Floats) -> Floats:
    found: Floats = 1 / (1 + np.exp(-np.clip(logits, -_EXTREME, _EXTREME)))
    return found


def fit(features: Floats, target: NDArray[np.bool_], ridge: float = 1.0) -> Logistic:
    """The weights under which `target` is likeliest, less `ridge` / 2 times their squares; the bias is free, but for as
    much as keeps it finite where the target never changes."""
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
    return Logistic(mean, scale, weights[:-1], float(weights[-1]))


def _loss(rows: Floats, wanted: Floats, weights: Floats, penalty: Floats) -> float:
    logits = rows @ weights
    return float(np.logaddexp(0, logits).sum() - wanted @ logits + (penalty * weights * weights).sum() / 2)
