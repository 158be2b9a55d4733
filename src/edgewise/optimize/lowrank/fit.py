"""The weights of a layer's pieces: fitted to what the layer reads where it stands, where somebody looked."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...model.graph import Array
from . import factor
from .gram import wide
from .layer import Layer
from .pieces import Choice

# Added to what was seen: nothing is as certain as a few thousand patches make it look.
_RIDGE = 1e-3
# The same where weights may become others: with too few patches for so many inputs, they had better stay what they are.
_STIFF = 1e-2


@dataclass(frozen=True, slots=True)
class Seen:
    """Of a layer: the weights to be factored, how what it reads varies together (None: nobody looked, or too much), and
    the same of what they make of it; then the means of what it reads, and of the products it is to have."""

    weight: Array
    spread: Array | None
    answers: Array
    mean: Array | None = None
    wanted: Array | None = None


def seen(layer: Layer, found: Array | None, mixed: Array | None = None) -> Seen:
    """`found` is what `gather` found of the layer, `mixed` what there is beside another network in which it reads what
    it was made for: its outputs there are what is wanted here."""
    weight: Array = layer.matrix.astype(np.float64)
    if found is None:
        return Seen(weight, None, factor.answered(weight, None))
    if wide(layer):
        return Seen(weight, None, _centred(found, layer), found[-1, :-1], found[-1, :-1])
    spread = _centred(found, layer)
    size, diagonal = float(np.trace(spread)) / len(spread) or 1.0, np.diag_indices_from(spread)
    wanted = weight @ (found if mixed is None else mixed)[:-1, -1]
    if mixed is not None:
        # Least squares: what comes closest, on what is read now, to what came out before.
        beside = _centred(mixed, layer)
        beside[diagonal] += _STIFF * size
        stiff = spread.copy()
        stiff[diagonal] += _STIFF * size
        weight = np.linalg.solve(stiff, (weight @ beside).T).T
    spread[diagonal] += _RIDGE * size
    return Seen(weight, spread, factor.answered(weight, spread), found[-1, :-1], wanted)


def factors(layer: Layer, choice: Choice, of: Seen) -> tuple[Array, ...]:
    """The weights of the pieces, in order."""
    if choice.form == "svd":
        return factor.svd(of.weight, of.answers, choice.ranks[0])
    if choice.form == "separable":
        return factor.separable(of.weight, of.spread, split(layer, choice.form), choice.ranks[0])
    return factor.tucker(of.weight, of.spread, split(layer, choice.form), (choice.ranks[0], choice.ranks[1]))


def shift(choice: Choice, weights: Sequence[Array], of: Seen) -> Array | float:
    """What the bias has to add for the means of the outputs to stay."""
    if of.mean is None or of.wanted is None:
        return 0.0
    if of.spread is None:
        # The means are those of the products with the whole weights already; of other forms they tell nothing.
        return of.wanted - weights[-1] @ (weights[-1].T @ of.mean) if choice.form == "svd" else 0.0
    first, *others = weights
    now = (first @ of.mean.reshape(first.shape[1], -1)).reshape(-1)
    for each in others:
        now = each.reshape(len(each), -1) @ now
    return np.asarray(of.wanted - now)


def split(layer: Layer, form: str) -> int:
    """How many numbers of the kernel the first piece leaves alone."""
    kernel = layer.weight.shape[2:]
    return int(kernel[-1] if form == "separable" else math.prod(kernel))


def _centred(found: Array, layer: Layer) -> Array:
    """About the means where a bias makes up for them."""
    inside = found[:-1, :-1]
    return inside.copy() if layer.bias is None else inside - np.outer(found[:-1, -1], found[-1, :-1])
