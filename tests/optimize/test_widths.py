"""How many channels stay: whole blocks, the asked share gone, the cheapest first."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgewise.core.errors import Unsupported
from edgewise.model.feeds import shapes
from edgewise.model.graph import Graph, fixed, graph
from edgewise.model.load import inspect
from edgewise.optimize.prune import prune
from edgewise.optimize.prune.coupling import coupled
from edgewise.optimize.prune.importance import groups
from edgewise.optimize.prune.widths import Sized, chosen, multiply_adds, sized
from edgewise.zoo import pocket

TWO = [
    Sized("first", 3, 64, {}, {"a": 1}),
    Sized("second", 64, 32, {"a": 1}, {"b": 1}),
    Sized("third", 32, 8, {"b": 1}, {}),
]


def work(name: str, taken: int, made: int) -> float:
    return taken * made


@given(st.floats(0.05, 0.8), st.lists(st.floats(0.01, 10), min_size=12, max_size=12))
@settings(deadline=None)
def test_the_asked_share_goes_in_whole_blocks(ratio: float, growth: list[float]) -> None:
    losses = {
        "a": {8 * count: sum(growth[:count]) for count in range(8)},
        "b": {8 * count: sum(growth[8 : 8 + count]) for count in range(4)},
    }
    gone = chosen(TWO, losses, work, ratio)
    whole = sum(work(layer.name, layer.taken, layer.made) for layer in TWO)
    now = sum(work(layer.name, *layer.widths(gone)) for layer in TWO)
    assert now <= (1 - ratio) * whole + 1e-6
    assert all(count in losses[group] for group, count in gone.items())


def test_what_is_worth_little_goes_first() -> None:
    losses = {"a": {8 * n: 100.0 * n for n in range(8)}, "b": {8 * n: 0.1 * n for n in range(4)}}
    gone = chosen(TWO, losses, work, 0.2)
    assert gone["a"] == 0
    assert gone["b"] > 0


def test_a_step_that_saves_no_time_is_taken_only_with_the_next() -> None:
    def stairs(name: str, taken: int, made: int) -> float:
        return work(name, -(-taken // 32) * 32, -(-made // 32) * 32)

    losses = {"a": {8 * n: float(n) for n in range(8)}, "b": {0: 0.0}}
    gone = chosen(TWO, losses, stairs, 0.1)
    assert gone["a"] == 32


def test_more_than_can_go_is_refused() -> None:
    with pytest.raises(Unsupported, match=r"can be taken away here, not 90%") as refused:
        chosen(TWO, {"a": {0: 0.0, 8: 1.0}, "b": {0: 0.0}}, work, 0.9)
    assert "prune(cost=" in (refused.value.hint or "")


def load(name: str) -> Graph:
    model = inspect(pocket.path(name))
    return graph(fixed(model, shapes(model, 1, {})))


def test_widths_are_those_of_the_pruned_network() -> None:
    found = load("pocket/large")
    those = groups(found, coupled(found))
    assert those
    gone = {group.name: len(group.classes) // 3 for group in those}
    smaller = prune(found, [each for group in those for each in group.classes[: gone[group.name]]])
    full = {layer.name: layer.widths(gone) for layer in sized(found, those)}
    assert full == {layer.name: (layer.taken, layer.made) for layer in sized(smaller, [])}
    cost, less = multiply_adds(found, 1), multiply_adds(smaller, 1)
    for name, (taken, made) in full.items():
        assert cost(name, taken, made) == less(name, taken, made)


def test_blocks_that_are_not_full_cost_as_much() -> None:
    found = load("pocket/large")
    layer = max(sized(found, []), key=lambda each: each.made)
    cost = multiply_adds(found, 16)
    assert cost(layer.name, layer.taken, layer.made - 17) == cost(layer.name, layer.taken, layer.made - 31)
