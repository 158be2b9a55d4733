"""Bounds and activations written out in pieces, as exporters do, put together again; only those the opset has."""

from __future__ import annotations

import math

import numpy as np

from ...model.graph import Array, Node
from .draft import Change, Draft, rule
from .pieces import factor, linear, near, offset, scalar

_BOUNDING = ("Relu", "Clip", "Max", "Min")


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
    found = scalar(draft, node) if len(node.inputs) == 2 else None
    if found is None:
        return None
    return (found[0], found[1], math.inf) if node.operator == "Max" else (found[0], -math.inf, found[1])


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


@rule("hard sigmoid", "Clip Mul Div")
def hard_sigmoid(draft: Draft, node: Node) -> Change | None:
    """Of what is multiplied and shifted, the part from 0 to 1; or to 6, say, and divided by that."""
    clip: Node | None = node
    scale = 1.0
    if node.operator != "Clip":
        times = factor(draft, node.outputs[0])
        if times is None or not draft.alone(times[0]):
            return None
        clip, scale = draft.maker(times[0], "Clip"), times[1]
    held = _bounds(draft, clip) if clip is not None else None
    if held is None or held[1] != 0 or scale <= 0 or not near(held[2] * scale, 1) or not draft.floats(held[0]):
        return None
    x, a, b = linear(draft, held[0])
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
        alpha, beta = float(gate.attributes.get("alpha", 0.2)), float(gate.attributes.get("beta", 0.5))
        return gate.inputs[0] == x and near(scale, 1) and near(alpha, 1 / 6) and near(beta, 0.5)
    clip = draft.maker(name, "Clip")
    held = _bounds(draft, clip) if clip is not None else None
    if held is None or held[1] != 0 or scale <= 0 or not near(held[2] * scale, 1):
        return False
    source, a, b = linear(draft, held[0])
    return source == x and near(a * scale, 1 / 6) and near(b * scale, 0.5)


def _product(draft: Draft, node: Node) -> tuple[float, list[str]]:
    """A node as a number times other values; what is only for it is taken apart."""
    scale, names = 1.0, []
    ahead = [node.outputs[0]]
    while ahead:
        name = ahead.pop(0)
        inner = draft.maker(name, "Mul", "Div") if name == node.outputs[0] or draft.alone(name) else None
        times = factor(draft, name) if inner is not None else None
        if times is not None:
            scale *= times[1]
            ahead.insert(0, times[0])
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
    if len(names) != 2 or not near(scale, 0.5):
        return None
    for x, other in (names, names[::-1]):
        plus = offset(draft, other)
        erf = draft.maker(plus[0], "Erf") if plus is not None and near(plus[1], 1) and draft.alone(other) else None
        inner = factor(draft, erf.inputs[0]) if erf is not None and draft.alone(erf.outputs[0]) else None
        if inner is not None and inner[0] == x and near(inner[1], 0.5**0.5):
            return Change((Node(node.name, "Gelu", (x,), node.outputs, {}),))
    return None


RULES = (bounds, hard_swish, hard_sigmoid, gelu)
