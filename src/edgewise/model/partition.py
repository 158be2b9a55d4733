"""A graph cut where the device changes: the pieces, what each does, and what crosses between them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..core.records import from_json, to_json
from ..core.support import Partition
from ..core.types import Model
from .cost import cost
from .graph import Graph, Node, graph


def partition_of(model: Mapping[str, Any], where: Mapping[str, str]) -> Any:
    """For a worker: a Model whose input sizes are known and the device of each node; its Partitions as JSON."""
    described = from_json(Model, model)
    multiply_adds = {node.name: node.multiply_adds for node in cost(described).nodes}
    return to_json(partitions(graph(described), where, multiply_adds))


def partitions(found: Graph, where: Mapping[str, str], multiply_adds: Mapping[str, int | None]) -> list[Partition]:
    """In the order they run. A node nobody was asked about (a view, a constant's form) goes wherever it is needed."""
    starts = dict.fromkeys(where.values()) or {"": None}
    pieces = min((_taken(found, where, device) for device in starts), key=len)
    return [
        Partition(
            device,
            tuple(node.name for node in nodes),
            _sum([multiply_adds.get(node.name, 0) for node in nodes]),
            _entering(found, nodes),
        )
        for device, nodes in pieces
    ]


def _taken(found: Graph, where: Mapping[str, str], device: str) -> list[tuple[str, list[Node]]]:
    """Everything `device` can run, then everything the next one can, until nothing is left.

    A device that waits gains nothing by stopping early, so with two devices the better of the two beginnings has as
    few pieces as any order. With more, the next one is the one with the most to do, which is a good guess.
    """
    waiting = list(found.nodes)
    makers = {name for node in found.nodes for name in node.outputs if name}
    made: set[str] = set()
    pieces: list[tuple[str, list[Node]]] = []
    while waiting:
        taken, left = _able(waiting, where, device, makers, made)
        if taken:
            pieces.append((device, taken))
            made |= {name for node in taken for name in node.outputs}
        waiting = left
        others = dict.fromkeys(where.get(node.name, device) for node in waiting)
        device = max(others, key=lambda each: len(_able(waiting, where, each, makers, made)[0]), default=device)
    return pieces


def _able(
    waiting: Sequence[Node], where: Mapping[str, str], device: str, makers: set[str], made: set[str]
) -> tuple[list[Node], list[Node]]:
    """Nodes of `device` that need nothing from another one that is not made yet, and the rest."""
    taken: list[Node] = []
    left: list[Node] = []
    here = set(made)
    for node in waiting:
        if where.get(node.name, device) == device and all(name in here for name in node.inputs if name in makers):
            taken.append(node)
            here.update(node.outputs)
        else:
            left.append(node)
    return taken, left


def _entering(found: Graph, nodes: Sequence[Node]) -> int | None:
    """Bytes of what other pieces made; the model's own inputs and constants cross nothing."""
    made = {name for node in nodes for name in node.outputs}
    read = {name for node in nodes for name in node.inputs}
    return _sum([_bytes(found, name) for name in read - made - {*found.inputs, *found.constants, ""}])


def _bytes(found: Graph, name: str) -> int | None:
    value = found.values.get(name)
    if value is None or value.shape is None or not all(isinstance(size, int) for size in value.shape):
        return None
    try:
        width = np.dtype(value.dtype).itemsize
    except TypeError:
        return None
    return math.prod(size for size in value.shape if isinstance(size, int)) * width


def _sum(values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None
