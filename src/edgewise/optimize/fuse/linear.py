"""Linear layers with nothing between them: two convolutions as one, and averages before a convolution of each place.

Done where there is less to multiply then.
"""

from __future__ import annotations

import math

import numpy as np

from ...core.types import Tensor
from ...model.graph import Array, Node
from .affine import padded
from .draft import Change, Draft, rule, stored, text


@rule("convolutions collapsed", "Conv")
def collapsed(draft: Draft, node: Node) -> Change | None:
    """k×k then 1×1; or 1×1 then k×k, unless what the first adds would be missing in the padding."""
    first = draft.maker(node.inputs[0], "Conv")
    if first is None or not draft.alone(node.inputs[0]) or not (_plain(draft, first) and _plain(draft, node)):
        return None
    before, after = draft.constants[first.inputs[1]], draft.constants[node.inputs[1]]
    made = draft.shape(node.outputs[0])
    between = draft.shape(node.inputs[0])
    if made is None or between is None:
        return None
    point = _point(node, after)
    kernel = before.shape[2:] if point else after.shape[2:]
    if not point and not (_point(first, before) and set(first.attributes.get("strides") or [1]) == {1}):
        return None
    apart = math.prod(between) * math.prod(before.shape[1:]) + math.prod(made) * math.prod(after.shape[1:])
    if math.prod(made) * before.shape[1] * math.prod(kernel) >= apart:
        return None
    # Padding by name goes by the stride, which is another then.
    named = text(first, "auto_pad", "NOTSET").startswith("SAME")
    if point and named and set(node.attributes.get("strides") or [1]) != {1}:
        return None
    added = _bias(draft, first)
    if not point and added.any() and padded(node, kernel):
        return None
    return _joined(draft, first, node, added, point)


def _joined(draft: Draft, first: Node, node: Node, added: Array, point: bool) -> Change | None:
    before, after = draft.weights(first.inputs[1]), draft.weights(node.inputs[1])
    assert before is not None
    assert after is not None
    # Filters of the second over channels of the first; then over those it takes.
    weight = np.moveaxis(np.tensordot(after, before, axes=(1, 0)), after.ndim - 1, 1)
    weight = weight.reshape(after.shape[0], before.shape[1], *(before.shape[2:] if point else after.shape[2:]))
    bias = _bias(draft, node) + after.reshape(*after.shape[:2], -1).sum(axis=2) @ added
    window = first if point else node
    steps = [int(each) for each in window.attributes.get("strides") or [1] * (after.ndim - 2)]
    if point:
        skipped = [int(each) for each in node.attributes.get("strides") or [1] * (after.ndim - 2)]
        steps = [a * b for a, b in zip(steps, skipped, strict=True)]
    kept = {name: value for name, value in window.attributes.items() if name in ("pads", "auto_pad", "dilations")}
    attributes = {**kept, "kernel_shape": list(weight.shape[2:]), "strides": steps, "group": 1}
    names = [draft.fresh(node.inputs[1])]
    arrays = {names[0]: weight}
    if bias.any():
        names.append(draft.fresh(f"{node.inputs[1]}.bias"))
        arrays[names[1]] = bias
    constants = stored(arrays, draft.constants[node.inputs[1]].dtype)
    if constants is None:
        return None
    return Change((Node(node.name, "Conv", (first.inputs[0], *names), node.outputs, attributes),), constants)


@rule("averaged first", "AveragePool GlobalAveragePool")
def averaged(draft: Draft, node: Node) -> Change | None:
    """A 1×1 convolution of averages is the average of what it makes of each place, of which there are more."""
    conv = draft.maker(node.inputs[0], "Conv")
    if conv is None or not draft.alone(node.inputs[0]) or any(name not in draft.constants for name in conv.inputs[1:]):
        return None
    shape, between, made = (draft.shape(name) for name in (conv.inputs[0], node.inputs[0], node.outputs[0]))
    weight = draft.constants[conv.inputs[1]]
    if shape is None or between is None or made is None or not _point(conv, weight):
        return None
    window = node.attributes.get("kernel_shape") or between[2:]
    if set(conv.attributes.get("strides") or [1]) != {1} or padded(node, window) or node.attributes.get("ceil_mode", 0):
        return None
    places = math.prod(made) // made[1]
    each = math.prod(window) * places
    apart = math.prod(between) * weight.shape[1] + made[1] * each
    if math.prod(made) * weight.shape[1] + shape[1] * each >= apart:
        return None
    pooled = Tensor(draft.fresh(node.outputs[0]), draft.dtype(conv.inputs[0]), (*shape[:2], *made[2:]))
    nodes = (
        Node(node.name, node.operator, conv.inputs[:1], (pooled.name,), node.attributes),
        Node(conv.name, "Conv", (pooled.name, *conv.inputs[1:]), node.outputs, conv.attributes),
    )
    return Change(nodes, values=(pooled,))


def _plain(draft: Draft, node: Node) -> bool:
    """Whether its weights are known, and every filter takes all channels."""
    known = all(name in draft.constants for name in node.inputs[1:] if name)
    return known and draft.floats(node.inputs[1]) and int(node.attributes.get("group", 1)) == 1


def _point(node: Node, weight: Array) -> bool:
    return math.prod(weight.shape[2:]) == 1 and not padded(node, weight.shape[2:])


def _bias(draft: Draft, node: Node) -> Array:
    named = node.inputs[2] if len(node.inputs) > 2 else ""
    found = draft.weights(named) if named else None
    return np.zeros(draft.constants[node.inputs[1]].shape[0]) if found is None else found


RULES = (collapsed, averaged)
