"""A convolution or product cut by its input channels: each part computes all of the output from the channels it has,
and what they have is added up.

Behind one that was cut by its output channels a part has the channels it needs already. So two of them cost one
exchange instead of two; and everybody adds up all of it, which costs more than an exchange does on cores that share
their caches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from ...model.graph import Array, Graph, Node
from .rules import CONVOLUTIONS, Cut, Kept, Own, Rule, rule, shape_of

_BLOCKED = "com.microsoft.nchwc"
# What engines fuse into a convolution, with the names of its settings.
_ACTIVATIONS: Mapping[str, tuple[str, ...]] = {
    "Clip": ("min", "max"),
    "HardSigmoid": ("alpha", "beta"),
    "HardSwish": (),
    "LeakyRelu": ("alpha",),
    "Relu": (),
    "Sigmoid": (),
    "Tanh": (),
}
_FUSED = ("activation", "activation_params")
# From then on what is clipped to are inputs.
_CLIP_INPUTS = 11


@dataclass(frozen=True, slots=True)
class Summed:
    """`shares` are what the parts with channels of the input compute, `after` what everybody does with that, with these
    constants."""

    shares: Mapping[int, tuple[Node, Rule]]
    after: Sequence[Node]
    constants: Mapping[str, Array]


def summed(node: Node, found: Graph, edges: Sequence[int]) -> Summed | None:
    """The node by the channels of its input, cut there; None where it cannot be done so."""
    axis = _axis(node, found)
    if axis is None or sum(begin < end for begin, end in pairwise(edges)) < 2:
        return None
    made, bias = node.outputs[0], node.inputs[2] if len(node.inputs) > 2 else ""
    plain = replace(
        node,
        operator="Conv" if node.operator in CONVOLUTIONS else node.operator,
        domain=node.domain if node.domain == _BLOCKED else "",
        attributes={name: value for name, value in node.attributes.items() if name not in _FUSED},
    )
    shares: dict[int, tuple[Node, Rule]] = {}
    for part, (begin, end) in enumerate(pairwise(edges)):
        if begin < end:
            # What is added to all of it comes with the first share.
            inputs = (*node.inputs[:2], bias) if bias and not shares else node.inputs[:2]
            share = replace(
                plain, name=f"{node.name} of part {part}", inputs=inputs, outputs=(f"{made} of part {part}",)
            )
            shares[part] = share, Rule((Own(), Cut(axis, node.domain == _BLOCKED), Kept())[: len(inputs)])
    names = [share.outputs[0] for share, _ in shares.values()] + [name for name in node.inputs[3:] if name]
    bent = node.attributes.get("activation")
    whole = f"{made} summed" if bent else made
    after = [Node(f"{node.name} summed", "Add" if len(names) == 2 else "Sum", tuple(names), (whole,), {})]
    constants: dict[str, Array] = {}
    if bent:
        after.append(_activation(node, str(bent), whole, found.opset, constants))
    return Summed(shares, after, constants)


def _axis(node: Node, found: Graph) -> int | None:
    """That of the weights along which the channels of the input lie."""
    if rule(node, found) is None or str(node.attributes.get("activation") or "Relu") not in _ACTIVATIONS:
        return None
    if node.operator in CONVOLUTIONS:
        given, weights = shape_of(found, node.inputs[0]), found.constants[node.inputs[1]].shape
        whole = given is not None and weights[1] == given[1]
        return 1 if whole and int(node.attributes.get("group", 1)) == 1 else None
    if node.operator == "Gemm":
        return 1 if node.attributes.get("transB", 0) else 0
    return 0 if node.operator == "MatMul" else None


def _activation(node: Node, operator: str, given: str, opset: int, constants: dict[str, Array]) -> Node:
    values = dict(zip(_ACTIVATIONS[operator], node.attributes.get("activation_params") or (), strict=False))
    name, outputs = f"{node.name} {operator}", node.outputs
    if operator != "Clip" or opset < _CLIP_INPUTS:
        return Node(name, operator, (given,), outputs, {each: float(value) for each, value in values.items()})
    for each, value in values.items():
        constants[f"{node.outputs[0]} {each}"] = np.array(value, np.float32)
    return Node(name, operator, (given, *(f"{node.outputs[0]} {each}" for each in values)), outputs, {})
