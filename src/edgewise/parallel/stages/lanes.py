"""A schedule of pieces to what each target does: steps of one or more pieces, and whom each waits for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .branches import Slot

# Another target, and how many of its steps must be done.
Wait = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Step:
    """Pieces that run in one go, when others are done so far."""

    pieces: tuple[int, ...]
    waits: tuple[Wait, ...]


def lanes(slots: Sequence[Slot], needs: Mapping[int, Sequence[int]], targets: int) -> list[list[Step]]:
    """For each target its steps in order. Pieces become one step where that makes nobody wait longer: none of another
    target's needs any but the last of them, and all they need from others is there when the first begins."""
    where = {slot.piece: slot.target for slot in slots}
    order = [[slot.piece for slot in slots if slot.target == target] for target in range(targets)]
    place = {piece: number for row in order for number, piece in enumerate(row)}
    wanted = {before for piece, each in needs.items() for before in each if where[before] != where[piece]}
    grouped = [_grouped(row, needs, where, place, wanted) for row in order]
    step = {piece: number for row in grouped for number, group in enumerate(row) for piece in group}
    return [
        [Step(tuple(group), waits) for group, waits in zip(row, _waits(row, needs, where, step), strict=True)]
        for row in grouped
    ]


def _grouped(
    row: Sequence[int],
    needs: Mapping[int, Sequence[int]],
    where: Mapping[int, int],
    place: Mapping[int, int],
    wanted: set[int],
) -> list[list[int]]:
    groups: list[list[int]] = []
    # How far into each other target's row this one has waited.
    waited: dict[int, int] = {}
    for piece in row:
        others = [each for each in needs.get(piece, ()) if where[each] != where[piece]]
        there = all(place[each] <= waited.get(where[each], -1) for each in others)
        if groups and there and groups[-1][-1] not in wanted:
            groups[-1].append(piece)
        else:
            groups.append([piece])
        for each in others:
            waited[where[each]] = max(waited.get(where[each], -1), place[each])
    return groups


def _waits(
    row: Sequence[Sequence[int]], needs: Mapping[int, Sequence[int]], where: Mapping[int, int], step: Mapping[int, int]
) -> list[tuple[Wait, ...]]:
    """What was waited for once is not waited for again."""
    done: dict[int, int] = {}
    found = []
    for group in row:
        waits: dict[int, int] = {}
        for piece in group:
            for each in needs.get(piece, ()):
                other, upto = where[each], step[each] + 1
                if other != where[piece] and upto > max(done.get(other, 0), waits.get(other, 0)):
                    waits[other] = upto
        done |= waits
        found.append(tuple(sorted(waits.items())))
    return found
