"""Layers in float between layers in 8 bits.

The quantizer leaves a layer out by leaving its weights as they are; what the layer takes has still been through 8 bits,
since whoever made it was quantized. Here the layer is given it as it was before. That costs its maker the 8-bit kernel
in engines whose kernels give 8 bits only (ONNX Runtime's do): a layer kept is often two that run in float.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

_ACTIVATIONS = ("Relu", "Clip")


def free(source: Path, target: Path, keep: Collection[str]) -> None:
    """In `target`, made of `source`, the nodes called `keep` take floats that were never quantized."""
    import onnx

    proto, plain = onnx.load(str(target)), onnx.load(str(source))
    makers = _makers(proto)
    for node in [node for node in proto.graph.node if node.name in keep]:
        before = _before(node.input[0], makers)
        if before is not None:
            node.input[0] = _activated(before, proto, plain, node)
    for kind in ("DequantizeLinear", "QuantizeLinear"):
        read = {name for node in proto.graph.node for name in node.input} | {value.name for value in proto.graph.output}
        for node in [node for node in proto.graph.node if node.op_type == kind and node.output[0] not in read]:
            proto.graph.node.remove(node)
    onnx.save(proto, str(target))


def _makers(proto: Any) -> dict[str, Any]:
    return {name: node for node in proto.graph.node for name in node.output}


def _before(name: str, makers: dict[str, Any]) -> str | None:
    """What was quantized to what has this name; None where nothing was."""
    wide = makers.get(name)
    narrow = makers.get(wide.input[0]) if wide is not None and wide.op_type == "DequantizeLinear" else None
    return str(narrow.input[0]) if narrow is not None and narrow.op_type == "QuantizeLinear" else None


def _activated(name: str, proto: Any, plain: Any, reader: Any) -> str:
    """The value called so in `plain`. Where an activation made it there, the quantizer has left that to the ends of the
    range, and it is put in by itself."""
    import onnx

    once, now = _makers(plain).get(name), _makers(proto)
    if once is None or once.op_type not in _ACTIVATIONS or now[name].op_type == once.op_type:
        return name
    made = f"{name}/float"
    if made not in now:
        own = onnx.NodeProto()
        own.CopyFrom(once)
        own.name, own.input[0], own.output[0] = made, name, made
        proto.graph.node.insert(list(proto.graph.node).index(reader), own)
        there = {tensor.name for tensor in proto.graph.initializer}
        wanted = set(own.input[1:]) - there
        proto.graph.initializer.extend(tensor for tensor in plain.graph.initializer if tensor.name in wanted)
    return made
