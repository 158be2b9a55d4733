"""Products of matrices, normalization, softmax, and what reduces axes."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ...core.errors import Unsupported
from ...core.protocols import Array
from ...model.graph import Node
from .conv import float_bias, integer_bias, weights_in_integers
from .flatbuffer import Quant, Slot
from .layout import Order, plain, with_last, without
from .math import UNIT
from .writer import Emit, Writer, attribute, operator


def _dense(w: Writer, node: Node, x: Slot, weights: Slot, bias: Slot, shape: Sequence[int]) -> Slot:
    return w.step(
        "FULLY_CONNECTED", x, weights, bias, shape=shape, quant=w.goal, options="FullyConnected",
        keepNumDims=len(shape) != 2, fusedActivationFunction=w.activation(node),
    )  # fmt: skip


def _dense_weights(w: Writer, node: Node, x: Slot, array: Array, transpose: bool) -> tuple[Slot, Slot]:
    """Weights as [out, in], and a bias."""
    name = node.inputs[1]
    laid = array.T if transpose else array
    if w.quantized and x.quant is not None:
        scales = w.scales[name]
        quant = Quant(scales.scales, scales.zeros)
        bias = integer_bias(w, node, x.quant, scales, laid.shape[0])
        return w.weights(name, laid, (name, "dense", transpose, "stored"), quant), bias
    return w.weights(name, laid, (name, "dense", transpose)), float_bias(w, node, laid.shape[0])


def _gemm_fits(w: Writer, node: Node) -> bool:
    scaled = attribute(node, "alpha", 1.0) != 1 or (w.given(node, 2) and attribute(node, "beta", 1.0) != 1)
    axis = 0 if attribute(node, "transB", 0) else 1
    if scaled or not w.in_integers(node.inputs[0]) or weights_in_integers(w, node.inputs[1], axis) is None:
        return False
    bias = w.const(node.inputs[2]) if w.given(node, 2) else np.zeros(1)
    return bias is not None and bias.size in (1, w.shape(node.outputs[0])[1])


@operator("Gemm", int8="free", fits=_gemm_fits)
def gemm(w: Writer, node: Node) -> None:
    a, b = node.inputs[:2]
    order = (1, 0) if attribute(node, "transA", 0) else (0, 1)
    x, shape = w.take(a, order), w.shape(node.outputs[0])
    alpha, beta = attribute(node, "alpha", 1.0), attribute(node, "beta", 1.0)
    array = w.constants[b] if w.quantized else w.const(b)
    bias = w.const(node.inputs[2]) if w.given(node, 2) else np.zeros(1, np.float32)
    simple = bias is not None and bias.size in (1, shape[1]) and (bias.ndim == 0 or bias.shape[-1] == bias.size)
    if array is not None and simple and bias is not None:
        if not w.quantized and (alpha != 1 or beta != 1 or bias.size != shape[1]):
            array = array if alpha == 1 else array * np.float32(alpha)
            laid = array if attribute(node, "transB", 0) else array.T
            full = np.broadcast_to(bias.reshape(-1) * np.float32(beta), (shape[1],))
            weights = w.file.constant(f"{node.name}/weights", laid)
            made = _dense(w, node, x, weights, w.file.constant(f"{node.name}/bias", full), shape)
        else:
            made = _dense(w, node, x, *_dense_weights(w, node, x, array, not attribute(node, "transB", 0)), shape)
        w.put(node.outputs[0], made)
        return
    made = w.step(
        "BATCH_MATMUL", x, w.take(b), shape=shape, options="BatchMatMul", adjY=bool(attribute(node, "transB", 0))
    )
    if alpha != 1:
        made = w.step("MUL", made, w.number(alpha, made), options="Mul")
    if w.given(node, 2):
        added = w.spread(node.inputs[2], 2, (0, 1))
        if beta != 1:
            added = w.step("MUL", added, w.number(beta, added), options="Mul")
        made = w.step("ADD", made, added, options="Add")
    if code := w.activation(node):
        made = w.step({1: "RELU", 2: "RELU_N1_TO_1", 3: "RELU6"}[code], made)
    w.put(node.outputs[0], made)


def _matmul_fits(w: Writer, node: Node) -> bool:
    a, b = node.inputs[:2]
    if b in w.constants:
        return w.in_integers(a) and w.constants[b].ndim == 2 and weights_in_integers(w, b, 1) is not None
    return w.in_integers(a) and w.in_integers(b) and a not in w.constants and min(len(w.shape(a)), len(w.shape(b))) > 1


@operator("MatMul", int8="free", fits=_matmul_fits)
def matmul(w: Writer, node: Node) -> None:
    a, b = node.inputs[:2]
    shape = w.shape(node.outputs[0])
    array = w.constants.get(b) if w.quantized else w.const(b)
    rank = len(w.shape(a))
    if array is not None and array.ndim == 2 and rank > 1 and a not in w.constants:
        # The product leaves all axes but the last where they are.
        order = with_last(w.order(a), rank - 1)
        x = w.take(a, order)
        weights, bias = _dense_weights(w, node, x, array, transpose=True)
        w.put(node.outputs[0], _dense(w, node, x, weights, bias, [*x.shape[:-1], shape[-1]]), order)
        return
    left, adj_x = _matrix(w, a, (1, *w.shape(a)) if rank == 1 else None)
    right, adj_y = _matrix(w, b, (*w.shape(b), 1) if len(w.shape(b)) == 1 else None)
    ends = (left.shape[-1 if adj_x else -2], right.shape[-2 if adj_y else -1])
    whole = (*np.broadcast_shapes(left.shape[:-2], right.shape[:-2]), *ends)
    made = w.step("BATCH_MATMUL", left, right, shape=whole, quant=w.goal, options="BatchMatMul", adjX=adj_x, adjY=adj_y)
    w.put(node.outputs[0], w.reshape(made, shape))


def _matrix(w: Writer, name: str, wide: tuple[int, ...] | None) -> tuple[Slot, bool]:
    """An operand of a product, and whether it lies transposed."""
    if wide is not None:
        return w.reshape(w.take(name), wide), False
    rank = len(w.shape(name))
    swapped = (*range(rank - 2), rank - 1, rank - 2)
    if name not in w.constants and w.order(name) == swapped:
        return w.take(name, swapped), True
    return w.take(name), False


@operator(
    "Softmax",
    "LogSoftmax",
    int8="fixed",
    fits=lambda w, node: node.operator == "Softmax" and w.in_integers(node.inputs[0]),
)
def softmax(w: Writer, node: Node) -> None:
    x, out = node.inputs[0], node.outputs[0]
    shape = w.shape(x)
    old = w.graph.opset < 13
    axis = attribute(node, "axis", 1 if old else -1) % max(1, len(shape))
    kind = "SOFTMAX" if node.operator == "Softmax" else "LOG_SOFTMAX"
    fields: dict[str, Any] = {"options": "Softmax", "beta": 1.0} if kind == "SOFTMAX" else {"options": "LogSoftmax"}
    quant = UNIT if w.quantized else None
    if old and prod(shape[axis + 1 :]) != 1:
        # Until opset 13 it ran over everything from `axis` on, as one.
        flat = w.reshape(w.take(x), (prod(shape[:axis]), prod(shape[axis:])))
        w.put(out, w.reshape(w.step(kind, flat, quant=quant, **fields), shape))
        return
    order = with_last(w.order(x), axis)
    w.put(out, w.step(kind, w.take(x, order), quant=quant, **fields), order)
    if kind == "SOFTMAX":
        w.nonnegative.add(out)


def _mean(w: Writer, x: Slot, places: Sequence[int]) -> Slot:
    shape = [1 if place in places else size for place, size in enumerate(x.shape)]
    return w.step("MEAN", x, w.ints(places), shape=shape, options="Reducer", keepDims=True)


def _normalized(w: Writer, x: Slot, places: Sequence[int], epsilon: float) -> Slot:
    mean = _mean(w, x, places)
    centred = w.step("SUB", x, mean, options="Sub")
    variance = _mean(w, w.step("MUL", centred, centred, options="Mul"), places)
    inverse = w.step("RSQRT", w.step("ADD", variance, w.number(epsilon, x), options="Add"))
    return w.step("MUL", centred, inverse, options="Mul")


@operator("LayerNormalization")
def layer_normalization(w: Writer, node: Node) -> None:
    w.one_output(node)
    x, order = node.inputs[0], w.order(node.inputs[0])
    rank = len(order)
    first = attribute(node, "axis", -1) % rank
    made = w.take(x, order)
    made = _normalized(w, made, [order.index(axis) for axis in range(first, rank)], attribute(node, "epsilon", 1e-5))
    for position, kind in ((1, "Mul"), (2, "Add")):
        if w.given(node, position):
            made = w.step(kind.upper(), made, w.spread(node.inputs[position], rank, order), options=kind)
    w.put(node.outputs[0], made, order)


@operator("InstanceNormalization")
def instance_normalization(w: Writer, node: Node) -> None:
    x, order = node.inputs[0], w.order(node.inputs[0])
    rank = len(order)
    made = w.take(x, order)
    made = _normalized(w, made, [order.index(axis) for axis in range(2, rank)], attribute(node, "epsilon", 1e-5))
    for position, kind in ((1, "Mul"), (2, "Add")):
        array = w.need(node, position).reshape(1, -1, *[1] * (rank - 2)).transpose(order)
        made = w.step(kind.upper(), made, w.file.constant(node.inputs[position], array), options=kind)
    w.put(node.outputs[0], made, order)


def _reduced_axes(w: Writer, node: Node) -> list[int]:
    rank = len(w.shape(node.inputs[0]))
    axes = node.attributes.get("axes")
    if w.given(node, 1):
        axes = [int(axis) for axis in w.need(node, 1)]
    if not axes:
        return [] if attribute(node, "noop_with_empty_axes", 0) else list(range(rank))
    return sorted(axis % rank for axis in axes)


def _reduce(w: Writer, kind: str, x: Slot, order: Order, axes: Sequence[int], keep: bool) -> tuple[Slot, Order]:
    places = sorted(order.index(axis) for axis in axes)
    shape = [1 if place in places else size for place, size in enumerate(x.shape) if keep or place not in places]
    made = w.step(kind, x, w.ints(places), shape=shape, quant=w.goal, options="Reducer", keepDims=keep)
    return made, order if keep else without(order, axes)


def _reducer(kind: str, before: str = "", after: str = "") -> Emit:
    def emit(w: Writer, node: Node) -> None:
        x = node.inputs[0]
        order, axes = w.order(x), _reduced_axes(w, node)
        if not axes:
            w.alias(node.outputs[0], x)
            return
        slot = w.take(x, order)
        if before == "square":
            slot = w.step("MUL", slot, slot, options="Mul")
        elif before:
            slot = w.step(before, slot)
        made, order = _reduce(w, kind, slot, order, axes, bool(attribute(node, "keepdims", 1)))
        w.put(node.outputs[0], w.step(after, made) if after else made, order)

    return emit


for _name, _kind in (
    ("ReduceSum", "SUM"),
    ("ReduceMax", "REDUCE_MAX"),
    ("ReduceMin", "REDUCE_MIN"),
    ("ReduceProd", "REDUCE_PROD"),
):
    operator(_name)(_reducer(_kind))
operator("ReduceMean", int8="free", fits=lambda w, node: w.in_integers(node.inputs[0]))(_reducer("MEAN"))
operator("ReduceL1")(_reducer("SUM", before="ABS"))
operator("ReduceL2")(_reducer("SUM", before="square", after="SQRT"))
operator("ReduceSumSquare")(_reducer("SUM", before="square"))


def _global(kind: str) -> Emit:
    def emit(w: Writer, node: Node) -> None:
        order = w.order(node.inputs[0])
        made, order = _reduce(w, kind, w.take(node.inputs[0], order), order, range(2, len(order)), True)
        w.put(node.outputs[0], made, order)
        if node.inputs[0] in w.nonnegative:
            w.nonnegative.add(node.outputs[0])

    return emit


operator("GlobalAveragePool", int8="free")(_global("MEAN"))
operator("GlobalMaxPool", int8="same")(_global("REDUCE_MAX"))


@operator("ArgMax", "ArgMin")
def arg_max(w: Writer, node: Node) -> None:
    if attribute(node, "select_last_index", 0):
        raise Unsupported(f"litert has {node.operator} of the first index only (node {node.name!r})")
    x, order = node.inputs[0], w.order(node.inputs[0])
    axis = attribute(node, "axis", 0) % len(order)
    slot, place = w.take(x, order), order.index(axis)
    kind, options = ("ARG_MAX", "ArgMax") if node.operator == "ArgMax" else ("ARG_MIN", "ArgMin")
    shape = [size for i, size in enumerate(slot.shape) if i != place]
    code = w.file.type_code("int64")
    made = w.step(kind, slot, w.ints(place), shape=shape, dtype="int64", options=options, outputType=code)
    if attribute(node, "keepdims", 1):
        made = w.reshape(made, [*shape[:place], 1, *shape[place:]])
    else:
        order = without(order, [axis])
    w.put(node.outputs[0], made, order)


@operator("TopK")
def top_k(w: Writer, node: Node) -> None:
    if not attribute(node, "largest", 1) or not attribute(node, "sorted", 1):
        raise Unsupported(f"litert has TopK of the largest, sorted, only (node {node.name!r})")
    x = node.inputs[0]
    count = int(w.need(node, 1).reshape(()) if w.given(node, 1) else node.attributes["k"])
    order = with_last(w.order(x), attribute(node, "axis", -1) % len(w.shape(x)))
    slot = w.take(x, order)
    shape = (*slot.shape[:-1], count)
    values = w.file.tensor(f"{node.name}/values", shape, slot.dtype)
    indices = w.file.tensor(f"{node.name}/indices", shape, "int32")
    w.file.operator("TOPK_V2", [slot, w.ints(count)], [values, indices], "TopKV2")
    if node.outputs[0]:
        w.put(node.outputs[0], values, order)
    if len(node.outputs) > 1 and node.outputs[1]:
        w.put(node.outputs[1], w.step("CAST", indices, dtype="int64", options="Cast"), order)


@operator("CumSum")
def cumulative_sum(w: Writer, node: Node) -> None:
    x, order = node.inputs[0], plain(len(w.shape(node.inputs[0])))
    axis = int(w.need(node, 1).reshape(())) % len(order)
    fields: dict[str, Any] = {
        "exclusive": bool(attribute(node, "exclusive", 0)),
        "reverse": bool(attribute(node, "reverse", 0)),
    }
    slot = w.take(x, order)
    w.put(node.outputs[0], w.step("CUMSUM", slot, w.ints(axis), shape=slot.shape, options="Cumsum", **fields))
