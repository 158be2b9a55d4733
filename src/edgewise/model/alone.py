"""Every kind of node of a model as a model of its own, so that it can be tried by itself."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..core.records import from_json, to_json
from ..core.types import Model
from .emit import emit
from .graph import Graph, Node, graph


@dataclass(frozen=True, slots=True)
class Alone:
    """The file of one node; `nodes` are all those that differ from it in name and weights only."""

    path: str
    operator: str
    nodes: tuple[str, ...]


def alone_of(model: Mapping[str, Any], folder: str) -> Any:
    """For a worker: files into `folder`, one for each kind of node; as JSON."""
    found = graph(from_json(Model, model))
    kinds: dict[str, list[Node]] = {}
    for node in found.nodes:
        kinds.setdefault(_signature(found, node), []).append(node)
    made = []
    for number, nodes in enumerate(kinds.values()):
        path = str(Path(folder) / f"{number:03}-{nodes[0].operator}.onnx")
        _write(found, nodes[0], path)
        made.append(Alone(path, nodes[0].operator, tuple(node.name for node in nodes)))
    return to_json(made)


def _signature(found: Graph, node: Node) -> str:
    """What a kernel is chosen by: the operator, its settings, the types and sizes of what goes in.

    A constant that is data (weights) may differ; one that is a setting (axes, a target shape) is small, and may not.
    """
    parts: list[object] = [node.domain, node.operator]
    parts += [(name, np.asarray(value).tolist()) for name, value in sorted(node.attributes.items())]
    for name in node.inputs:
        if name in found.constants:
            array = found.constants[name]
            parts.append((array.dtype.name, array.shape, array.tolist() if array.dtype.kind in "iu" else None))
        elif name:
            parts.append((found.values[name].dtype, found.values[name].shape))
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def _write(found: Graph, node: Node, path: str) -> None:
    given = dict.fromkeys(name for name in node.inputs if name and name not in found.constants)
    made = [found.values[name] for name in node.outputs if name in found.values]
    model = emit([node], found.constants, [found.values[name] for name in given], made, found.opset, "alone")
    Path(path).write_bytes(model.SerializeToString())
