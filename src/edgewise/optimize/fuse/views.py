"""What changes nothing, and what only changes how values are looked at.

Sizes are known here for one batch, but the graph may be opened for others later: nothing is taken for superfluous that
is so only because the batch is one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ...core.types import Tensor
from ...model.graph import Node
from .draft import Change, Draft, rule, text

_FAR = 2**31 - 1  # the end of a slice that means all there is
_VIEWS = ("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose")
# Each number by itself, wherever it stands.
_ELEMENTWISE = (
    "Abs", "Ceil", "Celu", "Elu", "Erf", "Exp", "Floor", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu", "Log", "Mish",
    "Neg", "Reciprocal", "Relu", "Round", "Selu", "Sigmoid", "Softplus", "Softsign", "Sqrt", "Tanh",
)  # fmt: skip


# What changes nothing.


@rule(
    "superfluous",
    "Identity Dropout Cast Reshape Flatten Transpose Slice Resize Upsample Pad Concat Sum Max Min Mean Expand Tile "
    "Add Sub Mul Div Pow",
)
def superfluous(draft: Draft, node: Node) -> Change | None:
    """Its first input is what it makes."""
    kept = _kept(draft, node)
    return None if kept is None else Change(instead={node.outputs[0]: kept})


def _kept(draft: Draft, node: Node) -> str | None:
    x, y = node.inputs[0], node.outputs[0]
    if node.operator == "Identity":
        return x
    if node.operator == "Dropout":
        mode = node.inputs[2] if len(node.inputs) > 2 else ""
        trains = bool(mode) and (mode not in draft.constants or bool(draft.constants[mode].any()))
        masked = any(draft.used(name) for name in node.outputs[1:] if name)
        return None if trains or masked else x
    if node.operator in ("Concat", "Sum", "Max", "Min", "Mean"):
        return x if len(node.inputs) == 1 else None
    if draft.shape(x) is None or draft.dtype(x) == "unknown":
        return None
    if node.operator in ("Add", "Sub", "Mul", "Div", "Pow"):
        return _neutral(draft, node)
    if draft.shape(x) != draft.shape(y) or draft.dtype(x) != draft.dtype(y):
        return None
    if node.operator in ("Cast", "Reshape", "Expand"):
        return x
    if node.operator == "Flatten":
        return x if int(node.attributes.get("axis", 1)) in (1, -1) else None
    if node.operator == "Transpose":
        return x if _permutation(draft, node) == list(range(len(draft.shape(x) or ()))) else None
    if node.operator == "Tile":
        repeats = draft.integers(node, 1, "repeats")
        return x if repeats is not None and set(repeats) <= {1} else None
    if node.operator == "Pad":
        pads = draft.integers(node, 1, "pads")
        return x if pads is not None and not any(pads) else None
    return x if _whole(draft, node) else None


def _neutral(draft: Draft, node: Node) -> str | None:
    """Zero added, one multiplied by."""
    none = 0.0 if node.operator in ("Add", "Sub") else 1.0
    first, second = node.inputs[:2]
    for x, other in ((first, second), (second, first)):
        array = draft.constants.get(other)
        swapped = x == second
        if array is None or x in draft.constants or (swapped and node.operator not in ("Add", "Mul")):
            continue
        same = draft.shape(x) == draft.shape(node.outputs[0]) and draft.dtype(x) == draft.dtype(node.outputs[0])
        if same and array.dtype.kind in "fiu" and bool((array == none).all()):
            return x
    return None


def _whole(draft: Draft, node: Node) -> bool:
    """Whether a Slice or Resize leaves everything as it is; their sizes are those of their input."""
    shape = draft.shape(node.inputs[0]) or ()
    if node.operator == "Slice":
        starts, ends = draft.integers(node, 1, "starts"), draft.integers(node, 2, "ends")
        axes, steps = draft.integers(node, 3, "axes"), draft.integers(node, 4, "steps")
        if starts is None or ends is None or any(step != 1 for step in steps or ()):
            return False
        axes = list(range(len(starts))) if axes is None else axes
        batch = [place for place, axis in enumerate(axes) if axis % len(shape) == 0]
        return all(starts[place] == 0 and ends[place] >= _FAR for place in batch)
    if text(node, "coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize":
        return False
    if len(node.inputs) > 3 and node.inputs[3]:
        sizes = draft.integers(node, 3, "")
        return sizes is not None and sizes == list(shape)
    # Scales are the second or the third input, by opset; what is only nearly 1 moves places.
    named = [name for name in node.inputs[1:] if name]
    scales = draft.constants.get(named[-1]) if named else node.attributes.get("scales")
    return scales is not None and bool((np.asarray(scales) == 1).all()) and np.asarray(scales).size == len(shape)


# Other looks at the same numbers.


@rule("views merged", "Reshape Flatten Squeeze Unsqueeze Transpose")
def views(draft: Draft, node: Node) -> Change | None:
    """Two in a row are one."""
    before = draft.maker(node.inputs[0], *_VIEWS)
    if before is None or (before.operator, node.operator) == ("Transpose", "Transpose"):
        return None
    first, second = _target(draft, before), _target(draft, node)
    shape, between = draft.shape(before.inputs[0]), draft.shape(node.inputs[0])
    if first is None or second is None or not shape or not between:
        return None
    if second[0] in (0, 1) and shape[0] != between[0]:
        return None
    # A zero copies a size of what is reshaped, which is what the first made.
    if any(size == 0 and place >= len(first) for place, size in enumerate(second)):
        return None
    target = [first[place] if size == 0 else size for place, size in enumerate(second)]
    if target.count(-1) > 1:
        return None
    source = (before.inputs[0],)
    if target == [0, -1]:
        return Change((Node(node.name, "Flatten", source, node.outputs, {"axis": 1}),))
    name = draft.fresh(f"{node.name}.shape")
    made = Node(node.name, "Reshape", (*source, name), node.outputs, {})
    return Change((made,), {name: np.array(target, np.int64)})


def _target(draft: Draft, node: Node) -> list[int] | None:
    """As Reshape would be told: 0 is a size of what goes in, -1 what is left."""
    shape, made = draft.shape(node.inputs[0]), draft.shape(node.outputs[0])
    if not shape or not made:
        return None
    if node.operator == "Reshape":
        return None if node.attributes.get("allowzero", 0) else draft.integers(node, 1, "shape")
    if node.operator == "Flatten":
        return [0, -1] if int(node.attributes.get("axis", 1)) in (1, 1 - len(shape)) else None
    if node.operator == "Transpose":
        return [0, *made[1:]] if _moves_ones(_permutation(draft, node), shape) else None
    axes = draft.integers(node, 1, "axes")
    rank = max(len(shape), len(made))
    if axes is None or any(axis % rank == 0 for axis in axes):
        return None
    return [0, *made[1:]]


def _permutation(draft: Draft, node: Node) -> list[int]:
    rank = len(draft.shape(node.inputs[0]) or ())
    return [int(axis) for axis in node.attributes.get("perm") or range(rank - 1, -1, -1)]


def _moves_ones(order: Sequence[int], shape: Sequence[int]) -> bool:
    """Whether only places without extent change, the batch apart, which may have one another time."""
    long = [axis for axis in order if shape[axis] != 1 and axis]
    return order[0] == 0 and long == sorted(long)


@rule("reshaped to rows", "Reshape")
def rows(draft: Draft, node: Node) -> Change | None:
    """Flatten says the same without naming a size."""
    shape, made, target = draft.shape(node.inputs[0]), draft.shape(node.outputs[0]), _target(draft, node)
    if not shape or not made or target is None or len(shape) < 3 or len(made) != 2 or shape[0] != made[0]:
        return None
    return Change((Node(node.name, "Flatten", node.inputs[:1], node.outputs, {"axis": 1}),))


@rule("transpositions merged", "Transpose")
def transpositions(draft: Draft, node: Node) -> Change | None:
    """Two of them, one after the other or with something between that does not care, are one or none."""
    if draft.shape(node.inputs[0]) is None:
        return None
    between, ends = node.inputs[0], []
    while (each := draft.maker(between, *_ELEMENTWISE, "Clip")) is not None:
        if not draft.alone(between) or any(name and name not in draft.constants for name in each.inputs[1:]):
            return None
        ends.append(each)
        between = each.inputs[0]
    before = draft.maker(between, "Transpose")
    if before is None or draft.shape(before.inputs[0]) is None:
        return None
    first, second = _permutation(draft, before), _permutation(draft, node)
    order = [first[axis] for axis in second]
    neither = order == list(range(len(order)))
    # With something between, the first has to go for it to pay.
    if ends and not neither and not draft.alone(between):
        return None
    source, nodes, values = before.inputs[0], [], []
    shape, dtype = draft.shape(node.outputs[0]), draft.dtype(node.outputs[0])
    if not ends and neither:
        return Change(instead={node.outputs[0]: source})
    if not neither:
        made = draft.fresh(node.outputs[0]) if ends else node.outputs[0]
        nodes.append(Node(node.name, "Transpose", (source,), (made,), {"perm": order}))
        values.append(Tensor(made, dtype, shape))
        source = made
    for place, each in enumerate(reversed(ends)):
        made = node.outputs[0] if place == len(ends) - 1 else draft.fresh(each.outputs[0])
        nodes.append(replace(each, inputs=(source, *each.inputs[1:]), outputs=(made,)))
        values.append(Tensor(made, dtype, shape))
        source = made
    return Change(tuple(nodes), values=tuple(values))


RULES = (superfluous, transpositions, views, rows)
