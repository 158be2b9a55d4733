"""Values in one piece of memory."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from edgewise.model.arena import bound, place


@st.composite
def values(draw: st.DrawFn) -> tuple[dict[str, int], dict[str, tuple[int, int]]]:
    count = draw(st.integers(1, 12))
    sizes = {f"v{i}": draw(st.integers(0, 1000)) for i in range(count)}
    lives = {}
    for name in sizes:
        begin = draw(st.integers(0, 10))
        lives[name] = (begin, begin + draw(st.integers(0, 6)))
    return sizes, lives


@given(values())
def test_nothing_overlaps_while_both_live_and_no_bound_is_beaten(
    found: tuple[dict[str, int], dict[str, tuple[int, int]]],
) -> None:
    sizes, lives = found
    offsets, whole = place(sizes, lives)
    for a, b in combinations(sizes, 2):
        together = lives[a][0] <= lives[b][1] and lives[b][0] <= lives[a][1]
        apart = offsets[a] + sizes[a] <= offsets[b] or offsets[b] + sizes[b] <= offsets[a]
        assert apart or not together
    assert whole >= bound(sizes, lives)
    assert all(offsets[name] + sizes[name] <= whole for name in sizes)


def test_what_is_never_needed_at_once_shares_its_place() -> None:
    sizes, lives = {"a": 128, "b": 64, "c": 128}, {"a": (0, 1), "b": (1, 2), "c": (2, 3)}
    offsets, whole = place(sizes, lives)
    assert offsets["a"] == offsets["c"]
    assert whole == bound(sizes, lives) == 192
