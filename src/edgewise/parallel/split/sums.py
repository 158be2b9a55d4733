"""A convolution or product cut by its input channels: each part computes all of the output from the channels it has,
and what they have is added up.

Behind one that was cut by its output channels a part has the channels it needs already. So two of them cost one
exchange instead of two; and everybody adds up all of it, which costs more than an exchange does on cores that share
their caches.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from ...model.graph import Graph, Node
from .rules import Cut, Kept, Own, Rule, Take, rule

Edges = tuple[int, ...]


def partial_rule(node: Node, found: Graph) -> Rule | None:
    """What a part takes for its share of the sum: its channels of the input, and of the weights those that belong to
    them. None where it cannot be done so."""
    if node.domain or rule(node, found) is None or len(node.inputs) > 3:
        return None
    if node.operator == "Conv":
        axis = 1 if int(node.attributes.get("group", 1)) == 1 else None
    elif node.operator == "Gemm":
        axis = 1 if node.attributes.get("transB", 0) else 0
    else:
        axis = 0 if node.operator == "MatMul" else None
    if axis is None:
        return None
    takes: tuple[Take, ...] = (Own(), Cut(axis), Kept())
    return Rule(takes[: len(node.inputs)])


def summands(node: Node, known: Rule, edges: Edges) -> dict[int, tuple[Node, Rule]]:
    """For each part that has channels of the input its share of the sum; what is added to it comes with the first."""
    found: dict[int, tuple[Node, Rule]] = {}
    for part, (begin, end) in enumerate(pairwise(edges)):
        if begin < end:
            takes = len(node.inputs) if not found else 2
            share = replace(
                node,
                name=f"{node.name} of part {part}",
                inputs=node.inputs[:takes],
                outputs=(f"{node.outputs[0]} of part {part}",),
            )
            found[part] = share, Rule(known.takes[:takes])
    return found


def summed(node: Node, shares: dict[int, tuple[Node, Rule]]) -> Node:
    names = tuple(share.outputs[0] for share, _ in shares.values())
    return Node(f"{node.name} summed", "Add" if len(names) == 2 else "Sum", names, node.outputs, {})
