"""Networks of full size whose weights have shapes, but no values: a hundred times as fast to build."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from edgewise.zoo import layers
from edgewise.zoo.moments import Moments


def draw_outlines(monkeypatch: pytest.MonkeyPatch) -> None:
    def filters(_: Any, into: Moments, out: int, taps: int, groups: int, *__: Any) -> Any:
        return np.broadcast_to(np.float32(0), (out, len(into.mean) // groups, taps)), np.zeros(out)

    def constant(net: layers.Net, name: str, value: Any) -> str:
        kind = onnx.helper.np_dtype_to_tensor_dtype(value.dtype)
        data = value.tobytes() if value.dtype == np.int64 else b""  # shapes follow from the whole numbers
        net.graph.initializer.append(onnx.TensorProto(name=name, data_type=kind, dims=value.shape, raw_data=data))
        return name

    monkeypatch.setattr(layers, "filters", filters)
    monkeypatch.setattr(layers.Net, "constant", constant)


def parameters(model: Any) -> int:
    """As the network has them: two per normalized channel."""
    return int({prop.key: prop.value for prop in model.metadata_props}["parameters"])


def multiply_adds(model: Any) -> int:
    """Of convolutions and linear layers, for one image."""
    inferred = onnx.shape_inference.infer_shapes(model).graph
    shapes = {t.name: list(t.dims) for t in inferred.initializer}
    for value in (*inferred.value_info, *inferred.output):
        shapes[value.name] = [dim.dim_value or 1 for dim in value.type.tensor_type.shape.dim]
    total = 0
    for node in inferred.node:
        assert node.op_type != "MatMul"
        if node.op_type in ("Conv", "Gemm"):
            places = shapes[node.output[0]][2:]
            total += int(np.prod(shapes[node.input[1]]) * np.prod(places, dtype=np.int64))
    return total
