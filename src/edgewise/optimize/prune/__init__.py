"""Channels taken out of a network: whole classes of them, so that what is left fits together."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from ...core.types import Tensor
from ...model.graph import Array, Graph, Node
from .coupling import Coupled, Param, groups_go

# Engines compute channels in blocks of this many: a block that is not full costs as much as one that is.
_BLOCK = 8


def prune(graph: Graph, classes: Iterable[Coupled]) -> Graph:
    """Without these channels. The answers are those of the network in which nobody takes anything from them."""
    gone, channels = _gone(classes)
    constants = {
        name: _without(array, gone[name]) if name in gone else array for name, array in graph.constants.items()
    }
    lost: dict[str, int] = defaultdict(int)
    for name, _ in channels:
        lost[name] += 1
    values = {name: _narrower(tensor, lost[name]) for name, tensor in graph.values.items()}
    nodes = tuple(_fitted(node, graph, constants, lost) for node in graph.nodes)
    return replace(graph, nodes=nodes, constants=constants, values=values)


def mask(graph: Graph, classes: Iterable[Coupled]) -> Graph:
    """The same network with nothing taken from these channels: what pruning must equal."""
    constants = dict(graph.constants)
    for param in (param for each in classes for param in each.takers):
        if constants[param.name] is graph.constants[param.name]:
            constants[param.name] = graph.constants[param.name].copy()
        constants[param.name][(slice(None),) * param.axis + (param.index,)] = 0
    return replace(graph, constants=constants)


def _gone(classes: Iterable[Coupled]) -> tuple[Mapping[str, dict[int, set[int]]], set[tuple[str, int]]]:
    gone: dict[str, dict[int, set[int]]] = defaultdict(lambda: defaultdict(set))
    channels: set[tuple[str, int]] = set()
    for each in classes:
        channels.update(each.channels)
        for param in each.params:
            _note(gone, param)
    return gone, channels


def _note(gone: dict[str, dict[int, set[int]]], param: Param) -> None:
    gone[param.name][param.axis].add(param.index)


def _without(array: Array, axes: Mapping[int, set[int]]) -> Array:
    for axis, indices in axes.items():
        array = np.delete(array, sorted(indices), axis)
    return array


def _narrower(tensor: Tensor, lost: int) -> Tensor:
    if not lost or tensor.shape is None:
        return tensor
    shape = list(tensor.shape)
    size = shape[1]
    assert isinstance(size, int)
    shape[1] = size - lost
    return replace(tensor, shape=tuple(shape))


def _fitted(node: Node, graph: Graph, constants: dict[str, Array], lost: Mapping[str, int]) -> Node:
    """What a node says of numbers of channels."""
    if node.operator == "Conv" and lost.get(node.outputs[0]):
        groups, (made, each) = int(node.attributes.get("group", 1)), graph.constants[node.inputs[1]].shape[:2]
        if groups_go(groups, each * groups, made):
            groups -= lost[node.outputs[0]] * groups // made
            return replace(node, attributes={**node.attributes, "group": groups})
    if node.operator == "Reshape" and lost.get(node.outputs[0]):
        out = graph.values[node.outputs[0]].shape
        assert out is not None
        name = f"{node.inputs[1]}.{node.name}"
        rows, row = out[0], out[1]
        assert isinstance(rows, int)
        assert isinstance(row, int)
        constants[name] = np.array([rows, row - lost[node.outputs[0]]], np.int64)
        return replace(node, inputs=(node.inputs[0], name, *node.inputs[2:]))
    return node


def sparsity(graph: Graph, pruned: Graph) -> float:
    """The share of all weights that is gone."""

    def count(of: Graph) -> int:
        return sum(math.prod(array.shape) for array in of.constants.values())

    return 1 - count(pruned) / max(1, count(graph))


def weakest(graph: Graph, classes: Sequence[Coupled], ratio: float) -> list[Coupled]:
    """Of the classes of each layer, the share `ratio` whose weights are smallest beside the others' of it; what
    stays is a whole number of blocks, one at least."""
    layers: dict[frozenset[tuple[str, int]], list[int]] = defaultdict(list)
    for place, each in enumerate(classes):
        layers[frozenset((param.name, param.axis) for param in each.params)].append(place)
    norms = _Norms(graph)
    found = []
    for those in layers.values():
        keep = max(_BLOCK, math.ceil(len(those) * (1 - ratio) / _BLOCK) * _BLOCK)
        order = sorted(those, key=lambda place: norms.of(classes[place]))
        found += order[: max(0, len(those) - keep)]
    return [classes[place] for place in sorted(found)]


class _Norms:
    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._known: dict[tuple[str, int], Array] = {}

    def of(self, each: Coupled) -> float:
        """The mean over its slices of their squared norm, each beside the mean of all slices like it."""
        total = 0.0
        for param in each.params:
            squares = self._squares(param.name, param.axis)
            total += float(squares[param.index] / max(float(squares.mean()), 1e-30))
        return total / len(each.params)

    def _squares(self, name: str, axis: int) -> Array:
        if (name, axis) not in self._known:
            array = self._graph.constants[name].astype(np.float64)
            others = tuple(place for place in range(array.ndim) if place != axis)
            self._known[name, axis] = np.square(array).sum(axis=others)
        return self._known[name, axis]
