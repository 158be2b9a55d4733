"""Operators as an engine ran them, joined with the nodes of the graph: by name and kind, never by guessing."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence

from ..core.profile import OpTime
from ..model.cost import NodeCost

# Operators that do the work of a network, by what engines call them. Whatever else an engine's fused operator does, it
# is named after one of these.
_HEAVY = {
    "conv": r"conv|convolution",
    "deconv": r"deconv|convtranspose|convolutionbackprop|convolutiontranspose",
    "product": r"gemm|matmul|fullyconnected|innerproduct",
    "pool": r"pool",
}
# pnnx, which converts for ncnn, numbers layers anew: `conv_21` is then not the `conv_21` of the model.
_RENAMES = ("ncnn",)
# Engines run nodes in nearly the order of the file. Names that come in another order are an engine's own.
_IN_ORDER = 0.7


def join(ops: Sequence[OpTime], nodes: Sequence[NodeCost], engine: str) -> Mapping[int, int]:
    """The index of an operator to that of the node whose time it is; what does not match is left out.

    A fused operator carries the name of the first or of the last node it is made of. Named after another kind than it
    is (a convolution called `relu_1`), it belongs to the only node of its kind that no other operator accounts for,
    between the one it is named after and the one before that some operator is named after; where there are two, or
    none, to nobody.
    """
    if engine in _RENAMES:
        return {}
    place = {node.name: index for index, node in enumerate(nodes) if node.name}
    named = {i: n for i, op in enumerate(ops) if op.samples_ns and (n := _named(op.name, place)) is not None}
    taken = set(named.values())
    found = {}
    for i, n in named.items():
        mine, its = _kind(ops[i].operator), _kind(nodes[n].operator)
        if mine == its != "" or (mine == its and ops[i].name == nodes[n].name):
            found[i] = n
        elif mine:
            start = n
            while start and start - 1 not in taken:
                start -= 1
            same = [k for k in range(start, n + 1) if _kind(nodes[k].operator) == mine]
            if len(same) == 1:
                found[i] = same[0]
    return found if _in_order([found[i] for i in sorted(found)]) else {}


def _named(name: str, place: Mapping[str, int]) -> int | None:
    """The node of that name, or the one whose name is the longest part of it: `conv_1_nchwc` is of `conv_1`, `conv_10`
    is not."""
    if name in place:
        return place[name]
    inside = [n for n in place if n in name and re.search(rf"(?<![0-9A-Za-z]){re.escape(n)}(?![0-9A-Za-z])", name)]
    longest = [n for n in inside if len(n) == max(map(len, inside))]
    return place[longest[0]] if len(longest) == 1 else None


def _kind(operator: str) -> str:
    """Of the heavy ones; empty for all others, which engines call as they like."""
    plain = operator.rpartition(".")[2].lower()
    if plain.startswith("reorder"):
        return ""
    if re.search(_HEAVY["deconv"], plain):
        return "deconv"
    return next((kind for kind, words in _HEAVY.items() if re.search(words, plain)), "")


def _in_order(indices: Sequence[int]) -> bool:
    """Whether most of them, in some long row, do not go back."""
    ends: list[int] = []
    for index in indices:
        at = bisect_right(ends, index)
        ends[at : at + 1] = [index]
    return len(ends) >= _IN_ORDER * len(indices)
