"""The cut of a pipeline and the schedule of branches, against all there are on small graphs."""

from __future__ import annotations

from itertools import combinations, permutations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.parallel.stages.branches import Slot, bound, makespan, schedule
from edgewise.parallel.stages.pipeline import pipeline

Cost = st.none() | st.floats(0.1, 10)


def _every(costs: list[list[float | None]], hop: float) -> float:
    """The least cost of the slowest stage over all cuts and orders of targets."""
    count, best = len(costs[0]), float("inf")
    for stages in range(1, len(costs) + 1):
        for cuts in combinations(range(1, count), stages - 1):
            for order in permutations(range(len(costs)), stages):
                ends = [0, *cuts, count]
                slowest = 0.0
                for place, target in enumerate(order):
                    units = costs[target][ends[place] : ends[place + 1]]
                    taken = sum(float("inf") if u is None else u for u in units) + (hop if place else 0)
                    slowest = max(slowest, taken)
                best = min(best, slowest)
    return best


@given(
    st.integers(1, 6).flatmap(lambda n: st.lists(st.lists(Cost, min_size=n, max_size=n), min_size=1, max_size=3)),
    st.floats(0, 3),
)
def test_no_other_cut_is_better(costs: list[list[float | None]], hop: float) -> None:
    stages = pipeline(costs, lambda after, giver, taker: hop)
    best = _every(costs, hop)
    if not stages:
        assert best == float("inf")
        return
    assert max(stage.cost for stage in stages) == pytest.approx(best)
    assert [stage.first for stage in stages] == [0, *(stage.last for stage in stages[:-1])]
    assert stages[-1].last == len(costs[0])
    assert len({stage.target for stage in stages}) == len(stages)


def test_a_target_that_rejects_an_operator_gets_no_part_with_it() -> None:
    stages = pipeline([[1, 1, 1, 1], [1, None, 1, 1]])
    assert [(s.first, s.last, s.target) for s in stages] == [(0, 2, 0), (2, 4, 1)]


def _valid(slots: list[Slot], needs: dict[int, list[int]], hop: float) -> None:
    by_piece = {slot.piece: slot for slot in slots}
    for slot in slots:
        for before in needs.get(slot.piece, ()):
            wait = hop if by_piece[before].target != slot.target else 0
            assert slot.begin >= by_piece[before].end + wait - 1e-9
        for other in slots:
            if other is not slot and other.target == slot.target:
                assert other.end <= slot.begin + 1e-9 or slot.end <= other.begin + 1e-9


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[list[float | None]], dict[int, list[int]]]:
    count = draw(st.integers(1, 7))
    costs = draw(st.lists(st.lists(Cost, min_size=2, max_size=2), min_size=count, max_size=count))
    needs = {piece: sorted(draw(st.sets(st.integers(0, piece - 1)))) if piece else [] for piece in range(count)}
    return costs, needs


@given(graphs(), st.floats(0, 2))
def test_a_schedule_can_be_run_and_is_never_below_the_bound(
    graph: tuple[list[list[float | None]], dict[int, list[int]]], hop: float
) -> None:
    costs, needs = graph
    slots = schedule(costs, needs, lambda a, b, there, here: hop)
    if any(all(c is None for c in row) for row in costs):
        assert slots == []
        return
    assert sorted(slot.piece for slot in slots) == list(range(len(costs)))
    _valid(slots, needs, hop)
    assert makespan(slots) >= bound(costs, needs) - 1e-9


def _brute(costs: list[list[float | None]], needs: dict[int, list[int]], hop: float) -> float:
    """Over all orders that can run and all assignments."""
    best, count = float("inf"), len(costs)
    orders = [o for o in permutations(range(count)) if all(o.index(n) < o.index(p) for p in needs for n in needs[p])]
    for where in product(range(2), repeat=count):
        if any(costs[piece][target] is None for piece, target in enumerate(where)):
            continue
        for order in orders:
            ends: dict[int, float] = {}
            free = [0.0, 0.0]
            for piece in order:
                ready = max((ends[n] + (hop if where[n] != where[piece] else 0) for n in needs[piece]), default=0.0)
                ends[piece] = max(ready, free[where[piece]]) + (costs[piece][where[piece]] or 0)
                free[where[piece]] = ends[piece]
            best = min(best, max(ends.values()))
    return best


def test_on_small_graphs_it_is_close_to_the_best_there_is() -> None:
    """Two branches of unequal length between a fork and a join, as in an Inception block."""
    costs: list[list[float | None]] = [[1, 2], [3, 3], [2, 4], [4, 3], [1, 1], [2, 2]]
    needs = {0: [], 1: [0], 2: [1], 3: [0], 4: [3], 5: [2, 4]}
    for hop in (0.0, 0.5, 2.0):
        found = makespan(schedule(costs, needs, lambda a, b, there, here, hop=hop: hop))
        assert found <= 1.2 * _brute(costs, needs, hop)
