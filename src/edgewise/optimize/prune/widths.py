"""How many channels each group of layers keeps: those go whose loss buys the most time."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...core.errors import Unsupported
from ...core.types import Tensor
from ...model.graph import Graph, Node
from .coupling import groups_go
from .importance import Group

# What a layer, by the name of its node, costs with so many channels in and out; any unit.
Cost = Callable[[str, int, int], float]
# Engines compute channels in blocks of this many.
_BLOCK = 16


@dataclass(frozen=True, slots=True)
class Sized:
    """A layer, its channels in and out, and how many fewer each class of each group that goes leaves of them."""

    name: str
    taken: int
    made: int
    fewer_taken: Mapping[str, int]
    fewer_made: Mapping[str, int]

    def widths(self, gone: Mapping[str, int]) -> tuple[int, int]:
        taken = self.taken - sum(each * gone[group] for group, each in self.fewer_taken.items())
        made = self.made - sum(each * gone[group] for group, each in self.fewer_made.items())
        return taken, made


def sized(graph: Graph, groups: Sequence[Group]) -> list[Sized]:
    """Every layer with weights."""
    fewer: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for group in groups:
        for value, _ in group.classes[0].channels:
            fewer[value][group.name] += 1
    found = []
    for node in graph.nodes:
        if node.operator in ("Conv", "Gemm", "MatMul") and node.inputs[1] in graph.constants:
            x, y = node.inputs[0], node.outputs[0]
            found.append(Sized(node.name, _channels(graph, x), _channels(graph, y), dict(fewer[x]), dict(fewer[y])))
    return found


def _channels(graph: Graph, name: str) -> int:
    shape = graph.values[name].shape or ()
    size = shape[1] if len(shape) > 1 else 1
    return size if isinstance(size, int) else 1


def multiply_adds(graph: Graph, block: int = _BLOCK) -> Cost:
    """Those of each layer, with channels in whole blocks: the cost for want of a measured one."""
    nodes = {node.name: node for node in graph.nodes}

    def cost(name: str, taken: int, made: int) -> float:
        node = nodes[name]
        x, y = _channels(graph, node.inputs[0]), _channels(graph, node.outputs[0])
        taken, made = (min(whole, math.ceil(n / block) * block) for n, whole in ((taken, x), (made, y)))
        groups = int(node.attributes.get("group", 1))
        # Groups that go whole stay as they are: a weight has what each of them takes.
        each = graph.constants[node.inputs[1]].shape[1] if _whole(graph, node) else taken / groups
        return _each(graph, node) * each * made

    return cost


def narrowed(one: Graph, taken: int, made: int) -> Graph:
    """A layer by itself with so many channels in and out: for measuring what it takes."""
    (node,) = one.nodes
    x, y = node.inputs[0], node.outputs[0]
    groups = int(node.attributes.get("group", 1))
    weight, whole = one.constants[node.inputs[1]], _whole(one, node)
    across = node.operator != "Conv" and not node.attributes.get("transB", 0)
    sizes = (taken, made) if across else (made, weight.shape[1] if whole else taken // groups)
    constants = {**one.constants, node.inputs[1]: np.resize(weight, (*sizes, *weight.shape[2:]))}
    for name in node.inputs[2:]:
        if name in constants:
            constants[name] = np.resize(constants[name], (*constants[name].shape[:-1], made))
    values = {
        name: replace(one.values[name], shape=_wide(one.values[name], count)) for name, count in ((x, taken), (y, made))
    }
    attributes = {**node.attributes, "group": taken // weight.shape[1]} if whole else node.attributes
    return replace(one, nodes=(replace(node, attributes=attributes),), constants=constants, values=values)


def _wide(tensor: Tensor, count: int) -> tuple[int | str | None, ...]:
    shape = tensor.shape or ()
    return (*shape[:1], count, *shape[2:])


def _whole(graph: Graph, node: Node) -> bool:
    """Whether a group of channels goes or stays as a whole."""
    groups = int(node.attributes.get("group", 1))
    return groups_go(groups, _channels(graph, node.inputs[0]), _channels(graph, node.outputs[0]))


def _each(graph: Graph, node: Node) -> int:
    """Multiply-adds for one channel in and one out."""
    shape = graph.values[node.outputs[0]].shape or ()
    places = math.prod(size for size in shape[2:] if isinstance(size, int))
    return places * math.prod(graph.constants[node.inputs[1]].shape[2:])


def chosen(
    layers: Sequence[Sized], losses: Mapping[str, Mapping[int, float]], cost: Cost, ratio: float
) -> dict[str, int]:
    """How many classes of each group go, so that at least the share `ratio` of the whole cost goes with them.

    `losses` has for each group the numbers of classes that may go and what the network loses by it. Again and again
    the step is taken that loses least for the cost it takes away, several numbers ahead where the nearest saves little.
    """
    known: dict[tuple[str, int, int], float] = {}

    def costing(layer: Sized, gone: Mapping[str, int]) -> float:
        key = (layer.name, *layer.widths(gone))
        if key not in known:
            known[key] = cost(*key)
        return known[key]

    gone = dict.fromkeys(losses, 0)
    touched = {
        group: [layer for layer in layers if group in layer.fewer_taken or group in layer.fewer_made]
        for group in losses
    }
    whole = now = sum(costing(layer, gone) for layer in layers)
    while now > (1 - ratio) * whole:
        best: tuple[float, float, str, int] | None = None
        for group, table in losses.items():
            before = sum(costing(layer, gone) for layer in touched[group])
            for count, loss in table.items():
                if count <= gone[group]:
                    continue
                saved = before - sum(costing(layer, {**gone, group: count}) for layer in touched[group])
                lost = max(0.0, loss - table[gone[group]])
                if saved > 0 and (best is None or lost / saved < best[0]):
                    best = (lost / saved, saved, group, count)
        if best is None:
            raise Unsupported(
                f"{1 - now / whole:.0%} of the cost can be taken away here, not {ratio:.0%}: every group of channels "
                "keeps some",
                f"prune(cost={math.ceil(now / whole * 20) / 20:g})" if now < 0.95 * whole else None,
            )
        _, saved, group, count = best
        gone[group], now = count, now - saved
    return gone
