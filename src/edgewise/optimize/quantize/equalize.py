"""Channels of neighbouring layers brought to like sizes, without a change of what comes out.

What a layer multiplies a channel by, the next can divide it by, if what lies between lets a factor pass: nothing,
a Relu, a pool. Where one channel's weights are small beside another's, 8 bits over both leave it few levels;
so the largest weight that makes a channel and the largest that takes it are made equal (Nagel et al., 2019).
What is cut off at a ceiling (Relu6) lets no factor pass, and stays as it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...model.graph import Array, Graph, Node

# f(s x) = s f(x) for every s > 0, channel by channel.
_PASSING = ("AveragePool", "GlobalAveragePool", "GlobalMaxPool", "Identity", "LeakyRelu", "MaxPool", "PRelu", "Relu")
_SWEEPS = 40
_SETTLED = 1e-3
# Of a channel that is all but dead only the bias is left, and no factor may blow that up.
_MOST = 16.0
_DEAD = 1e-6
_ENDLESS = 1e30


@dataclass(frozen=True, slots=True)
class Pair:
    """Two convolutions with nothing between them that a factor could not pass."""

    first: Node
    second: Node


def equalized(graph: Graph) -> Graph:
    """The same function with other weights: where every pair is as even as its neighbours let it be."""
    found = list(pairs(graph))
    constants = dict(graph.constants)
    factors: dict[str, Array] = {}
    for _ in range(_SWEEPS):
        if max((_balance(pair, constants, factors) for pair in found), default=0.0) < _SETTLED:
            break
    return replace(graph, constants=constants)


def pairs(graph: Graph) -> Iterator[Pair]:
    """Every convolution that one other convolution alone takes from."""
    readers: dict[str, list[Node]] = {}
    for node in graph.nodes:
        for name in node.inputs:
            readers.setdefault(name, []).append(node)
    uses = Counter(name for node in graph.nodes for name in node.inputs)
    for node in graph.nodes:
        if not _own(node, graph, uses):
            continue
        last = node
        while len(after := readers.get(last.outputs[0], [])) == 1 and last.outputs[0] not in graph.outputs:
            if after[0].inputs[0] != last.outputs[0]:
                break
            if _own(after[0], graph, uses):
                yield Pair(node, after[0])
                break
            if not _passes(after[0], graph):
                break
            last = after[0]


def _own(node: Node, graph: Graph, uses: Counter[str]) -> bool:
    """A convolution whose weights are constant, and nobody else's."""
    if node.operator != "Conv" or node.domain:
        return False
    return all(name in graph.constants and uses[name] == 1 for name in node.inputs[1:] if name)


def _passes(node: Node, graph: Graph) -> bool:
    if node.domain or len([name for name in node.outputs if name]) != 1:
        return False
    if node.operator == "Clip":
        low, high = _bound(node, graph, 1, "min", -np.inf), _bound(node, graph, 2, "max", np.inf)
        return low is not None and high is not None and high >= _ENDLESS and (low == 0 or low <= -_ENDLESS)
    if node.operator == "PRelu":
        return node.inputs[1] in graph.constants
    return node.operator in _PASSING


def _bound(node: Node, graph: Graph, place: int, name: str, default: float) -> float | None:
    """An end of a Clip; None where it is computed."""
    if len(node.inputs) > place and node.inputs[place]:
        known = graph.constants.get(node.inputs[place])
        return None if known is None or known.size != 1 else float(known.reshape(()))
    value: Any = node.attributes.get(name, default)
    return float(value)


def _balance(pair: Pair, constants: MutableMapping[str, Array], factors: dict[str, Array]) -> float:
    """One pair made even; how far from even it was."""
    makes, takes = constants[pair.first.inputs[1]], constants[pair.second.inputs[1]]
    groups = int(pair.second.attributes.get("group", 1))
    # One row per channel that is taken, whatever the groups.
    rows = takes.reshape(groups, takes.shape[0] // groups, takes.shape[1], -1)
    made = np.abs(makes).reshape(len(makes), -1).max(1).astype(np.float64)
    taken = np.abs(rows).max((1, 3)).reshape(-1).astype(np.float64)
    alive = (made > _DEAD * made.max()) & (taken > _DEAD * taken.max())
    so_far = factors.get(pair.first.name, np.ones(len(made)))
    wanted = np.where(alive, np.sqrt(made / np.where(alive, taken, 1)), 1)
    factor = np.clip(so_far * wanted, 1 / _MOST, _MOST) / so_far
    factors[pair.first.name] = so_far * factor
    constants[pair.first.inputs[1]] = _scaled(makes, 1 / factor)
    if len(pair.first.inputs) > 2 and pair.first.inputs[2]:
        bias = pair.first.inputs[2]
        constants[bias] = _scaled(constants[bias], 1 / factor)
    by = factor.reshape(groups, 1, -1, 1)
    constants[pair.second.inputs[1]] = (rows * by).reshape(takes.shape).astype(takes.dtype)
    return float(np.abs(np.log(factor)).max())


def _scaled(array: Array, by: Array) -> Array:
    return np.asarray((array * by.reshape(-1, *[1] * (array.ndim - 1))).astype(array.dtype))
