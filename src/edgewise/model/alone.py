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
    import onnx
    from onnx import helper, numpy_helper

    attributes = {
        name: numpy_helper.from_array(value) if isinstance(value, np.ndarray) else value
        for name, value in node.attributes.items()
    }
    proto = helper.make_node(node.operator, node.inputs, node.outputs, node.name, domain=node.domain, **attributes)
    given = dict.fromkeys(name for name in node.inputs if name)
    inputs = [_info(found, name) for name in given if name not in found.constants]
    weights = [numpy_helper.from_array(found.constants[name], name) for name in given if name in found.constants]
    outputs = [_info(found, name) for name in node.outputs if name in found.values]
    opsets = [helper.make_opsetid("", found.opset)]
    if node.domain:
        opsets.append(helper.make_opsetid(node.domain, 1))
    made = helper.make_model(helper.make_graph([proto], "alone", inputs, outputs, weights), opset_imports=opsets)
    made.ir_version = min(made.ir_version, 10)
    onnx.save(made, path)


def _info(found: Graph, name: str) -> Any:
    from onnx import helper

    value = found.values[name]
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(value.dtype)), value.shape)
