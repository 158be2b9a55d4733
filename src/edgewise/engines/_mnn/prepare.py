"""An ONNX graph as MNN's converter takes it right.

The graph of known sizes is written out again: shapes are computed, so nothing is left to compute them at run time;
defaults are spelled out, because the converter has defaults of its own (a Resize without `mode` becomes linear, a
ReduceL2 without `keepdims` drops its axis); and what it is known to get wrong is put another way or refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ...core.errors import Unsupported
from ...model.graph import Graph, Node
from .forms import FORMS, wrong

_IR_VERSION = 8
# MNN has 32-bit numbers only; wider integers fit or are refused where they come in, wider floats would be cut.
_TYPES = ("float32", "int64", "int32", "int8", "uint8", "bool", "unknown")


def prepared(graph: Graph) -> Graph:
    """The same function in forms the converter gets right; Unsupported, naming the operator, where there is none."""
    for value in graph.values.values():
        if value.dtype not in _TYPES:
            raise Unsupported(f"mnn has no {value.dtype}, and {value.name!r} is of that type")
    if still := [name for name in graph.outputs if name in graph.constants]:
        raise Unsupported(
            f"mnn gives no output that depends on nothing, as {still[0]!r} does with inputs of these sizes"
        )
    constants = dict(graph.constants)
    nodes: list[Node] = []
    for node in graph.nodes:
        if reason := wrong(node, graph):
            raise Unsupported(f"mnn computes {node.operator} wrongly {reason} ({node.name!r})")
        nodes += FORMS[node.operator](node, graph, constants) if node.operator in FORMS else (node,)
    return replace(graph, nodes=tuple(nodes), constants=constants)


def write(graph: Graph, path: Path) -> None:
    """The graph as an ONNX file, every attribute spelled out."""
    import onnx
    from onnx import helper, numpy_helper

    opsets = {"": graph.opset} | {node.domain: 1 for node in graph.nodes if node.domain}
    inputs = [_info(graph.values[name].dtype, name, graph.values[name].shape) for name in graph.inputs]
    outputs = [onnx.ValueInfoProto(name=name) for name in graph.outputs]
    weights = [numpy_helper.from_array(np.ascontiguousarray(array), name) for name, array in graph.constants.items()]
    nodes = [_proto(node, graph.opset) for node in graph.nodes]
    made = helper.make_graph(nodes, "graph", inputs, outputs, weights)
    imports = [helper.make_opsetid(domain, version) for domain, version in opsets.items()]
    onnx.save(helper.make_model(made, opset_imports=imports, ir_version=_IR_VERSION), str(path))


def _info(dtype: str, name: str, shape: Sequence[int | str | None] | None) -> Any:
    from onnx import helper

    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)


def _proto(node: Node, opset: int) -> Any:
    from onnx import helper, numpy_helper

    made = helper.make_node(node.operator, node.inputs, node.outputs, node.name, domain=node.domain)
    for name, value in (_defaults(node, opset) | dict(node.attributes)).items():
        if isinstance(value, list) and not value:
            continue  # no type could be told
        held = numpy_helper.from_array(value) if isinstance(value, np.ndarray) else value
        try:
            made.attribute.append(helper.make_attribute(name, held))
        except (TypeError, ValueError):
            raise Unsupported(f"mnn runs no {node.operator}: its {name!r} is a graph of its own") from None
    return made


def _defaults(node: Node, opset: int) -> dict[str, Any]:
    import onnx

    if node.domain or not onnx.defs.has(node.operator, opset):
        return {}
    schema = onnx.defs.get_schema(node.operator, opset)
    found = {name: attribute.default_value for name, attribute in schema.attributes.items()}
    return {name: onnx.helper.get_attribute_value(value) for name, value in found.items() if value.type}
