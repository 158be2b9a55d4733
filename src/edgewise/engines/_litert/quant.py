"""QuantizeLinear and DequantizeLinear: in a .tflite file a tensor carries its scale, so most of them disappear."""

from __future__ import annotations

import numpy as np

from ...core.errors import Unsupported
from ...model.graph import Node
from .flatbuffer import Quant
from .writer import Writer, operator


@operator("QuantizeLinear")
def quantize(w: Writer, node: Node) -> None:
    x, out = node.inputs[0], node.outputs[0]
    quant = w.steps(node)
    if quant is None or len(quant.scales) != 1:
        raise Unsupported(f"litert has QuantizeLinear to 8 bits with one constant scale only (node {node.name!r})")
    if (array := w.const(x)) is not None:
        # Done here as it would be done there.
        levels = np.rint(array / np.float32(quant.scales[0])) + quant.zeros[0]
        w.constants[out] = levels.clip(-128, 127).astype(np.int8)
        w.scales[out] = quant
        return
    w.quantized = w.in_integers(x)
    order = w.order(x)
    w.put(out, w.requantize(w.take(x, order), quant), order)


@operator("DequantizeLinear")
def dequantize(w: Writer, node: Node) -> None:
    x, out = node.inputs[0], node.outputs[0]
    if node.attributes.get("block_size"):
        raise Unsupported(f"litert has no DequantizeLinear in blocks (node {node.name!r})")
    if x in w.constants:
        _constant(w, node)
    elif w.stored(x) is not None and w.stored(x) == w.steps(node):
        w.alias(out, x)
    else:
        _in_numbers(w, node)


def _constant(w: Writer, node: Node) -> None:
    x, out = node.inputs[0], node.outputs[0]
    array, scale = w.constants[x], w.constants.get(node.inputs[1])
    zero = w.constants.get(node.inputs[2]) if w.given(node, 2) else np.zeros((), array.dtype)
    if scale is None or zero is None or array.dtype.name not in ("int8", "uint8", "int32") or scale.ndim > 1:
        raise Unsupported(f"litert has DequantizeLinear of 8 bits with constant scales only (node {node.name!r})")
    if x in w.scales:
        shift = 0  # a constant that was quantized here lies as int8 already
        zero = zero.astype(np.int64) - (128 if zero.dtype == np.uint8 else 0)
    else:
        shift = 128 if array.dtype == np.uint8 else 0
    stored = (array.astype(np.int16) - shift).astype(np.int8) if shift else array
    scales = tuple(float(each) for each in scale.ravel())
    zeros = tuple(int(each) - shift for each in np.broadcast_to(zero.ravel(), (len(scales),)))
    axis = int(node.attributes.get("axis", 1)) % max(1, array.ndim) if len(scales) > 1 else 0
    w.constants[out], w.scales[out] = stored, Quant(scales, zeros, axis)


def _in_numbers(w: Writer, node: Node) -> None:
    """Integers that come from outside, or are read with another scale than they were made with."""
    x, out = node.inputs[0], node.outputs[0]
    scale, zero = w.need(node, 1), w.need(node, 2) if w.given(node, 2) else np.zeros((), np.int8)
    if scale.size != 1:
        raise Unsupported(f"litert has DequantizeLinear with several scales for constants only (node {node.name!r})")
    w.quantized, order = True, w.order(x)
    slot = w.take(x, order)
    shift = 128 if zero.dtype == np.uint8 and slot.dtype == "int8" else 0
    real = w.step("CAST", slot, dtype="float32", options="Cast")
    if float(zero.reshape(())) != shift:
        real = w.step("SUB", real, w.number(float(zero.reshape(())) - shift, real), options="Sub")
    w.put(out, w.step("MUL", real, w.number(float(scale.reshape(())), real), options="Mul"), order)
