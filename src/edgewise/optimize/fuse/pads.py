"""Padding done by the layer that comes after it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...model.graph import Node
from .draft import Change, Draft, rule, text

# What comes out of these is never negative.
_POSITIVE = ("Abs", "Exp", "HardSigmoid", "Relu", "Sigmoid", "Softmax", "Softplus", "Sqrt")
# What comes out of these lies between what went in.
_WITHIN = ("MaxPool", "Concat", "Reshape", "Flatten", "Transpose", "Slice", "Identity", "GlobalMaxPool")


@rule("padding folded", "Conv AveragePool MaxPool")
def pads(draft: Draft, node: Node) -> Change | None:
    pad = draft.maker(node.inputs[0], "Pad")
    shape = draft.shape(node.inputs[0])
    if pad is None or shape is None or text(node, "auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
        return None
    found = _around(draft, pad, len(shape))
    if found is None:
        return None
    value, begins, ends = found
    spatial = len(shape) - 2
    own = [int(each) for each in node.attributes.get("pads") or [0] * 2 * spatial]
    total = [own[place] + each for place, each in enumerate((*begins, *ends))]
    attributes = {name: setting for name, setting in node.attributes.items() if name != "auto_pad"} | {"pads": total}
    if node.operator == "Conv":
        if value != 0:
            return None
    elif not _pools(draft, node, pad, value, total):
        return None
    if node.operator == "AveragePool":
        # What was padded counted like everything else.
        if value != 0 or (any(own) and not node.attributes.get("count_include_pad", 0)):
            return None
        attributes["count_include_pad"] = 1
    return Change((replace(node, inputs=(pad.inputs[0], *node.inputs[1:]), attributes=attributes),))


def _around(draft: Draft, pad: Node, rank: int) -> tuple[float, list[int], list[int]] | None:
    """With what, and how much before and behind along each side of the image; None where it is more than that."""
    if text(pad, "mode", "constant") != "constant":
        return None
    given = draft.integers(pad, 1, "pads")
    value: float | None = float(pad.attributes.get("value", 0.0))
    if len(pad.inputs) > 2 and pad.inputs[2]:
        value = draft.number(pad.inputs[2])
    if given is None or value is None or min(given) < 0:
        return None
    axes = list(range(rank))
    if len(pad.inputs) > 3 and pad.inputs[3]:
        named = draft.integers(pad, 3, "")
        if named is None:
            return None
        axes = [axis % rank for axis in named]
    begins, ends = [0] * rank, [0] * rank
    for place, axis in enumerate(axes):
        begins[axis], ends[axis] = given[place], given[place + len(axes)]
    return (value, begins[2:], ends[2:]) if not any(begins[:2] + ends[:2]) else None


def _pools(draft: Draft, node: Node, pad: Node, value: float, total: list[int]) -> bool:
    """Whether a pool can pad so: no window lies in the padding alone, and the largest is never a padded one."""
    kernel = [int(size) for size in node.attributes["kernel_shape"]]
    plain = not node.attributes.get("ceil_mode", 0) and set(node.attributes.get("dilations") or [1]) == {1}
    if not plain or any(each >= size for each, size in zip(total, (*kernel, *kernel), strict=True)):
        return False
    if node.operator == "AveragePool":
        return True
    lowest = float(np.finfo(np.float32).min)
    return len([name for name in node.outputs if name]) == 1 and (
        value <= lowest or (value <= 0 and _positive(draft, pad.inputs[0]))
    )


def _positive(draft: Draft, name: str) -> bool:
    """Whether no number of it can be below zero."""
    if draft.maker(name, *_POSITIVE) is not None:
        return True
    clip = draft.maker(name, "Clip")
    if clip is not None:
        low = clip.attributes.get("min")
        if low is None and len(clip.inputs) > 1:
            low = draft.number(clip.inputs[1])
        return low is not None and low >= 0
    within = draft.maker(name, *_WITHIN)
    if within is None:
        return False
    sources = within.inputs if within.operator == "Concat" else within.inputs[:1]
    return all(_positive(draft, each) for each in sources)


RULES = (pads,)
