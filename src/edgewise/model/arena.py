"""Places for values in one piece of memory, so that those that are needed at different times share it."""

from __future__ import annotations

from collections.abc import Mapping

# A cache line, and what vector instructions want.
ALIGN = 64


def place(sizes: Mapping[str, int], lives: Mapping[str, tuple[int, int]]) -> tuple[dict[str, int], int]:
    """The offset of each value in bytes, and how many there are in all. The largest first, each at the lowest place
    that is free as long as it lives; `lives` are the first and last moment, both included."""
    placed: list[tuple[int, int, str]] = []
    offsets: dict[str, int] = {}
    whole = 0
    for name in sorted(sizes, key=lambda each: (-sizes[each], each)):
        begin, end = lives[name]
        at = 0
        for low, high, other in sorted(placed):
            if lives[other][0] > end or lives[other][1] < begin:
                continue
            if low - at >= sizes[name]:
                break
            at = max(at, high)
        offsets[name] = at
        high = at + -(-sizes[name] // ALIGN) * ALIGN
        placed.append((at, high, name))
        whole = max(whole, high)
    return offsets, whole
