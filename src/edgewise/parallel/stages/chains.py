"""A graph as few pieces that can run side by side: chains of nodes, and small ones joined until they are few enough."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .pieces import Whole

MOST = 64


@dataclass(frozen=True, slots=True)
class Pieces:
    """Each piece's nodes; numbered so that `needs` (the pieces it reads from) come before."""

    nodes: tuple[tuple[int, ...], ...]
    needs: Mapping[int, tuple[int, ...]]

    @property
    def branching(self) -> bool:
        """Whether any two of them could run at the same time: then somewhere a piece does not need the one before."""
        return any(piece - 1 not in self.needs[piece] for piece in range(1, len(self.nodes)))


def chains(whole: Whole, most: int = MOST) -> Pieces:
    count = len(whole.graph.nodes)
    after: dict[int, set[int]] = {place: set() for place in range(count)}
    before: dict[int, set[int]] = {place: set() for place in range(count)}
    open_ = set()
    for name, readers in whole.readers.items():
        if (maker := whole.maker.get(name)) is not None:
            after[maker].update(readers)
            for reader in readers:
                before[reader].add(maker)
                if whole.size(name) is None:
                    open_.add((maker, reader))
    joined = _Joined(after, before, [adds + 1 for adds in whole.multiply_adds])
    for place in range(count):
        (first, *others) = before[place] or {-1}
        if not others and first >= 0 and len(after[first]) == 1:
            joined.join(joined.home[first], joined.home[place])
    for maker, reader in sorted(open_):
        joined.together(maker, reader)
    joined.reduce(most)
    return joined.pieces()


class _Joined:
    """Pieces under their smallest node, with their edges; joining two never closes a circle."""

    def __init__(self, after: Mapping[int, set[int]], before: Mapping[int, set[int]], weights: Sequence[int]) -> None:
        self.home = {place: place for place in after}
        self._after = {place: set(each) for place, each in after.items()}
        self._before = {place: set(each) for place, each in before.items()}
        self._nodes = {place: [place] for place in after}
        self._weights = dict(enumerate(weights))

    def join(self, one: int, other: int) -> None:
        """`other` becomes a part of `one`."""
        for nodes in (self._after, self._before):
            nodes[one] |= nodes.pop(other)
            nodes[one] -= {one, other}
        for each in self._after[one]:
            self._before[each] = self._before[each] - {other} | {one}
        for each in self._before[one]:
            self._after[each] = self._after[each] - {other} | {one}
        for place in self._nodes.pop(other):
            self.home[place] = one
            self._nodes[one].append(place)
        self._weights[one] += self._weights.pop(other)

    def together(self, maker: int, reader: int) -> None:
        """What cannot be handed over keeps its maker and its reader in one piece, with all that lies between."""
        one = self.home[maker]
        while (other := self.home[reader]) != one:
            between = other if self._safe(one, other) else self._first_between(one, other)
            self.join(one, between)

    def reduce(self, most: int) -> None:
        """The pairs with the least to do are joined."""
        while len(self._nodes) > most:
            pairs = sorted(
                (self._weights[a] + self._weights[b], a, b) for a, users in self._after.items() for b in users
            )
            found = next(((a, b) for _, a, b in pairs if self._safe(a, b)), None)
            if found is None:
                return
            self.join(*found)

    def pieces(self) -> Pieces:
        waiting = {piece: len(before) for piece, before in self._before.items()}
        order: list[int] = []
        while waiting:
            # The oldest of those that can run.
            piece = min((p for p, left in waiting.items() if not left), key=lambda p: min(self._nodes[p]))
            del waiting[piece]
            order.append(piece)
            for user in self._after[piece]:
                waiting[user] -= 1
        number = {piece: place for place, piece in enumerate(order)}
        return Pieces(
            tuple(tuple(sorted(self._nodes[piece])) for piece in order),
            {number[p]: tuple(sorted(number[each] for each in self._before[p])) for p in order},
        )

    def _safe(self, one: int, other: int) -> bool:
        """Whether nothing lies on another path between them."""
        return self._path(one, other) is None

    def _first_between(self, one: int, other: int) -> int:
        path = self._path(one, other)
        assert path is not None
        # The one after which nothing leads on a detour: of all that follow `one` directly, one that no other reaches.
        candidates = [each for each in self._after[one] if each == path or self._reaches(each, other)]
        return next(c for c in candidates if not any(c != d and self._reaches(d, c) for d in candidates))

    def _path(self, one: int, other: int) -> int | None:
        """The first step of a path that is not the edge itself."""
        return next((each for each in sorted(self._after[one] - {other}) if self._reaches(each, other)), None)

    def _reaches(self, one: int, other: int) -> bool:
        waiting, seen = [one], {one}
        while waiting:
            for each in self._after[waiting.pop()]:
                if each == other:
                    return True
                if each not in seen:
                    seen.add(each)
                    waiting.append(each)
        return False
