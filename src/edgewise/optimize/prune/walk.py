"""A network run piece by piece: every node once, and a value kept only while somebody still needs it.

Layers that are changed one after the other, each to fit what the ones before it now make, would otherwise be run
again from the start for every layer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from ...model.graph import Array, Graph, Node
from ..observe import Observe, observer

# Of all values kept at one time; more samples than fit are left out.
_LARGEST_BYTES = 6 << 30


def needed(nodes: Sequence[Node], names: Iterable[str]) -> list[Node]:
    """Those that `names` depend on, in order."""
    wanted, kept = set(names), []
    for node in reversed(nodes):
        if wanted.intersection(node.outputs):
            kept.append(node)
            wanted.update(node.inputs)
    return kept[::-1]


def fed(graph: Graph, observe: Observe) -> dict[str, Array]:
    """The inputs themselves, all samples of them: as many as the largest values inside leave room for."""
    seen = {name: f"{name}.seen" for name in graph.inputs}
    nodes = tuple(Node(made, "Identity", (name,), (made,), {}) for name, made in seen.items())
    values = {made: replace(graph.values[name], name=made) for name, made in seen.items()}
    asked = replace(graph, nodes=nodes, values={**graph.values, **values}, outputs=tuple(seen.values()))
    batches = list(observe(asked, list(seen.values())))
    whole = {name: np.concatenate([batch[made] for batch in batches]) for name, made in seen.items()}
    sizes = [tensor.shape for tensor in graph.values.values() if tensor.shape]
    sample = max(int(np.prod([size for size in shape[1:] if isinstance(size, int)])) for shape in sizes)
    # Three of the largest: what a layer takes, what goes around it, and what comes out.
    most = max(1, _LARGEST_BYTES // (3 * 4 * sample))
    return {name: array[:most] for name, array in whole.items()}


def joined(batches: Iterable[Mapping[str, Array]], count: int) -> dict[str, Array]:
    """All samples of each value, most likely `count` of them: put into one array batch by batch, because these are so
    large that having them twice takes longer than computing them."""
    found: dict[str, Array] = {}
    ends: dict[str, int] = {}
    for batch in batches:
        for name, array in batch.items():
            begin = ends.get(name, 0)
            end = ends[name] = begin + len(array)
            if name not in found:
                found[name] = np.empty((max(count, end), *array.shape[1:]), array.dtype)
            elif end > len(found[name]):
                more = np.empty((2 * end, *array.shape[1:]), array.dtype)
                more[:begin] = found[name][:begin]
                found[name] = more
            found[name][begin:end] = array
    return {name: array[: ends[name]] for name, array in found.items()}


class Walk:
    """Goes through a graph from its inputs on; the nodes it has passed must not change any more."""

    def __init__(self, samples: Mapping[str, Array]) -> None:
        self._live: dict[str, Array] = dict(samples)
        self._passed: set[str] = set()

    def at(self, graph: Graph, names: Sequence[str]) -> Mapping[str, Array]:
        """The values of `names`, all samples of each."""
        ahead = [node for node in graph.nodes if node.name not in self._passed]
        run = needed(ahead, [name for name in names if name not in self._live])
        self._passed.update(node.name for node in run)
        later = {name for node in graph.nodes if node.name not in self._passed for name in node.inputs}
        made = {name for node in run for name in node.outputs}
        wanted = sorted(made.intersection((*names, *later, *graph.outputs)))
        if wanted:
            taken = {name for node in run for name in node.inputs if name in self._live}
            part = replace(graph, nodes=tuple(run), inputs=tuple(sorted(taken)), outputs=tuple(wanted))
            given = {name: self._live[name] for name in taken}
            self._live |= joined(observer(given)(part, wanted), max(map(len, given.values())))
        found = {name: self._live[name] for name in names}
        self._live = {name: array for name, array in self._live.items() if name in later or name in graph.outputs}
        return found
