"""Operators written out in pieces, as exporters do, put together again; only those the graph's opset has."""

from __future__ import annotations

import math

import numpy as np

from ...core.types import Tensor
from ...model.graph import Array, Node
from .draft import Change, Draft, rule, text

_CLOSE = 1e-5  # what float32 makes of 1/6 or √2, and what people write for them


def _near(value: float, wanted: float) -> bool:
    return abs(value - wanted) <= _CLOSE * max(abs(wanted), 1e-3)


# Pieces.


def _scalar(draft: Draft, node: Node) -> tuple[str, float, bool] | None:
    """The value and the number an operation of two is done on, and whether the number comes first."""
    first, second = node.inputs[:2]
    for x, other, swapped in ((first, second, False), (second, first, True)):
        number = draft.number(other)
        if number is not None and x not in draft.constants and draft.shape(x) == draft.shape(node.outputs[0]):
            return (x, number, swapped) if draft.shape(x) is not None and draft.floats(x) else None
    return None


def _factor(draft: Draft, name: str) -> tuple[str, float] | None:
    """The value as another times a number."""
    node = draft.maker(name, "Mul", "Div")
    found = _scalar(draft, node) if node is not None else None
    if node is None or found is None or (node.operator == "Div" and (found[2] or found[1] == 0)):
        return None
    return found[0], found[1] if node.operator == "Mul" else 1 / found[1]


def _offset(draft: Draft, name: str) -> tuple[str, float] | None:
    """The value as another plus a number."""
    node = draft.maker(name, "Add", "Sub")
    found = _scalar(draft, node) if node is not None else None
    if node is None or found is None or (node.operator == "Sub" and found[2]):
        return None
    return found[0], found[1] if node.operator == "Add" else -found[1]


def _linear(draft: Draft, name: str) -> tuple[str, float, float]:
    """The value as a · x + b, by numbers on the way that nobody else reads."""
    a, b = 1.0, 0.0
    while draft.alone(name):
        if (factor := _factor(draft, name)) is not None:
            name, a = factor[0], a * factor[1]
        elif (offset := _offset(draft, name)) is not None:
            name, b = offset[0], b + a * offset[1]
        else:
            break
    return name, a, b


def _bounds(draft: Draft, node: Node) -> tuple[str, float, float] | None:
    """What a node holds within bounds, and which."""
    x = node.inputs[0]
    if node.operator == "Relu":
        return x, 0.0, math.inf
    if node.operator == "Clip":
        ends = [-math.inf, math.inf]
        for place, key in enumerate(("min", "max")):
            name = node.inputs[place + 1] if len(node.inputs) > place + 1 else ""
            number = draft.number(name) if name else node.attributes.get(key, ends[place])
            if number is None:
                return None
            ends[place] = float(number)
        return x, ends[0], ends[1]
    found = _scalar(draft, node) if len(node.inputs) == 2 else None
    if found is None:
        return None
    return (found[0], found[1], math.inf) if node.operator == "Max" else (found[0], -math.inf, found[1])


_BOUNDING = ("Relu", "Clip", "Max", "Min")


def _bounded(draft: Draft, node: Node, x: str, low: float, high: float) -> Change:
    """Relu where it is one, else Clip."""
    if (low, high) == (0, math.inf):
        return Change((Node(node.name, "Relu", (x,), node.outputs, {}),))
    ends = {"min": low, "max": high}
    if draft.opset < 11:
        said = {key: value for key, value in ends.items() if math.isfinite(value)}
        return Change((Node(node.name, "Clip", (x,), node.outputs, said),))
    dtype = np.dtype(draft.dtype(x))
    names = {key: draft.fresh(f"{node.name}.{key}") if math.isfinite(value) else "" for key, value in ends.items()}
    constants: dict[str, Array] = {names[key]: np.array(value, dtype) for key, value in ends.items() if names[key]}
    inputs = (x, names["min"], names["max"]) if names["max"] else (x, names["min"])
    return Change((Node(node.name, "Clip", inputs, node.outputs, {}),), constants)


@rule("bounds merged", "Relu Clip Max Min")
def bounds(draft: Draft, node: Node) -> Change | None:
    """Bounds within bounds, and those of a Relu, which it is then."""
    found = _bounds(draft, node)
    if found is None or not draft.floats(found[0]):
        return None
    x, low, high = found
    if low == -math.inf and high == math.inf:
        return Change(instead={node.outputs[0]: x})
    before = draft.maker(x, *_BOUNDING)
    inner = _bounds(draft, before) if before is not None else None
    if inner is not None and inner[1] <= inner[2] and low <= high:
        if low <= inner[1] and inner[2] <= high:
            return Change(instead={node.outputs[0]: x})
        if draft.alone(x):
            return _bounded(draft, node, inner[0], *(min(max(end, low), high) for end in inner[1:]))
    return _bounded(draft, node, x, low, high) if (low, high) == (0, math.inf) and node.operator != "Relu" else None


# Activations.


@rule("hard sigmoid", "Clip Mul Div")
def hard_sigmoid(draft: Draft, node: Node) -> Change | None:
    """Of what is multiplied and shifted, the part from 0 to 1; or to 6, say, and divided by that."""
    clip: Node | None = node
    scale = 1.0
    if node.operator != "Clip":
        factor = _factor(draft, node.outputs[0])
        if factor is None or not draft.alone(factor[0]):
            return None
        clip, scale = draft.maker(factor[0], "Clip"), factor[1]
    held = _bounds(draft, clip) if clip is not None else None
    if held is None or held[1] != 0 or not _near(held[2] * scale, 1) or not draft.floats(held[0]):
        return None
    x, a, b = _linear(draft, held[0])
    if x == held[0]:
        return None
    settings = {"alpha": a * scale, "beta": b * scale}
    return Change((Node(node.name, "HardSigmoid", (x,), node.outputs, settings),))


@rule("hard swish", "Mul Div")
def hard_swish(draft: Draft, node: Node) -> Change | None:
    scale, names = _product(draft, node)
    if draft.opset < 14 or len(names) != 2:
        return None
    for x, gate in (names, names[::-1]):
        if _hard_gate(draft, gate, x, scale):
            return Change((Node(node.name, "HardSwish", (x,), node.outputs, {}),))
    return None


def _hard_gate(draft: Draft, name: str, x: str, scale: float) -> bool:
    """Whether it is what the hard swish of x multiplies x by, up to a factor."""
    if not draft.alone(name):
        return False
    gate = draft.maker(name, "HardSigmoid")
    if gate is not None:
        settings = float(gate.attributes.get("alpha", 0.2)) * scale, float(gate.attributes.get("beta", 0.5)) * scale
        return gate.inputs[0] == x and _near(scale, 1) and _near(settings[0], 1 / 6) and _near(settings[1], 0.5)
    clip = draft.maker(name, "Clip")
    held = _bounds(draft, clip) if clip is not None else None
    if held is None or held[1] != 0 or not _near(held[2] * scale, 1):
        return False
    source, a, b = _linear(draft, held[0])
    return source == x and _near(a * scale, 1 / 6) and _near(b * scale, 0.5)


def _product(draft: Draft, node: Node) -> tuple[float, list[str]]:
    """A node as a number times other values; what is only for it is taken apart."""
    scale, names = 1.0, []
    ahead = [node.outputs[0]]
    while ahead:
        name = ahead.pop(0)
        inner = draft.maker(name, "Mul", "Div") if name == node.outputs[0] or draft.alone(name) else None
        factor = _factor(draft, name) if inner is not None else None
        if factor is not None:
            scale *= factor[1]
            ahead.insert(0, factor[0])
        elif inner is not None and inner.operator == "Mul" and draft.floats(name):
            ahead[:0] = inner.inputs
        else:
            names.append(name)
    return scale, names


@rule("gelu", "Mul Div")
def gelu(draft: Draft, node: Node) -> Change | None:
    """x/2 · (1 + erf(x/√2)), in whatever order."""
    if draft.opset < 20:
        return None
    scale, names = _product(draft, node)
    if len(names) != 2 or not _near(scale, 0.5):
        return None
    for x, other in (names, names[::-1]):
        plus = _offset(draft, other)
        erf = draft.maker(plus[0], "Erf") if plus is not None and _near(plus[1], 1) and draft.alone(other) else None
        inner = _factor(draft, erf.inputs[0]) if erf is not None and draft.alone(erf.outputs[0]) else None
        if inner is not None and inner[0] == x and _near(inner[1], 0.5**0.5):
            return Change((Node(node.name, "Gelu", (x,), node.outputs, {}),))
    return None


# Reductions.


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
        plus = _offset(draft, root.inputs[0]) if root is not None else None
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


RULES = (
    bounds,
    hard_swish,
    hard_sigmoid,
    gelu,
    layer_norm,
    layer_norm_bias,
    global_average,
    softmax,
    log_softmax,
)
