"""What becomes of each operator of a model in ncnn.

A model that converts as a whole is supported as a whole. Otherwise, and where layers have no Vulkan kernel, each
distinct operator is converted by itself: pnnx renames and fuses, so its layers cannot be traced back to nodes.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...core.errors import EdgewiseError, EngineFailure, Unavailable, Unsupported
from ...core.types import Device, Model, Tensor, Verdict
from ...model.graph import Graph, Node, graph
from .convert import one_row
from .run import open_net
from .trial import convert, storage

# Constants up to this size are part of what a node is (axes, sizes); of larger ones only the shape counts.
_TELLING = 64
_PLAIN = (int, float, str, bytes, list, np.ndarray)


def verdicts(model: Model, device: Device, precision: str) -> Sequence[Verdict]:
    model = one_row(model)
    whole = graph(model)
    gpu = int(device.name.partition(".")[2]) if device.kind == "gpu" else None
    failure: EdgewiseError | None = None
    try:
        if not _left_to_the_cpu(model, gpu, precision):
            return [Verdict(node.name, node.operator, "supported", device.name) for node in whole.nodes]
    except (Unsupported, EngineFailure) as error:
        failure = error
    seen: dict[str, tuple[str, str]] = {}
    found: list[Verdict] = []
    for node in whole.nodes:
        key = _signature(whole, node)
        if key not in seen:
            seen[key] = _judge(whole, node, gpu, precision)
        verdict, reason = seen[key]
        where = {"supported": device.name, "falls back": "cpu"}.get(verdict, "")
        found.append(Verdict(node.name, node.operator, verdict, where, reason))  # type: ignore[arg-type]
    if failure is not None and all(each.verdict != "rejected" for each in found):
        raise failure  # it is none of the operators by itself
    return found


def _left_to_the_cpu(model: Model, gpu: int | None, precision: str) -> list[str]:
    """Kinds of layers that would run on the CPU instead of the Vulkan device."""
    with tempfile.TemporaryDirectory() as folder:
        net = open_net(Path(convert(model, folder)), storage(precision), gpu)
        return sorted({layer.type for layer in net.layers() if gpu is not None and not layer.support_vulkan})


def _judge(whole: Graph, node: Node, gpu: int | None, precision: str) -> tuple[str, str]:
    known = all(isinstance(value, _PLAIN) for value in node.attributes.values())
    if not known or any(whole.values[name].dtype == "unknown" for name in node.outputs if name in whole.values):
        return "rejected", f"ncnn has no operator {node.operator}"
    with tempfile.TemporaryDirectory() as folder:
        try:
            left = _left_to_the_cpu(_alone(whole, node, Path(folder) / "node.onnx"), gpu, precision)
        except Unavailable:
            raise
        except EdgewiseError as error:
            return "rejected", error.message
    return ("falls back", f"ncnn has no Vulkan kernel for {', '.join(left)}") if left else ("supported", "")


def _alone(whole: Graph, node: Node, path: Path) -> Model:
    import onnx
    from onnx import helper, numpy_helper

    def info(name: str) -> Any:
        value = whole.values.get(name, Tensor(name, "float32", None))
        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(value.dtype)), value.shape)

    used = dict.fromkeys(name for name in node.inputs if name)
    weights = [numpy_helper.from_array(whole.constants[name], name) for name in used if name in whole.constants]
    inputs = [info(name) for name in used if name not in whole.constants]
    outputs = [info(name) for name in node.outputs if name in whole.values]
    plain = {k: numpy_helper.from_array(v) if isinstance(v, np.ndarray) else v for k, v in node.attributes.items()}
    made = helper.make_node(node.operator, node.inputs, node.outputs, domain=node.domain, **plain)
    opsets = [helper.make_opsetid("", whole.opset)] + ([helper.make_opsetid(node.domain, 1)] if node.domain else [])
    proto = helper.make_model(helper.make_graph([made], "node", inputs, outputs, weights), opset_imports=opsets)
    onnx.save(proto, str(path))
    tensors: Mapping[str, Tensor] = whole.values
    quantized = "int8" if node.operator in ("QuantizeLinear", "DequantizeLinear") else "fp32"
    return Model(
        digest="",
        path=str(path),
        inputs=tuple(tensors[name] for name in used if name not in whole.constants),
        outputs=tuple(tensors[name] for name in node.outputs if name in tensors),
        precision=quantized,
        label=node.operator,
    )


def _signature(whole: Graph, node: Node) -> str:
    parts: list[object] = [node.domain, node.operator, sorted((k, str(v)) for k, v in node.attributes.items())]
    for name in node.inputs:
        constant = whole.constants.get(name)
        if constant is None:
            value = whole.values.get(name)
            parts.append((value.dtype, value.shape) if value else None)
        else:
            values = constant.tolist() if constant.dtype.kind in "iub" and constant.size <= _TELLING else None
            parts.append((constant.dtype.name, constant.shape, values))
    return repr(parts)
