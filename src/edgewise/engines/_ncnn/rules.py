"""Arithmetic, logic, indices and normalizations as pnnx converts them rightly."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from ...core.errors import Unsupported
from ...model.graph import Node
from .writer import MOST_PIECES, Feed, Writer

RESHAPES = frozenset(("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Dropout"))


def _same(w: Writer, node: Node) -> str:
    return w.value(node.inputs[0])


def _shaped(w: Writer, node: Node) -> str:
    if (node.operator == "Flatten" and node.attributes.get("axis", 1) == 1) or node.operator == "Squeeze":
        return w.generic(node)[0]
    return w.reshape(w.value(node.inputs[0]), w.shape(node.outputs[0]))


def _cast(w: Writer, node: Node) -> str:
    source, made = node.inputs[0], node.outputs[0]
    if w.whole(made) and not w.whole(source):
        raise Unsupported("ncnn has no Cast of a float to a whole number")
    x = w.value(source)
    if w.graph.values[made].dtype == "bool" and w.graph.values[source].dtype != "bool":
        return w.binary("Min", w.op("Abs", (x,), w.shapes[x]), w.scalar(1))
    return x


def _arithmetic(w: Writer, node: Node) -> str:
    """Add, Sub, Mul, Div, Min, Max, Sum and Mean, of two at a time."""
    if w.whole(node.outputs[0]) and node.operator in ("Div", "Mean"):
        raise Unsupported(f"ncnn has no {node.operator} of whole numbers")
    kind = "Add" if node.operator in ("Sum", "Mean") else node.operator
    made = w.value(node.inputs[0])
    for name in node.inputs[1:]:
        made = w.binary(kind, made, w.value(name))
    if node.operator == "Mean":
        made = w.binary("Mul", made, w.scalar(1 / len(node.inputs)))
    return made


def _compare(w: Writer, node: Node) -> str:
    """Of whole numbers, whose difference is at least one where there is any."""
    if not all(w.whole(name) for name in node.inputs):
        raise Unsupported(f"ncnn has no {node.operator} of floats")
    a, b = (w.value(name) for name in node.inputs)
    if node.operator == "Equal":
        apart = w.binary("Sub", a, b)
        return w.binary("Sub", w.scalar(1), w.binary("Min", w.op("Abs", (apart,), w.shapes[apart]), w.scalar(1)))
    more = w.binary("Sub", *((a, b) if node.operator.startswith("Greater") else (b, a)))
    if node.operator.endswith("OrEqual"):
        more = w.binary("Add", more, w.scalar(1))
    return w.binary("Max", w.binary("Min", more, w.scalar(1)), w.scalar(0))


def _logic(w: Writer, node: Node) -> str:
    if node.operator == "Not":
        return w.binary("Sub", w.scalar(1), w.value(node.inputs[0]))
    return w.binary({"And": "Mul", "Or": "Max"}[node.operator], w.value(node.inputs[0]), w.value(node.inputs[1]))


def _where(w: Writer, node: Node) -> str:
    """yes * condition + no * (1 - condition)"""
    condition, constants = node.inputs[0], w.graph.constants
    known = constants.get(condition)
    chosen = w.value(condition)
    parts = []
    for name, sign in zip(node.inputs[1:], (True, False), strict=True):
        if known is not None and name in constants:
            kept = np.where(known == sign, constants[name], np.zeros_like(constants[name])).astype(np.float32)
            parts.append(w.weight(kept))
            continue
        if name in constants and not np.isfinite(constants[name]).all():
            raise Unsupported("ncnn has no Where that chooses an infinite constant by a computed condition")
        mask = chosen
        if not sign:
            mask = w.weight((~known).astype(np.float32)) if known is not None else w.binary("Sub", w.scalar(1), chosen)
        parts.append(w.binary("Mul", w.value(name), mask))
    return w.binary("Add", *parts)


def _gather(w: Writer, node: Node) -> str:
    data, indices = node.inputs
    shape, made = w.shape(data), w.shape(node.outputs[0])
    axis = node.attributes.get("axis", 0) % len(shape)
    if indices in w.graph.constants:
        wanted = [int(index) % shape[axis] for index in w.graph.constants[indices].ravel()]
        return w.reshape(w.pick(w.value(data), axis, wanted, "Gather"), made)
    if data not in w.graph.constants or axis != 0:
        raise Unsupported("ncnn has no Gather but an embedding's, or one with constant indices")
    makers = {name: maker for maker in w.graph.nodes for name in maker.outputs}
    source = indices
    while source in makers and (makers[source].operator in RESHAPES or makers[source].operator == "Cast"):
        source = makers[source].inputs[0]
    if source not in w.graph.inputs or not w.whole(source):
        raise Unsupported("ncnn has no Gather by computed indices")
    words = prod(w.shape(indices))
    width = prod(shape[1:])
    flat = w.weight(w.graph.constants[data].reshape(shape[0], width))
    index = w.feed(Feed(source, (1, words), limit=shape[0]))
    return w.reshape(w.op("Gather", (flat, index), (1, words, width)), made)


def _slice(w: Writer, node: Node) -> str:
    shape = w.shape(node.inputs[0])
    starts, ends = w.ints(node, 1, "starts") or [], w.ints(node, 2, "ends") or []
    axes = w.ints(node, 3, "axes") or list(range(len(starts)))
    steps = w.ints(node, 4, "steps") or [1] * len(starts)
    x = w.value(node.inputs[0])
    for axis, start, end, step in zip((a % len(shape) for a in axes), starts, ends, steps, strict=True):
        indices = range(*slice(start, end, step).indices(shape[axis]))
        if not indices:
            raise Unsupported("ncnn has no empty tensor, and a Slice makes one")
        if step > 1:
            x = w.every(x, axis, indices[0], len(indices), step)
        else:
            x = w.pick(x, axis, indices, "Slice with a negative step")
    return x


def _tile(w: Writer, node: Node) -> str:
    x = w.value(node.inputs[0])
    for axis, times in enumerate(w.ints(node, 1, "repeats") or []):
        if times > MOST_PIECES:
            raise Unsupported(f"ncnn has no Tile of {times} times; edgewise spells out {MOST_PIECES}")
        x = w.concat([x] * times, axis)
    return x


def _expand(w: Writer, node: Node) -> str:
    """A sum with zeros, which every engine broadcasts the same way."""
    return w.binary("Add", w.value(node.inputs[0]), w.weight(np.zeros(w.shape(node.outputs[0]), np.float32)))


def _softmax(w: Writer, node: Node) -> str:
    """Before opset 13 everything from `axis` on is one; and pnnx knows no other axis than the last by default."""
    x, shape = w.value(node.inputs[0]), w.shape(node.inputs[0])
    old = w.graph.opset < 13
    axis = node.attributes.get("axis", 1 if old else -1) % len(shape)
    if not old or prod(shape[axis + 1 :]) == 1:
        return w.op(node.operator, (x,), shape, axis=axis)
    table = w.reshape(x, (prod(shape[:axis]), prod(shape[axis:])))
    return w.reshape(w.op(node.operator, (table,), w.shapes[table], axis=1), shape)


def _gemm(w: Writer, node: Node) -> str:
    """Scales go into the weights, and a bias becomes one number per column: that pnnx knows."""
    given, constants = node.attributes, w.graph.constants
    bias = node.inputs[2] if len(node.inputs) > 2 else ""
    columns = w.shape(node.outputs[0])[1]
    flat = not bias or (bias in constants and (w.shape(bias)[-1:] == (columns,) or constants[bias].size == 1))
    flat = flat and (not bias or constants[bias].size in (1, columns))
    if node.inputs[1] not in constants or given.get("transA") or not flat:
        return w.generic(node)[0]
    weights = constants[node.inputs[1]] * np.float32(given.get("alpha", 1))
    weights = weights if given.get("transB") else weights.T
    inputs = [w.value(node.inputs[0]), w.weight(weights)]
    if bias:
        added = np.broadcast_to(constants[bias].reshape(-1), (columns,)) * np.float32(given.get("beta", 1))
        inputs.append(w.weight(added.astype(np.float32)))
    return w.op("Gemm", inputs, w.shape(node.outputs[0]), transB=1)


def _reduce(w: Writer, node: Node) -> str:
    """With axes counted from the front: of others pnnx makes a copy."""
    x, shape = w.value(node.inputs[0]), w.shape(node.inputs[0])
    axes = w.ints(node, 1, "axes") or []
    if not axes and node.attributes.get("noop_with_empty_axes"):
        return x
    axes = sorted(axis % len(shape) for axis in axes) or list(range(len(shape)))
    keep = {"keepdims": node.attributes.get("keepdims", 1)}
    made = w.shape(node.outputs[0])
    if node.operator != "ReduceSum":
        return w.op(node.operator, (x,), made, axes=axes, **keep)
    # Its axes are an input from opset 13 on, and of a single one pnnx makes nothing.
    mean = w.op("ReduceMean", (x,), made, axes=axes, **keep)
    return w.binary("Mul", mean, w.scalar(prod(shape[axis] for axis in axes)))


def _transpose(w: Writer, node: Node) -> str:
    x = w.value(node.inputs[0])
    perm = node.attributes.get("perm") or list(range(len(w.shapes[x])))[::-1]
    return w.op("Transpose", (x,), w.shape(node.outputs[0]), perm=list(perm))


def _prelu(w: Writer, node: Node) -> str:
    """pnnx takes every slope for one per channel."""
    shape, slope = w.shape(node.inputs[0]), w.shape(node.inputs[1])
    if prod(slope) == 1 or (len(shape) == 4 and slope == (shape[1], 1, 1)):
        return w.generic(node)[0]
    x = w.value(node.inputs[0])
    below = w.op("Relu", (w.op("Neg", (x,), shape),), shape)
    return w.binary("Sub", w.op("Relu", (x,), shape), w.binary("Mul", below, w.value(node.inputs[1])))


def _pow(w: Writer, node: Node) -> str:
    """ncnn's power is that of a positive base: the sign of whole powers is put back."""
    if node.inputs[1] not in w.graph.constants:
        raise Unsupported("ncnn has no Pow with a computed exponent")
    power = w.graph.constants[node.inputs[1]].astype(np.float32)
    x = w.value(node.inputs[0])
    if (power == 2).all():
        return w.binary("Mul", x, x)
    whole, odd = power == np.round(power), power % 2 == 1
    size = w.op("Abs", (x,), w.shapes[x])
    base = size if whole.all() else x
    if whole.any() and not whole.all():
        kept = w.binary("Mul", size, w.weight(whole.astype(np.float32)))
        base = w.binary("Add", kept, w.binary("Mul", x, w.weight((~whole).astype(np.float32))))
    made = w.binary("Pow", base, w.weight(power))
    if not odd.any():
        return made
    sign = w.op("Sign", (x,), w.shapes[x])
    if not odd.all():
        sign = w.binary("Mul", sign, w.weight(odd.astype(np.float32)))
        sign = w.binary("Add", sign, w.weight((~odd).astype(np.float32)))
    return w.binary("Mul", made, sign)


def _layer_norm(w: Writer, node: Node) -> str:
    """Over the last axis, with a bias: of several pnnx normalizes one, and without a bias it gives up."""
    x, shape = w.value(node.inputs[0]), w.shape(node.inputs[0])
    if any(name in w.graph.values for name in node.outputs[1:]) or node.inputs[1] not in w.graph.constants:
        raise Unsupported("ncnn has no LayerNormalization with computed weights or further outputs")
    axis = node.attributes.get("axis", -1) % len(shape)
    width = prod(shape[axis:])
    scale = np.broadcast_to(w.graph.constants[node.inputs[1]], shape[axis:]).reshape(-1)
    bias = np.zeros(width, np.float32)
    if len(node.inputs) > 2 and node.inputs[2]:
        if node.inputs[2] not in w.graph.constants:
            raise Unsupported("ncnn has no LayerNormalization with computed weights")
        bias = np.broadcast_to(w.graph.constants[node.inputs[2]], shape[axis:]).reshape(-1)
    flat = w.reshape(x, (*shape[:axis], width))
    inputs = (flat, w.weight(scale), w.weight(bias))
    epsilon = float(node.attributes.get("epsilon", 1e-5))
    return w.reshape(w.op("LayerNormalization", inputs, w.shapes[flat], axis=-1, epsilon=epsilon), shape)


def _gelu(w: Writer, node: Node) -> str:
    """As exporters wrote it before opset 20."""
    x, shape = w.value(node.inputs[0]), w.shape(node.inputs[0])
    half = w.binary("Mul", x, w.scalar(0.5))
    if node.attributes.get("approximate", "none") == "tanh":
        cube = w.binary("Mul", w.binary("Mul", w.binary("Mul", x, x), x), w.scalar(0.044715))
        inner = w.op("Tanh", (w.binary("Mul", w.binary("Add", x, cube), w.scalar((2 / np.pi) ** 0.5)),), shape)
    else:
        inner = w.op("Erf", (w.binary("Div", x, w.scalar(2**0.5)),), shape)
    return w.binary("Mul", half, w.binary("Add", inner, w.scalar(1)))


def _mish(w: Writer, node: Node) -> str:
    x, shape = w.value(node.inputs[0]), w.shape(node.inputs[0])
    return w.binary("Mul", x, w.op("Tanh", (w.op("Softplus", (x,), shape),), shape))


def _softsign(w: Writer, node: Node) -> str:
    x = w.value(node.inputs[0])
    below = w.binary("Add", w.op("Abs", (x,), w.shapes[x]), w.scalar(1))
    # Not as a quotient: pnnx would make a Softsign of it again.
    return w.binary("Mul", x, w.op("Reciprocal", (below,), w.shapes[x]))


_REDUCTIONS = ("Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "SumSquare", "LogSum", "LogSumExp")
RULES: dict[str, Callable[[Writer, Node], str]] = {
    **dict.fromkeys(("Identity", "Dropout"), _same),
    **dict.fromkeys(("Reshape", "Flatten", "Squeeze", "Unsqueeze"), _shaped),
    **dict.fromkeys(("Add", "Sub", "Mul", "Div", "Min", "Max", "Sum", "Mean"), _arithmetic),
    **dict.fromkeys(("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"), _compare),
    **dict.fromkeys(("Not", "And", "Or"), _logic),
    **dict.fromkeys(("Softmax", "LogSoftmax"), _softmax),
    "Cast": _cast,
    "Where": _where,
    "Gather": _gather,
    "Slice": _slice,
    "Tile": _tile,
    "Expand": _expand,
    **dict.fromkeys((f"Reduce{what}" for what in _REDUCTIONS), _reduce),
    "Gemm": _gemm,
    "Transpose": _transpose,
    "PRelu": _prelu,
    "Pow": _pow,
    "Softsign": _softsign,
    "LayerNormalization": _layer_norm,
    "Gelu": _gelu,
    "Mish": _mish,
}
