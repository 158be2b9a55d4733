"""Nodes of a graph as a model of their own: what they read from others, and what others read of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from ...core.errors import Unsupported
from ...core.types import Model, Placement, Tensor
from ...model.emit import emit
from ...model.graph import Graph, nested
from ...model.work import Uncountable, work


@dataclass(frozen=True)
class Whole:
    """A graph that can be cut, with who reads and makes what; nodes are known by their place in its order."""

    graph: Graph

    def __post_init__(self) -> None:
        for node in self.graph.nodes:
            if nested(node):
                raise Unsupported(f"{node.name!r} ({node.operator}) has graphs inside, which this version does not cut")

    @cached_property
    def maker(self) -> dict[str, int]:
        return {name: place for place, node in enumerate(self.graph.nodes) for name in node.outputs if name}

    @cached_property
    def readers(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for place, node in enumerate(self.graph.nodes):
            for name in dict.fromkeys(node.inputs):
                if name and name not in self.graph.constants:
                    found.setdefault(name, []).append(place)
        return found

    @cached_property
    def multiply_adds(self) -> list[int]:
        """Of each node; what cannot be counted counts nothing. An engine's own form of an operator (blocked, with an
        activation in it) multiplies as much as the one ONNX has under the same name."""
        sizes = {name: tuple(array.shape) for name, array in self.graph.constants.items()}
        for name, value in self.graph.values.items():
            if (shape := _shape(value)) is not None:
                sizes[name] = shape
        found = []
        for node in self.graph.nodes:
            try:
                plain = replace(node, operator=node.operator.removeprefix("Fused"), domain="")
                found.append(work(plain, sizes).multiply_adds)
            except Uncountable:
                found.append(0)
        return found

    def size(self, name: str) -> int | None:
        """Of a value, in bytes; None where it has no place that could be told beforehand."""
        value = self.graph.values.get(name)
        shape = _shape(value) if value else None
        if value is None or shape is None:
            return None
        try:
            return math.prod(shape) * np.dtype(value.dtype).itemsize
        except TypeError:
            return None

    def takes(self, nodes: Iterable[int]) -> list[str]:
        """What these nodes read and do not make."""
        own = set(nodes)
        read = dict.fromkeys(name for place in sorted(own) for name in self.graph.nodes[place].inputs if name)
        return [n for n in read if n not in self.graph.constants and self.maker.get(n, -1) not in own]

    def gives(self, nodes: Iterable[int]) -> list[str]:
        """What these nodes make and others read, or the model answers."""
        own, answers = set(nodes), set(self.graph.outputs)
        made = [name for place in sorted(own) for name in self.graph.nodes[place].outputs if name]
        return [n for n in made if n in answers or any(place not in own for place in self.readers.get(n, ()))]


def _shape(value: Tensor) -> tuple[int, ...] | None:
    if value.shape is None or not all(isinstance(size, int) for size in value.shape):
        return None
    return tuple(size for size in value.shape if isinstance(size, int))


def piece(whole: Whole, model: Model, nodes: Sequence[int], path: Path) -> Model:
    """These nodes, written to `path`; the record says what goes in and out."""
    graph = whole.graph
    takes, gives = whole.takes(nodes), whole.gives(nodes)
    open_ = [name for name in (*takes, *gives) if whole.size(name) is None]
    if open_:
        raise Unsupported(
            f"the size or type of {open_[0]!r} is not known before it is computed, so it cannot be handed over"
        )
    inputs, outputs = ([graph.values[name] for name in names] for names in (takes, gives))
    made = emit([graph.nodes[n] for n in sorted(nodes)], graph.constants, inputs, outputs, graph.opset, path.stem)
    path.write_bytes(made.SerializeToString())
    return Model(
        digest=f"{model.digest}-{path.stem}",
        path=str(path),
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        precision=model.precision,
        label=f"{path.stem} of {model.label}",
    )


def same_file(parts: Sequence[tuple[Model, tuple[int, ...]]], placement: Placement) -> Model:
    """The one model that all targets load, or why it cannot be cut."""
    model = parts[0][0]
    deal = "deal its frames: --on 'deal(" + ", ".join(map(str, placement.targets)) + ")'"
    if placement.cut:
        raise Unsupported(
            f"this version keeps no cuts, so there is no {placement.cut} to be found",
            f"leave out cut=@{placement.cut}: without it costs are measured, or give shares",
        )
    if len({each.digest for each, _ in parts}) > 1:
        raise Unsupported(
            f"{placement.kind} takes targets that load the same file: all in int8, or none",
            deal,
        )
    if Path(model.path).suffix != ".onnx":
        raise Unsupported(f"{Path(model.path).name} is not an ONNX file, and {placement.kind} cuts those", deal)
    if model.precision == "int8":
        raise Unsupported(f"{model.label} is quantized, and this version cuts float models", deal)
    return model
