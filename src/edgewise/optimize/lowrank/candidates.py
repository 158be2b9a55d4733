"""What a layer can become: each form and size worth a look, with what it costs and loses."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TypeVar

import numpy as np

from ...model.graph import Array, Graph, Node
from . import factor
from .fit import Seen, seen, split
from .layer import Layer
from .pieces import Choice, forms, multiply_adds
from .ranks import Candidate

# What a node takes as it is (None) or in pieces, in whatever unit: multiply-adds, or seconds that somebody measured.
Cost = Callable[[Node, Choice | None], float]
_T = TypeVar("_T")
# Engines compute channels in blocks of this many.
_BLOCK = 8
# Sizes tried of each layer and form: each may have to be measured.
_LEVELS = 16

_Sized = tuple[int, float, tuple[int, ...]]


def candidates(
    graph: Graph, layer: Layer, found: Array | None, cost: Cost, use: Collection[str]
) -> Iterator[Candidate]:
    """Of the forms in `use`: fewer multiply-adds than the layer has, evenly spaced, in whole blocks. `found` is what
    `gather` found of the layer, where somebody looked."""
    usable = [form for form in forms(layer) if form in use]
    if not usable:
        return
    of = seen(layer, found)
    if found is not None and of.spread is None:
        usable = [form for form in usable if form == "svd"]
    outer = factor.outer(of.answers)[1]
    whole = multiply_adds(graph, layer.node)
    for form in usable:
        losses = _losses(form, outer, layer, of)
        sized = [(multiply_adds(graph, layer.node, layer, Choice(form, r)), e, r) for r, e in losses.items()]
        for _, error, ranks in _thinned(_front([each for each in sized if each[0] < whole])):
            yield Candidate(Choice(form, ranks), cost(layer.node, Choice(form, ranks)), error)


def _losses(form: str, outer: Array, layer: Layer, of: Seen) -> dict[tuple[int, ...], float]:
    """By ranks. `outer` is what is lost with the directions of the outputs that are not kept."""
    if form == "svd":
        return {(rank,): float(outer[rank]) for rank in _steps(min(layer.matrix.shape))}
    inner = factor.inner(of.weight, of.spread, split(layer, form))[1]
    if form == "separable":
        return {(rank,): float(inner[rank]) for rank in _steps(len(inner))}
    # Both at once lose no more than one and then the other.
    taken, made = (_thinned(_steps(len(each))) for each in (inner, outer))
    return {(a, b): float(inner[a] + outer[b]) for a in taken for b in made}


def _steps(end: int) -> range:
    return range(_BLOCK, end, _BLOCK)


def _thinned(many: Sequence[_T]) -> list[_T]:
    if len(many) <= _LEVELS:
        return list(many)
    return [many[round(place)] for place in np.linspace(0, len(many) - 1, _LEVELS)]


def _front(sized: Sequence[_Sized]) -> list[_Sized]:
    """Those than which no smaller one loses less."""
    found: list[_Sized] = []
    for each in sorted(sized):
        if not found or each[1] < found[-1][1]:
            found.append(each)
    return found
