"""The same answers from fewer nodes: what engines do to a graph, and what most of them leave.

Each rewrite is exact up to rounding. They are tried until none applies any more, so that fusing again does nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from ...model.graph import Graph, nested
from . import activations, affine, linear, pads, reductions, same, siblings, views
from .draft import Draft, Rule
from .siblings import Pays, Siblings, small

__all__ = ["Pays", "Siblings", "applied", "fuse", "small"]

# Before it, operators were broadcast and trained otherwise.
_LEAST_OPSET = 7
# Patterns go first: what is folded into a layer is missing in them.
_PATTERNS: tuple[Rule, ...] = (*views.RULES, *activations.RULES, *reductions.RULES)
_ALL: tuple[Rule, ...] = (*_PATTERNS, *pads.RULES, *affine.RULES, *linear.RULES)


def fuse(graph: Graph, *, siblings: bool = True) -> Graph:
    """The graph with every rewrite done that applies; itself where none does. `siblings`: whether convolutions beside
    each other are done as one, where that pays."""
    return applied(graph, pays=small if siblings else None)[0]


def applied(graph: Graph, *, pays: Pays | None = small) -> tuple[Graph, dict[str, int]]:
    """What `fuse` makes, and how often each rewrite was done. `pays` says of convolutions beside each other whether to
    do them as one; None: never."""
    if graph.opset < _LEAST_OPSET or any(nested(node) for node in graph.nodes):
        return graph, {}
    counts = Counter[str]()
    alive = tuple(Draft(graph).ordered())
    counts["dead"] = len(graph.nodes) - len(alive)
    draft = Draft(replace(graph, nodes=alive))
    for rules in (_PATTERNS, _ALL):
        while _swept(draft, rules, counts):
            pass
    while pays is not None and (found := siblings.merge(draft, pays)):
        counts["siblings merged"] += found
        while _swept(draft, _ALL, counts):
            pass
    counts["settings shared"] += same.share(draft)
    done = {name: count for name, count in counts.items() if count}
    return (draft.graph(), done) if done else (graph, {})


def _swept(draft: Draft, rules: Sequence[Rule], counts: Counter[str]) -> bool:
    """Every rule at every node, once; whether anything changed."""
    before = counts.total()
    for node in list(draft.ordered()):
        for each in rules:
            if not draft.there(node):
                break
            if node.operator not in each.operators or node.domain:
                continue
            change = each.find(draft, node)
            if change is not None and draft.put([node], change):
                counts[each.name] += 1
    counts["computed twice"] += same.merge(draft)
    return counts.total() > before
