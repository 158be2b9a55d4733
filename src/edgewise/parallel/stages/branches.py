"""Pieces of one inference on several targets at once: who runs which piece when, so that the last is done early.

List scheduling by rank (HEFT), with what it costs to hand a result over; a result is handed over while its maker goes
on, so that this delays the taker and nobody else. Beside it the bound that no schedule can be below.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

# What handing the result of piece `a` to piece `b` costs between two targets; nothing on the same one.
Handing = Callable[[int, int, int, int], float]


@dataclass(frozen=True, slots=True)
class Slot:
    """A piece on a target, from when to when."""

    piece: int
    target: int
    begin: float
    end: float


def at_once(giver: int, taker: int, there: int, here: int) -> float:
    return 0.0


def schedule(
    costs: Sequence[Sequence[float | None]], needs: Mapping[int, Sequence[int]], handing: Handing = at_once
) -> list[Slot]:
    """`costs[piece][target]`, None where the target does not run it; `needs[piece]`: the pieces before it. In the order
    of their begin; empty where some piece runs nowhere."""
    pieces = range(len(costs))
    if any(all(c is None for c in row) for row in costs):
        return []
    ranks = _ranks(costs, needs, handing)
    placed: dict[int, Slot] = {}
    lanes: dict[int, list[Slot]] = {}
    for piece in sorted(pieces, key=lambda each: (-ranks[each], each)):
        found: Slot | None = None
        for target, cost in enumerate(costs[piece]):
            if cost is None:
                continue
            ready = max(
                (placed[n].end + _between(handing, n, piece, placed[n].target, target) for n in needs.get(piece, ())),
                default=0.0,
            )
            begin = _gap(lanes.get(target, []), ready, cost)
            if found is None or begin + cost < found.end:
                found = Slot(piece, target, begin, begin + cost)
        assert found is not None
        placed[piece] = found
        lane = lanes.setdefault(found.target, [])
        lane.append(found)
        lane.sort(key=lambda slot: slot.begin)
    return sorted(placed.values(), key=lambda slot: (slot.begin, slot.piece))


def makespan(slots: Sequence[Slot]) -> float:
    return max((slot.end for slot in slots), default=0.0)


def bound(costs: Sequence[Sequence[float | None]], needs: Mapping[int, Sequence[int]]) -> float:
    """No schedule is done before this: the longest chain at its quickest, or all work spread evenly."""
    quickest = [min((c for c in row if c is not None), default=math.inf) for row in costs]
    ends: dict[int, float] = {}

    def end(piece: int) -> float:
        if piece not in ends:
            ends[piece] = quickest[piece] + max((end(n) for n in needs.get(piece, ())), default=0.0)
        return ends[piece]

    targets = max((len(row) for row in costs), default=1)
    return max(max((end(piece) for piece in range(len(costs))), default=0.0), sum(quickest) / max(1, targets))


def _between(handing: Handing, giver: int, taker: int, there: int, here: int) -> float:
    return 0.0 if there == here else handing(giver, taker, there, here)


def _ranks(
    costs: Sequence[Sequence[float | None]], needs: Mapping[int, Sequence[int]], handing: Handing
) -> dict[int, float]:
    """How long it takes at the mean from the begin of a piece to the end of everything."""
    users: dict[int, list[int]] = {}
    for piece, before in needs.items():
        for each in before:
            users.setdefault(each, []).append(piece)
    targets = range(max((len(row) for row in costs), default=0))
    pairs = [(a, b) for a in targets for b in targets if a != b]
    ranks: dict[int, float] = {}

    def rank(piece: int) -> float:
        if piece not in ranks:
            able = [c for c in costs[piece] if c is not None]
            after = [
                rank(user) + (sum(handing(piece, user, a, b) for a, b in pairs) / len(pairs) if pairs else 0.0)
                for user in users.get(piece, ())
            ]
            ranks[piece] = sum(able) / len(able) + max(after, default=0.0)
        return ranks[piece]

    # From the end of the order, so that no chain is longer than the stack.
    for piece in reversed(range(len(costs))):
        rank(piece)
    return ranks


def _gap(lane: Sequence[Slot], ready: float, cost: float) -> float:
    """The earliest begin at which the piece fits between those that are placed already."""
    begin = ready
    for slot in lane:
        if begin + cost <= slot.begin:
            return begin
        begin = max(begin, slot.end)
    return begin
