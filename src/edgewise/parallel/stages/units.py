"""A graph as a row of units: the places where it can be cut, with what is alive there.

Nodes are in an order they can run in, so all before a place and all behind it can each run in one go. A unit begins
with an operator that multiplies: what follows it (normalization, activation, pooling) is what engines compute along
with it. Places where many values are alive are the first to be given up.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from .pieces import Whole

MOST = 64


@dataclass(frozen=True, slots=True)
class Live:
    """What was made before a place and is read behind it."""

    values: tuple[str, ...]
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Units:
    """Unit `i` has the nodes from `edges[i]` to `edges[i + 1]`; `cuts[i]` is what is alive behind it."""

    whole: Whole
    edges: tuple[int, ...]
    cuts: tuple[Live, ...]
    multiply_adds: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.edges) - 1

    def nodes(self, first: int, last: int) -> range:
        """Of the units from `first` to `last`, the latter not included."""
        return range(self.edges[first], self.edges[last])

    def name(self, unit: int) -> str:
        """A unit is called by its first node."""
        return self.whole.graph.nodes[self.edges[unit]].name


def units(whole: Whole, most: int = MOST) -> Units:
    live = _live(whole)
    count, adds = len(whole.graph.nodes), whole.multiply_adds
    heavy = [place for place in range(1, count) if place in live and adds[place] and any(adds[:place])]
    places = heavy or sorted(live)
    edges = [0, *places, count]
    # Beside multiply-adds, a node counts a little for itself: a graph without any has units too.
    weights = [sum(adds[a:b]) + b - a for a, b in pairwise(edges)]
    while len(weights) > max(1, most):
        least = min(
            range(1, len(weights)),
            key=lambda i: ((weights[i - 1] + weights[i]) / len(live[edges[i]].values) ** 2, i),
        )
        weights[least - 1 : least + 1] = [weights[least - 1] + weights[least]]
        del edges[least]
    return Units(
        whole,
        tuple(edges),
        tuple(live[place] for place in edges[1:-1]),
        tuple(sum(adds[a:b]) for a, b in pairwise(edges)),
    )


def _live(whole: Whole) -> dict[int, Live]:
    """For each place before a node at which the graph can be cut: values whose sizes are known can be handed over."""
    last = {name: max(readers) for name, readers in whole.readers.items()}
    alive: dict[str, int | None] = {}
    found: dict[int, Live] = {}
    for place, node in enumerate(whole.graph.nodes):
        for name in [each for each in alive if last[each] < place]:
            del alive[name]
        sizes = [size for size in alive.values() if size is not None]
        if place and alive and len(sizes) == len(alive):
            found[place] = Live(tuple(alive), sum(sizes))
        alive |= {name: whole.size(name) for name in node.outputs if last.get(name, -1) > place}
    return found
