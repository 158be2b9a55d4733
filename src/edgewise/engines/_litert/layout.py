"""Axes: the order in which a value lies in memory, and what a reshape does to it.

An order is a permutation: place i in memory holds axis order[i] of the ONNX value. Feature maps of convolutions lie
as NHWC; everything else keeps whatever order it has until an operator asks for another.
"""

from __future__ import annotations

from collections.abc import Sequence

Order = tuple[int, ...]
NHWC: Order = (0, 2, 3, 1)
NWC: Order = (0, 2, 1)


def plain(rank: int) -> Order:
    return tuple(range(rank))


def arranged(shape: Sequence[int], order: Order) -> tuple[int, ...]:
    """The shape as it lies in memory."""
    return tuple(shape[axis] for axis in order)


def same_memory(shape: Sequence[int], one: Order, other: Order) -> bool:
    """Axes of one element may stand anywhere."""
    return [axis for axis in one if shape[axis] != 1] == [axis for axis in other if shape[axis] != 1]


def with_last(order: Order, axis: int) -> Order:
    """`order` with `axis` moved to the end."""
    return (*(each for each in order if each != axis), axis)


def without(order: Order, removed: Sequence[int]) -> Order:
    """`order` of what is left when axes are taken out."""
    kept = sorted(set(order) - set(removed))
    return tuple(kept.index(axis) for axis in order if axis not in removed)


def transposed(order: Order, perm: Sequence[int]) -> Order:
    """The order in which the same memory holds the transposed value."""
    return tuple(list(perm).index(axis) for axis in order)


def gathered(order: Order, axis: int, indices_rank: int) -> Order:
    """`order` where `axis` became as many axes as the indices have."""
    found: list[int] = []
    for each in order:
        if each == axis:
            found.extend(range(axis, axis + indices_rank))
        else:
            found.append(each if each < axis else each + indices_rank - 1)
    return tuple(found)


def _groups(before: Sequence[int], after: Sequence[int]) -> list[tuple[list[int], list[int]]]:
    """Axes (of more than one element) before and after, cut wherever their products meet."""
    left = [axis for axis, size in enumerate(before) if size != 1]
    right = [axis for axis, size in enumerate(after) if size != 1]
    groups: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(left):
        group: tuple[list[int], list[int]] = ([left[i]], [right[j]])
        a, b = before[left[i]], after[right[j]]
        i, j = i + 1, j + 1
        while a != b:
            if a < b:
                group[0].append(left[i])
                a, i = a * before[left[i]], i + 1
            else:
                group[1].append(right[j])
                b, j = b * after[right[j]], j + 1
        groups.append(group)
    return groups


def reshaped(before: Sequence[int], order: Order, after: Sequence[int]) -> tuple[Order, Order]:
    """The order the input must have (its own, where it will do), and the order the output then has.

    A reshape only splits and joins neighbours, so whole groups of axes may stay where they lie.
    """
    groups = _groups(before, after)
    member = {axis: number for number, (axes, _) in enumerate(groups) for axis in axes}
    places = [axis for axis in order if axis in member]
    sequence = list(dict.fromkeys(member[axis] for axis in places))
    wanted = [axis for number in sequence for axis in groups[number][0]]
    needed = order if places == wanted else (*wanted, *(axis for axis in order if axis not in member))
    found = [axis for number in sequence for axis in groups[number][1]]
    for axis, size in enumerate(after):
        if size == 1:
            found.insert(found.index(axis - 1) + 1 if axis else 0, axis)
    return needed, tuple(found)
