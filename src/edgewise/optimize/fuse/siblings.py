"""Convolutions that look at the same input in the same way, done as one with all their filters.

What comes out is divided again, unless it was to be put together anyway. An activation that all of them have is done
before that: engines do it along with the convolution.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...core.types import Tensor
from ...model.graph import Array, Node
from .draft import Change, Draft, Shape, plain

# Dividing copies, so what comes out together should be small beside what a core keeps near itself: 256 KiB of floats.
_SMALL_ELEMENTS = 1 << 16
# Engines compute channels in blocks of this many: a block that is not full costs as much as one that is.
_BLOCK = 16
_ACTIVATIONS = frozenset(
    ["Clip", "Elu", "HardSigmoid", "HardSwish", "LeakyRelu", "Relu", "Selu", "Sigmoid", "Softplus", "Tanh"]
)
# What engines like to do along with a convolution, and can no longer where it is divided first.
_FUSED = _ACTIVATIONS | {"Add", "BatchNormalization", "Div", "Mul", "PRelu", "Sub", "Sum"}


@dataclass(frozen=True, slots=True)
class Siblings:
    """Sizes of what they take and of what each makes; `joined`: what they make stays together, nothing is divided."""

    taken: Shape
    made: tuple[Shape, ...]
    joined: bool


Pays = Callable[[Siblings], bool]


def small(siblings: Siblings) -> bool:
    """Where nothing has to be divided; or little, and together they fill blocks of channels that each leaves open: with
    all blocks full (GoogLeNet) there is as much to compute as before, and the copy."""
    if siblings.joined:
        return True
    channels = [shape[1] for shape in siblings.made]
    fewer = math.ceil(sum(channels) / _BLOCK) < sum(math.ceil(each / _BLOCK) for each in channels)
    return fewer and sum(math.prod(shape) for shape in siblings.made) <= _SMALL_ELEMENTS


@dataclass(frozen=True, slots=True)
class _Member:
    conv: Node
    activation: Node | None

    @property
    def end(self) -> str:
        return (self.activation or self.conv).outputs[0]

    @property
    def nodes(self) -> list[Node]:
        return [self.conv] if self.activation is None else [self.conv, self.activation]


def merge(draft: Draft, pays: Pays) -> int:
    """All that pay, merged; how many convolutions are gone."""
    groups: dict[Hashable, list[_Member]] = defaultdict(list)
    for node in draft.ordered():
        member = _member(draft, node)
        if member is not None:
            groups[_kind(draft, member)].append(member)
    count = 0
    for members in groups.values():
        if len(members) > 1:
            count += _merge(draft, members, pays)
    return count


def _member(draft: Draft, node: Node) -> _Member | None:
    if node.operator != "Conv" or node.domain or int(node.attributes.get("group", 1)) != 1:
        return None
    known = all(name in draft.constants for name in node.inputs[1:] if name) and draft.floats(node.inputs[1])
    if not known or draft.shape(node.inputs[0]) is None or draft.shape(node.outputs[0]) is None:
        return None
    readers = draft.readers(node.outputs[0])
    if draft.alone(node.outputs[0]) and readers[0].operator in _ACTIVATIONS:
        only = all(name in draft.constants for name in readers[0].inputs[1:] if name)
        return _Member(node, readers[0]) if only else None
    return None if any(reader.operator in _FUSED for reader in readers) else _Member(node, None)


def _kind(draft: Draft, member: _Member) -> Hashable:
    """The same for those that can be one."""
    weight, settings = draft.constants[member.conv.inputs[1]], dict(member.conv.attributes)
    spatial = weight.ndim - 2
    usual = {"strides": [1] * spatial, "dilations": [1] * spatial, "pads": [0] * 2 * spatial, "auto_pad": "NOTSET"}
    settings = usual | settings | {"kernel_shape": list(weight.shape[2:]), "group": 1}
    then: tuple[Hashable, ...] = ()
    if member.activation is not None:
        bounds = tuple((name and draft.constants[name].tobytes()) for name in member.activation.inputs[1:])
        then = member.activation.operator, plain(member.activation.attributes), bounds
    return member.conv.inputs[0], weight.dtype.name, plain(settings), then


def _merge(draft: Draft, members: list[_Member], pays: Pays) -> int:
    taken = draft.shape(members[0].conv.inputs[0])
    made = {member.end: draft.shape(member.conv.outputs[0]) for member in members}
    assert taken is not None

    def worth(those: Sequence[_Member], joined: bool) -> bool:
        shapes = tuple(shape for member in those if (shape := made[member.end]) is not None)
        return pays(Siblings(taken, shapes, joined))

    count, left = 0, members
    for concat in _concats(draft, members):
        for run in _runs(draft, left, concat):
            if worth(run, True):
                # The node may have been replaced for the run before.
                now = draft.maker(concat, "Concat")
                assert now is not None
                _join(draft, run, now)
                count += len(run) - 1
                ends = {member.end for member in run}
                left = [member for member in left if member.end not in ends]
    if len(left) > 1 and worth(left, False):
        _divide(draft, left)
        count += len(left) - 1
    return count


def _concats(draft: Draft, members: Sequence[_Member]) -> list[str]:
    found = [reader.outputs[0] for member in members for reader in draft.readers(member.end) if draft.alone(member.end)]
    return [name for name in dict.fromkeys(found) if draft.maker(name, "Concat") is not None]


def _runs(draft: Draft, members: Sequence[_Member], concat: str) -> list[list[_Member]]:
    """Members whose values this one puts together along the channels, next to each other, as they come."""
    node = draft.maker(concat, "Concat")
    shape = draft.shape(concat)
    if node is None or shape is None or int(node.attributes.get("axis", 1)) % len(shape) != 1:
        return []
    by_end = {member.end: member for member in members if draft.alone(member.end)}
    runs: list[list[_Member]] = [[]]
    for name in node.inputs:
        if name in by_end:
            runs[-1].append(by_end[name])
        else:
            runs.append([])
    return [run for run in runs if len(run) > 1]


def _together(draft: Draft, members: Sequence[_Member]) -> tuple[list[Node], dict[str, Array], list[Tensor]]:
    """One convolution with the filters of all, and the activation they have; the last value is what comes out."""
    first = members[0].conv
    weights = [draft.constants[member.conv.inputs[1]] for member in members]
    biases = [_bias(draft, member.conv) for member in members]
    names = [draft.fresh(first.inputs[1])]
    constants: dict[str, Array] = {names[0]: np.concatenate(weights)}
    if any(bias is not None for bias in biases):
        names.append(draft.fresh(f"{first.inputs[1]}.bias"))
        each = [np.zeros(len(w), w.dtype) if b is None else b for w, b in zip(weights, biases, strict=True)]
        constants[names[1]] = np.concatenate(each)
    shape = draft.shape(first.outputs[0]) or ()
    dtype = draft.dtype(first.outputs[0])
    sizes = (shape[0], len(constants[names[0]]), *shape[2:])
    nodes: list[Node] = []
    values: list[Tensor] = []
    for node in members[0].nodes:
        value = Tensor(draft.fresh(node.outputs[0]), dtype, sizes)
        inputs = (node.inputs[0], *names) if node is first else (values[-1].name, *node.inputs[1:])
        nodes.append(replace(node, inputs=inputs, outputs=(value.name,)))
        values.append(value)
    return nodes, constants, values


def _bias(draft: Draft, conv: Node) -> Array | None:
    return draft.constants[conv.inputs[2]] if len(conv.inputs) > 2 and conv.inputs[2] else None


def _join(draft: Draft, members: Sequence[_Member], concat: Node) -> None:
    nodes, constants, values = _together(draft, members)
    ends = {member.end for member in members}
    inputs = tuple(values[-1].name if name == members[0].end else name for name in concat.inputs)
    nodes.append(replace(concat, inputs=tuple(name for name in inputs if name not in ends)))
    gone = [node for member in members for node in member.nodes]
    draft.put([*gone, concat], Change(tuple(nodes), constants, tuple(values)))


def _divide(draft: Draft, members: Sequence[_Member]) -> None:
    nodes, constants, values = _together(draft, members)
    sizes = [len(draft.constants[member.conv.inputs[1]]) for member in members]
    name, ends = draft.fresh(f"{members[0].conv.name}.split"), tuple(member.end for member in members)
    if draft.opset >= 13:
        settings = draft.fresh(f"{name}.sizes")
        constants[settings] = np.array(sizes, np.int64)
        nodes.append(Node(name, "Split", (values[-1].name, settings), ends, {"axis": 1}))
    else:
        nodes.append(Node(name, "Split", (values[-1].name,), ends, {"axis": 1, "split": sizes}))
    gone = [node for member in members for node in member.nodes]
    draft.put(gone, Change(tuple(nodes), constants, tuple(values)))
