"""Nodes of a graph back to an ONNX file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..core.types import Tensor
from .graph import Array, Node

# Engines lag behind: a file is not called newer than it needs to be.
_IR_VERSION = 10


def emit(
    nodes: Sequence[Node],
    constants: Mapping[str, Array],
    inputs: Sequence[Tensor],
    outputs: Sequence[Tensor],
    opset: int,
    name: str = "part",
) -> Any:
    """A ModelProto; of the constants, those that are used."""
    from onnx import helper, numpy_helper

    used = dict.fromkeys(each for node in nodes for each in node.inputs if each in constants)
    opsets = [helper.make_opsetid("", opset)]
    opsets += [helper.make_opsetid(domain, 1) for domain in dict.fromkeys(n.domain for n in nodes) if domain]
    graph = helper.make_graph(
        [_proto(node) for node in nodes],
        name,
        [_info(tensor) for tensor in inputs],
        [_info(tensor) for tensor in outputs],
        [numpy_helper.from_array(np.asarray(constants[each], order="C"), each) for each in used],
    )
    model = helper.make_model(graph, opset_imports=opsets)
    model.ir_version = min(model.ir_version, _IR_VERSION)
    return model


def _proto(node: Node) -> Any:
    from onnx import helper, numpy_helper

    attributes = {
        name: numpy_helper.from_array(value) if isinstance(value, np.ndarray) else value
        for name, value in node.attributes.items()
    }
    return helper.make_node(node.operator, node.inputs, node.outputs, node.name, domain=node.domain, **attributes)


def _info(tensor: Tensor) -> Any:
    from onnx import helper

    return helper.make_tensor_value_info(
        tensor.name, helper.np_dtype_to_tensor_dtype(np.dtype(tensor.dtype)), tensor.shape
    )
