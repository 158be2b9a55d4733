"""Means, normalizations and softmax written out in pieces, put together again; only those the opset has."""

from __future__ import annotations

import math

from ...core.types import Tensor
from ...model.graph import Array, Node
from .draft import Change, Draft, rule, text
from .pieces import offset


def _reduced(draft: Draft, name: str, operator: str) -> tuple[str, list[int]] | None:
    """What is reduced, and along which axes; they are kept with a size of one."""
    node = draft.maker(name, operator)
    return _axes(draft, node) if node is not None and node.attributes.get("keepdims", 1) else None


def _axes(draft: Draft, node: Node) -> tuple[str, list[int]] | None:
    shape = draft.shape(node.inputs[0])
    axes = draft.integers(node, 1, "axes")
    if shape is None or not axes or not draft.floats(node.inputs[0]):
        return None
    return node.inputs[0], sorted(axis % len(shape) for axis in axes)


@rule("layer normalization", "Mul")
def layer_norm(draft: Draft, node: Node) -> Change | None:
    """(x - mean) / √(variance + ε) · scale, along the last axes."""
    if draft.opset < 17:
        return None
    for divided, scale in (node.inputs, node.inputs[::-1]):
        ratio = draft.maker(divided, "Div")
        root = draft.maker(ratio.inputs[1], "Sqrt") if ratio is not None and draft.alone(divided) else None
        plus = offset(draft, root.inputs[0]) if root is not None else None
        variance = _reduced(draft, plus[0], "ReduceMean") if plus is not None else None
        if ratio is None or plus is None or variance is None:
            continue
        centred = ratio.inputs[0]
        less = draft.maker(centred, "Sub")
        mean = _reduced(draft, less.inputs[1], "ReduceMean") if less is not None else None
        if less is None or mean is None or mean != (less.inputs[0], variance[1]):
            continue
        if not _squared(draft, variance[0], centred):
            continue
        return _layer_norm(draft, node, less.inputs[0], scale, mean[1], plus[1])
    return None


def _squared(draft: Draft, name: str, x: str) -> bool:
    power = draft.maker(name, "Pow")
    if power is not None:
        return power.inputs[0] == x and draft.number(power.inputs[1]) == 2
    product = draft.maker(name, "Mul")
    return product is not None and set(product.inputs) == {x}


def _layer_norm(draft: Draft, node: Node, x: str, scale: str, axes: list[int], epsilon: float) -> Change | None:
    shape = draft.shape(x) or ()
    if axes != list(range(axes[0], len(shape))) or axes[0] == 0 or draft.shape(node.outputs[0]) != shape:
        return None
    factors = _along(draft, scale, shape[axes[0] :])
    if factors is None:
        return None
    name = draft.fresh(scale)
    settings = {"axis": axes[0] - len(shape), "epsilon": epsilon}
    made = Node(node.name, "LayerNormalization", (x, name), node.outputs, settings)
    return Change((made,), {name: factors})


def _along(draft: Draft, name: str, shape: tuple[int, ...]) -> Array | None:
    """A constant that has just these sizes, or them and ones before."""
    array = draft.constants.get(name)
    if (
        array is None
        or tuple(array.shape[max(0, array.ndim - len(shape)) :]) != shape
        or array.size != math.prod(shape)
    ):
        return None
    return array.reshape(shape)


@rule("layer normalization's bias", "Add")
def layer_norm_bias(draft: Draft, node: Node) -> Change | None:
    for normed, bias in (node.inputs, node.inputs[::-1]):
        layer = draft.maker(normed, "LayerNormalization")
        if layer is None or not draft.alone(normed) or len(layer.inputs) > 2 or len(layer.outputs) > 1:
            continue
        shape = draft.shape(node.outputs[0])
        if shape is None or draft.shape(normed) != shape:
            continue
        array = _along(draft, bias, shape[int(layer.attributes.get("axis", -1)) % len(shape) :])
        if array is not None:
            name = draft.fresh(bias)
            made = Node(layer.name, layer.operator, (*layer.inputs, name), node.outputs, layer.attributes)
            return Change((made,), {name: array})
    return None


@rule("global average", "ReduceMean AveragePool")
def global_average(draft: Draft, node: Node) -> Change | None:
    """The mean of all places of an image."""
    shape, made = draft.shape(node.inputs[0]), draft.shape(node.outputs[0])
    if shape is None or made is None or len(shape) != 4 or not draft.floats(node.inputs[0]):
        return None
    if node.operator == "AveragePool":
        whole = [int(size) for size in node.attributes["kernel_shape"]] == list(shape[2:]) and made[2:] == (1, 1)
        if not whole or any(node.attributes.get("pads") or ()) or text(node, "auto_pad", "NOTSET") != "NOTSET":
            return None
    elif (found := _axes(draft, node)) is None or found[1] != [2, 3]:
        return None
    if node.attributes.get("keepdims", 1):
        return Change((Node(node.name, "GlobalAveragePool", node.inputs[:1], node.outputs, {}),))
    pooled = draft.fresh(node.outputs[0])
    nodes = (
        Node(node.name, "GlobalAveragePool", node.inputs[:1], (pooled,), {}),
        Node(draft.fresh(f"{node.name}.flat"), "Flatten", (pooled,), node.outputs, {"axis": 1}),
    )
    return Change(nodes, values=(Tensor(pooled, draft.dtype(node.inputs[0]), (*shape[:2], 1, 1)),))


@rule("softmax", "Div")
def softmax(draft: Draft, node: Node) -> Change | None:
    raised, total = node.inputs
    power, summed = draft.maker(raised, "Exp"), _reduced(draft, total, "ReduceSum")
    shape = draft.shape(node.outputs[0])
    if power is None or summed is None or summed[0] != raised or shape is None or len(summed[1]) != 1:
        return None
    (axis,) = summed[1]
    # Before opset 13 it was along all axes from this one on.
    if draft.opset < 13 and axis != len(shape) - 1:
        return None
    x = power.inputs[0]
    less = draft.maker(x, "Sub")
    largest = _reduced(draft, less.inputs[1], "ReduceMax") if less is not None else None
    if less is not None and largest == (less.inputs[0], [axis]):
        x = less.inputs[0]
    return Change((Node(node.name, "Softmax", (x,), node.outputs, {"axis": axis}),))


@rule("log of softmax", "Log")
def log_softmax(draft: Draft, node: Node) -> Change | None:
    inner = draft.maker(node.inputs[0], "Softmax")
    if inner is None or not draft.alone(node.inputs[0]):
        return None
    return Change((Node(node.name, "LogSoftmax", inner.inputs, node.outputs, inner.attributes),))


RULES = (layer_norm, layer_norm_bias, global_average, softmax, log_softmax)
