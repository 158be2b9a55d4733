"""Where a graph branches: from a fork to the first node that all its paths lead to, what lies between falls into
branches that know nothing of each other."""

from __future__ import annotations

from dataclasses import dataclass

from .pieces import Whole

# In the place of a fork: the model's inputs are read by several. In the place of a join it is the number of nodes.
BEGIN = -1


@dataclass(frozen=True, slots=True)
class Region:
    """Nodes by their place in the order; two `branches` at least, none of which reads what another makes."""

    fork: int
    join: int
    branches: tuple[tuple[int, ...], ...]


def regions(whole: Whole) -> list[Region]:
    """All there are, also those inside the branches of others, in the order of their forks."""
    count = len(whole.graph.nodes)
    after = successors(whole)
    joins = _joins(after, count)
    below = _descendants(after, count)
    found = []
    for fork in range(BEGIN, count):
        if len(after[fork]) < 2:
            continue
        join = joins[fork]
        inside = below[fork] & ~below[join] & ~(1 << join)
        branches = _components([place for place in range(count) if inside >> place & 1], after)
        if len(branches) > 1:
            found.append(Region(fork, join, tuple(branches)))
    return found


def successors(whole: Whole) -> dict[int, list[int]]:
    """Of every node those that read of it; BEGIN comes before those that read the model's inputs, and the end (the
    number of nodes) after those that answer."""
    count, answers = len(whole.graph.nodes), set(whole.graph.outputs)
    found: dict[int, list[int]] = {count: []}
    for place, node in enumerate(whole.graph.nodes):
        after = {reader for name in node.outputs for reader in whole.readers.get(name, ())}
        if not after or answers.intersection(node.outputs):
            after.add(count)
        found[place] = sorted(after)
    begin = {reader for name in whole.graph.inputs for reader in whole.readers.get(name, ())}
    found[BEGIN] = sorted(begin) or [count]
    return found


def _joins(after: dict[int, list[int]], count: int) -> dict[int, int]:
    """For every node the first one that all paths from it lead to: its immediate post-dominator."""
    join = {count: count}
    depth = {count: 0}
    for place in range(count - 1, BEGIN - 1, -1):
        first, *others = after[place]
        for each in others:
            other = each
            while first != other:
                if depth[first] >= depth[other]:
                    first = join[first]
                else:
                    other = join[other]
        join[place], depth[place] = first, depth[first] + 1
    return join


def _descendants(after: dict[int, list[int]], count: int) -> dict[int, int]:
    """As bits of a number."""
    below = {count: 0}
    for place in range(count - 1, BEGIN - 1, -1):
        found = 0
        for each in after[place]:
            found |= below[each] | 1 << each
        below[place] = found
    return below


def _components(nodes: list[int], after: dict[int, list[int]]) -> list[tuple[int, ...]]:
    """Nodes that hang together, whichever way the edges go."""
    own = set(nodes)
    near: dict[int, set[int]] = {place: set() for place in nodes}
    for place in nodes:
        for each in after[place]:
            if each in own:
                near[place].add(each)
                near[each].add(place)
    found = []
    while own:
        waiting, taken = [min(own)], set[int]()
        while waiting:
            place = waiting.pop()
            if place not in taken:
                taken.add(place)
                waiting += near[place] - taken
        own -= taken
        found.append(tuple(sorted(taken)))
    return found
