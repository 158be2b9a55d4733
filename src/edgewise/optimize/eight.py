"""A few layers as they run when quantized, with made-up ranges: for timing only."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..core.types import Tensor
from ..model.graph import Array, Graph, Node

_LAYERS = ("Conv", "Gemm", "MatMul")
_OPSET = 17


def eight(graph: Graph) -> Graph:
    """In and out in 8 bits, each layer between conversions, as engines want it to find their kernels."""
    nodes: list[Node] = []
    constants: dict[str, Array] = {
        "scale": np.array(0.05, np.float32),
        "middle": np.array(128, np.uint8),
        "zero": np.array(0, np.int8),
    }
    values = dict(graph.values)
    floats: dict[str, str] = {}
    given, made = [], []

    def widened(name: str) -> None:
        """From 8 bits to floats."""
        floats[name] = f"{name}.float"
        nodes.append(_node("DequantizeLinear", (f"{name}.eight", "scale", "middle"), floats[name]))

    for name in graph.inputs:
        values[f"{name}.eight"] = Tensor(f"{name}.eight", "uint8", graph.values[name].shape)
        given.append(f"{name}.eight")
        widened(name)
    for node in graph.nodes:
        inputs = []
        for place, name in enumerate(node.inputs):
            if name in graph.constants and place == 1 and node.operator in _LAYERS:
                constants[f"{name}.eight"] = np.clip(np.rint(graph.constants[name] * 20), -127, 127).astype(np.int8)
                nodes.append(_node("DequantizeLinear", (f"{name}.eight", "scale", "zero"), f"{name}.float"))
                inputs.append(f"{name}.float")
            else:
                inputs.append(floats.get(name, name))
        nodes.append(replace(node, inputs=tuple(inputs)))
        for name in node.outputs:
            nodes.append(_node("QuantizeLinear", (name, "scale", "middle"), f"{name}.eight"))
            if name in graph.outputs:
                values[f"{name}.eight"] = Tensor(f"{name}.eight", "uint8", graph.values[name].shape)
                made.append(f"{name}.eight")
            else:
                widened(name)
    whole = {**graph.constants, **constants}
    return Graph(tuple(nodes), whole, values, tuple(given), tuple(made), max(graph.opset, _OPSET))


def _node(operator: str, inputs: tuple[str, ...], output: str) -> Node:
    return Node(output, operator, inputs, (output,), {})
