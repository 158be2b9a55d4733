"""A split written into the graph itself: what a tool has to do that cannot let parts share memory.

Every operator that is shared out stands there once for each part, joined by Concat where somebody needs all of it, cut
by Slice where a part needs some of what is whole. Engines are asked about these operators too.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ...core.records import from_json
from ...core.text import parse_placement
from ...core.types import Model
from ...model.emit import emit
from ...model.graph import Array, Graph, Node, graph
from .executable import asked
from .plan import Edges, Work, plan, scaled
from .rules import Cut, Own, Sized


def write(model: dict[str, Any], placement: str, path: str) -> str:
    """The model as this placement cuts it, as one file at `path`."""
    place = parse_placement(placement)
    shares = [part.share or 1.0 / len(place.parts) for part in place.parts]
    found = graph(from_json(Model, model))
    writer = _Writer(found)
    axis, _ = asked(place)
    made = plan(found, [shares], "inputs" if axis == "inputs" else "channels")
    worked = {work.node.name: work for work in made.works}
    for node in made.graph.nodes if made.sums else found.nodes:
        # One that nobody works on moves no data, and is written as it is.
        writer.take(worked.get(node.name) or Work(node, 0, None, None))
    for name in found.outputs:
        writer.whole(name)
    inputs, outputs = ([found.values[name] for name in names] for names in (found.inputs, found.outputs))
    proto = emit(writer.nodes, writer.constants, inputs, outputs, found.opset, "split")
    Path(path).write_bytes(proto.SerializeToString())
    return path


@dataclass
class _Writer:
    graph: Graph
    nodes: list[Node] = field(default_factory=list)
    constants: dict[str, Array] = field(default_factory=dict)
    # Values that are there in parts: where they are cut; and those of them that have been joined since.
    cuts: dict[str, Edges] = field(default_factory=dict)
    joined: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.constants.update(self.graph.constants)

    def take(self, work: Work) -> None:
        node, edges = work.node, work.edges
        if edges is None or work.rule is None:
            self.nodes.append(replace(node, inputs=tuple(self.whole(name) for name in node.inputs)))
            return
        for part, (begin, end) in enumerate(itertools.pairwise(edges)):
            if begin == end or work.only not in (None, part):
                continue
            inputs = []
            for name, take in zip(node.inputs, work.rule.takes, strict=True):
                if name and isinstance(take, Cut):
                    inputs.append(self._constant(name, take.axis, begin, end))
                elif name and isinstance(take, Sized):
                    sizes = self.graph.constants[name].copy()
                    sizes[1] = end - begin
                    inputs.append(self._keep(f"{name}[{end - begin}]", sizes))
                elif name and isinstance(take, Own):
                    inputs.append(self._own(name, scaled(edges, take), part))
                else:
                    inputs.append(self.whole(name))
            attributes = work.rule.attributes(node.attributes, begin, end)
            made = replace(
                node,
                name=f"{node.name}.{part}",
                inputs=tuple(inputs),
                outputs=(f"{node.outputs[0]}.{part}" if work.only is None else node.outputs[0],),
                attributes=attributes,
            )
            self.nodes.append(made)
        if work.only is None:
            self.cuts[node.outputs[0]] = edges

    def whole(self, name: str) -> str:
        if name in self.cuts and name not in self.joined:
            edges = self.cuts[name]
            parts = [f"{name}.{i}" for i, (a, b) in enumerate(itertools.pairwise(edges)) if b > a]
            self.nodes.append(Node(f"{name}.join", "Concat", tuple(parts), (name,), {"axis": 1}))
            self.joined.add(name)
        return name

    def _own(self, name: str, edges: Edges, part: int) -> str:
        if name in self.graph.constants:
            return name
        if self.cuts.get(name) == edges:
            return f"{name}.{part}"
        begin, end = edges[part], edges[part + 1]
        made = f"{name}[{begin}:{end}]"
        if not any(made in node.outputs for node in self.nodes):
            ends = [self._keep(f"{made}.{what}", np.array([at], np.int64)) for what, at in self._ends(begin, end)]
            self.nodes.append(Node(f"{made}.cut", "Slice", (self.whole(name), *ends), (made,), {}))
        return made

    def _ends(self, begin: int, end: int) -> Sequence[tuple[str, int]]:
        return (("begin", begin), ("end", end), ("axis", 1))

    def _constant(self, name: str, axis: int, begin: int, end: int) -> str:
        where = (slice(None),) * axis + (slice(begin, end),)
        return self._keep(f"{name}[{':, ' * axis}{begin}:{end}]", self.graph.constants[name][where])

    def _keep(self, name: str, array: Array) -> str:
        self.constants[name] = array
        return name
