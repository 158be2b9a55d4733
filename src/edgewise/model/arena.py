"""Places for values in one piece of memory, so that those that are needed at different times share it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from .graph import Graph

# A cache line, and what vector instructions want.
ALIGN = 64

# The first and last moment at which a value is needed, both included.
Lives = Mapping[str, tuple[int, int]]


def place(sizes: Mapping[str, int], lives: Lives) -> tuple[dict[str, int], int]:
    """The offset of each value in bytes, and how many there are in all: the best of several orders of placing them,
    each value at the lowest place that is free as long as it lives. The largest first is best for most networks."""
    least = bound(sizes, lives)
    best: tuple[dict[str, int], int] | None = None
    for key in _orders(sizes, lives):
        found = _placed(sorted(sizes, key=key), sizes, lives)
        if best is None or found[1] < best[1]:
            best = found
        if best[1] <= least:
            break
    assert best is not None
    return best


def bound(sizes: Mapping[str, int], lives: Lives) -> int:
    """No placement needs less than all that is needed at one moment."""
    changes: dict[int, int] = {}
    for name, size in sizes.items():
        begin, end = lives[name]
        changes[begin] = changes.get(begin, 0) + _aligned(size)
        changes[end + 1] = changes.get(end + 1, 0) - _aligned(size)
    most = now = 0
    for moment in sorted(changes):
        now += changes[moment]
        most = max(most, now)
    return most


def needs(graph: Graph) -> tuple[dict[str, int], dict[str, tuple[int, int]]]:
    """What the values of a graph take, and when, if its nodes run in their order. A value whose size is unknown takes
    nothing; inputs are there from the beginning, outputs until the end."""
    sizes: dict[str, int] = {}
    lives: dict[str, tuple[int, int]] = {}

    def note(name: str, moment: int) -> None:
        if name in graph.values and name not in graph.constants:
            begin, _ = lives.get(name, (moment, moment))
            lives[name] = (begin, moment)
            sizes.setdefault(name, value_bytes(graph, name))

    for name in graph.inputs:
        note(name, 0)
    for moment, node in enumerate(graph.nodes):
        for name in (*node.inputs, *node.outputs):
            note(name, moment)
    for name in graph.outputs:
        note(name, len(graph.nodes))
    return sizes, lives


def value_bytes(graph: Graph, name: str) -> int:
    tensor = graph.values[name]
    if tensor.shape is None or not all(isinstance(size, int) for size in tensor.shape):
        return 0
    try:
        item = np.dtype(tensor.dtype).itemsize
    except TypeError:
        return 0
    return math.prod(size for size in tensor.shape if isinstance(size, int)) * item


def _aligned(size: int) -> int:
    return -(-size // ALIGN) * ALIGN


def _orders(sizes: Mapping[str, int], lives: Lives) -> list[Callable[[str], tuple[float, float, str]]]:
    def length(name: str) -> int:
        return lives[name][1] - lives[name][0] + 1

    return [
        lambda name: (-sizes[name], lives[name][0], name),
        lambda name: (-sizes[name] * length(name), 0, name),
        lambda name: (-length(name), -sizes[name], name),
        lambda name: (lives[name][0], -sizes[name], name),
        lambda name: (-lives[name][1], -sizes[name], name),
    ]


def _placed(order: list[str], sizes: Mapping[str, int], lives: Lives) -> tuple[dict[str, int], int]:
    placed: list[tuple[int, int, str]] = []
    offsets: dict[str, int] = {}
    whole = 0
    for name in order:
        begin, end = lives[name]
        at = 0
        for low, high, other in sorted(placed):
            if lives[other][0] > end or lives[other][1] < begin:
                continue
            if low - at >= sizes[name]:
                break
            at = max(at, high)
        offsets[name] = at
        high = at + _aligned(sizes[name])
        placed.append((at, high, name))
        whole = max(whole, high)
    return offsets, whole
