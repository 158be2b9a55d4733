"""Networks of full size whose weights have shapes, but no values: a hundred times as fast to build."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx
import pytest

from edgewise.zoo import layers, tokens
from edgewise.zoo.moments import Moments

# Shapes follow from small constants: the target of a Reshape, the factors of a Resize.
_TELLING_ELEMENTS = 8


def draw_zeros(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights of full size that nobody had to draw."""

    def filters(_: Any, into: Moments, out: int, taps: int, groups: int, *__: Any) -> Any:
        return np.broadcast_to(np.float32(0), (out, len(into.mean) // groups, taps)), np.zeros(out)

    monkeypatch.setattr(layers, "filters", filters)
    monkeypatch.setattr(tokens, "filters", filters)


def draw_outlines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights that have a shape only."""
    draw_zeros(monkeypatch)

    def constant(net: layers.Net, name: str, value: Any) -> str:
        kind = onnx.helper.np_dtype_to_tensor_dtype(value.dtype)
        data = value.tobytes() if value.size <= _TELLING_ELEMENTS else b""
        net.graph.initializer.append(onnx.TensorProto(name=name, data_type=kind, dims=value.shape, raw_data=data))
        return name

    monkeypatch.setattr(layers.Net, "constant", constant)


def parameters(model: Any) -> int:
    """As the network has them: two per normalized channel."""
    return int({prop.key: prop.value for prop in model.metadata_props}["parameters"])


def multiply_adds(model: Any) -> int:
    """Of convolutions, linear layers and matrix products, for one image."""
    inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True).graph
    shapes = {tensor.name: list(tensor.dims) for tensor in inferred.initializer}
    for value in (*inferred.input, *inferred.value_info, *inferred.output):
        shapes[value.name] = [dim.dim_value or 1 for dim in value.type.tensor_type.shape.dim]
    total = 0
    for node in inferred.node:
        out = shapes[node.output[0]]
        if node.op_type in ("Conv", "Gemm"):
            total += math.prod(shapes[node.input[1]]) * math.prod(out[2:])
        elif node.op_type == "MatMul":
            total += math.prod(out) * shapes[node.input[0]][-1]
    return total
