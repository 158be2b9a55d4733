"""Factors and offsets per channel moved into the weights of a layer beside them.

Batch normalization, and what multiplies or adds constants per channel, is a factor and an offset. After a layer that is
linear it is part of its weights and bias; before one too, as long as no padding comes between, which would have to be
of what the offset makes of zero.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ...core.types import Tensor
from ...model.graph import Array, Node
from .draft import Change, Draft, rule, stored, text

_ARITHMETIC = ("Add", "Sub", "Mul", "Div")
_LAYERS = ("Conv", "ConvTranspose", "Gemm", "MatMul")


@dataclass(frozen=True, slots=True)
class _Affine:
    """What is read, and what each of its channels is multiplied by and has added then."""

    source: str
    scale: Array
    shift: Array

    @property
    def finite(self) -> bool:
        return bool(np.isfinite(self.scale).all() and np.isfinite(self.shift).all())


def affine(draft: Draft, node: Node, axis: int) -> _Affine | None:
    """The node as factors and offsets along an axis, where that is all it is."""
    shape = draft.shape(node.outputs[0])
    if shape is None or len(shape) < 2 or not draft.floats(node.outputs[0]):
        return None
    axis %= len(shape)
    found = _normalization(draft, node) if node.operator == "BatchNormalization" else _constant(draft, node, axis)
    if found is None or draft.shape(found.source) != shape or (node.operator == "BatchNormalization" and axis != 1):
        return None
    return found if len(found.scale) == shape[axis] and found.finite else None


def _normalization(draft: Draft, node: Node) -> _Affine | None:
    if node.attributes.get("training_mode", 0) or not node.attributes.get("spatial", 1):
        return None
    if any(draft.used(name) for name in node.outputs[1:] if name):
        return None
    given = [draft.weights(name) for name in node.inputs[1:5]]
    gamma, beta, mean, variance = (None if each is None else each.reshape(-1) for each in given)
    if gamma is None or beta is None or mean is None or variance is None:
        return None
    with np.errstate(all="ignore"):
        scale = gamma / np.sqrt(variance + float(node.attributes.get("epsilon", 1e-5)))
        return _Affine(node.inputs[0], scale, beta - mean * scale)


def _constant(draft: Draft, node: Node, axis: int) -> _Affine | None:
    shape = draft.shape(node.outputs[0])
    assert shape is not None
    first, second = node.inputs[:2]
    swapped = first in draft.constants
    source, array = (second, draft.weights(first)) if swapped else (first, draft.weights(second))
    if array is None or source in draft.constants or array.ndim > len(shape) or (swapped and node.operator == "Div"):
        return None
    sizes = (1,) * (len(shape) - array.ndim) + array.shape
    if any(size != 1 for place, size in enumerate(sizes) if place != axis) or sizes[axis] not in (1, shape[axis]):
        return None
    each = np.broadcast_to(array.reshape(-1), (shape[axis],))
    one, none = np.ones(shape[axis]), np.zeros(shape[axis])
    if node.operator == "Add":
        return _Affine(source, one, each)
    if node.operator == "Sub":
        return _Affine(source, -one, each) if swapped else _Affine(source, one, -each)
    if node.operator == "Mul":
        return _Affine(source, each, none)
    with np.errstate(all="ignore"):
        return _Affine(source, 1 / each, none)


# After a layer.


@rule("folded into the layer before", "BatchNormalization Add Sub Mul Div")
def backward(draft: Draft, node: Node) -> Change | None:
    for source in node.inputs[:1] if node.operator == "BatchNormalization" else node.inputs[:2]:
        layer = draft.maker(source, *_LAYERS, "Add")
        if layer is None or not draft.alone(source):
            continue
        rows = layer.operator in ("MatMul", "Add")
        found = affine(draft, node, -1 if rows else 1)
        if found is None or found.source != source:
            continue
        change = _after(draft, layer, node, found)
        if change is not None:
            return change
    return None


def _after(draft: Draft, layer: Node, node: Node, found: _Affine) -> Change | None:
    if layer.operator == "MatMul":
        return _after_matmul(draft, layer, node, found)
    if layer.operator == "Add":
        return _after_sum(draft, layer, node, found)
    weight = draft.weights(layer.inputs[1])
    bias = _bias(draft, layer, len(found.scale))
    if weight is None or bias is None:
        return None
    if layer.operator == "Gemm":
        scale = found.scale[:, None] if layer.attributes.get("transB", 0) else found.scale[None]
        bias = bias * float(layer.attributes.get("beta", 1.0))
        layer = replace(layer, attributes={k: v for k, v in layer.attributes.items() if k != "beta"})
    elif layer.operator == "Conv":
        scale = found.scale.reshape(-1, *[1] * (weight.ndim - 1))
    else:
        groups = int(layer.attributes.get("group", 1))
        each = np.repeat(found.scale.reshape(groups, -1), weight.shape[0] // groups, axis=0)
        scale = each.reshape(*weight.shape[:2], *[1] * (weight.ndim - 2))
    return _layer(draft, layer, node, weight, scale, bias * found.scale + found.shift)


def _layer(
    draft: Draft, layer: Node, node: Node, weight: Array, scale: Array, bias: Array, source: str | None = None
) -> Change | None:
    """The layer with other weights, under the name of `node` and making what that makes."""
    constants: dict[str, Array] = {}
    name = layer.inputs[1]
    if not (scale == 1).all():
        name = draft.fresh(layer.inputs[1])
        constants[name] = weight * scale
    inputs = [layer.inputs[0] if source is None else source, name]
    if bias.any() or len(layer.inputs) > 2:
        given = layer.inputs[2] if len(layer.inputs) > 2 and layer.inputs[2] else f"{layer.inputs[1]}.bias"
        inputs.append(draft.fresh(given))
        constants[inputs[-1]] = bias
    kept = stored(constants, draft.constants[layer.inputs[1]].dtype)
    made = Node(layer.name, layer.operator, tuple(inputs), node.outputs[:1], layer.attributes)
    return None if kept is None else Change((made,), kept)


def _bias(draft: Draft, layer: Node, count: int) -> Array | None:
    """One number per channel; zeros where there is none, None where it is not that."""
    if len(layer.inputs) < 3 or not layer.inputs[2]:
        return np.zeros(count)
    array = draft.weights(layer.inputs[2])
    if array is None or array.size not in (1, count) or (array.size > 1 and array.shape[-1] != count):
        return None
    return np.broadcast_to(array.reshape(-1), (count,))


def _after_matmul(draft: Draft, layer: Node, node: Node, found: _Affine) -> Change | None:
    weight = draft.weights(layer.inputs[1])
    shape = draft.shape(layer.inputs[0])
    if weight is None or weight.ndim != 2 or shape is None:
        return None
    if not found.shift.any():
        return _layer(draft, layer, node, weight, found.scale[None], np.zeros(1))
    if len(shape) != 2:
        return None
    return _layer(draft, replace(layer, operator="Gemm"), node, weight, found.scale[None], found.shift)


def _after_sum(draft: Draft, layer: Node, node: Node, found: _Affine) -> Change | None:
    """A product with its bias added apart."""
    added = affine(draft, layer, -1)
    product = draft.maker(added.source, "MatMul") if added is not None else None
    weight = draft.weights(product.inputs[1]) if product is not None else None
    if added is None or product is None or weight is None or weight.ndim != 2 or not draft.alone(added.source):
        return None
    names = draft.fresh(product.inputs[1]), draft.fresh(f"{product.inputs[1]}.bias")
    arrays = {names[0]: weight * found.scale[None], names[1]: added.shift * found.scale + found.shift}
    constants = stored(arrays, draft.constants[product.inputs[1]].dtype)
    if constants is None:
        return None
    between = draft.fresh(added.source)
    value = draft.values[added.source]
    made = (
        Node(product.name, "MatMul", (product.inputs[0], names[0]), (between,), {}),
        Node(layer.name, "Add", (between, names[1]), node.outputs[:1], {}),
    )
    return Change(made, constants, (Tensor(between, value.dtype, value.shape),))


# Before a layer.


@rule("folded into the layer after", "Conv ConvTranspose Gemm MatMul")
def forward(draft: Draft, node: Node) -> Change | None:
    before = draft.maker(node.inputs[0], "BatchNormalization", *_ARITHMETIC)
    if before is None or before.outputs[0] != node.inputs[0] or _ends_gate(draft, before):
        return None
    found = affine(draft, before, -1 if node.operator == "MatMul" else 1)
    weight = draft.weights(node.inputs[1]) if found is not None else None
    if found is None or weight is None or (node.operator == "MatMul" and weight.ndim != 2):
        return None
    made = draft.shape(node.outputs[0])
    shape = draft.shape(node.inputs[0])
    if made is None or shape is None:
        return None
    if node.operator == "Conv":
        return _before_conv(draft, node, weight, found)
    if node.operator == "ConvTranspose":
        if found.shift.any():
            return None
        bias = _bias(draft, node, made[1])
        scale = found.scale.reshape(-1, *[1] * (weight.ndim - 1))
        return None if bias is None else _layer(draft, node, node, weight, scale, bias, found.source)
    if node.attributes.get("transA", 0) or (found.shift.any() and len(shape) != 2):
        return None
    return _before_product(draft, node, weight, found)


def _ends_gate(draft: Draft, node: Node | None) -> bool:
    """Whether it is the last of an activation or normalization in pieces, which engines know only as a whole."""
    while node is not None and node.operator in _ARITHMETIC and any(n in draft.constants for n in node.inputs):
        node = next((draft.maker(name, *_ARITHMETIC) for name in node.inputs if name not in draft.constants), None)
    return node is not None and node.operator in ("Mul", "Div")


def _before_conv(draft: Draft, node: Node, weight: Array, found: _Affine) -> Change | None:
    bias = _bias(draft, node, weight.shape[0])
    if bias is None or (found.shift.any() and padded(node, weight.shape[2:])):
        return None
    groups = int(node.attributes.get("group", 1))

    def spread(each: Array) -> Array:
        """Of each filter, those of the channels it takes."""
        rows = np.repeat(each.reshape(groups, -1), weight.shape[0] // groups, axis=0)
        return rows.reshape(*weight.shape[:2], *[1] * (weight.ndim - 2))

    moved = (weight * spread(found.shift)).reshape(weight.shape[0], -1).sum(axis=1)
    return _layer(draft, node, node, weight, spread(found.scale), bias + moved, found.source)


def _before_product(draft: Draft, node: Node, weight: Array, found: _Affine) -> Change | None:
    turned = bool(node.attributes.get("transB", 0))
    scale, columns = (found.scale[None], weight.T) if turned else (found.scale[:, None], weight)
    bias = _bias(draft, node, columns.shape[1])
    if bias is None:
        return None
    bias = bias * float(node.attributes.get("beta", 1.0))
    bias = bias + float(node.attributes.get("alpha", 1.0)) * (found.shift @ columns)
    operator = "Gemm" if found.shift.any() else node.operator
    kept = {name: value for name, value in node.attributes.items() if name != "beta"}
    return _layer(draft, replace(node, operator=operator, attributes=kept), node, weight, scale, bias, found.source)


def padded(node: Node, kernel: tuple[int, ...]) -> bool:
    """Whether a convolution or pool may look beyond its input."""
    how = text(node, "auto_pad", "NOTSET")
    if how.startswith("SAME"):
        return any(size != 1 for size in kernel)
    return how == "NOTSET" and any(node.attributes.get("pads") or ())


RULES = (backward, forward)
