"""What channels are worth: copies nothing, but not both of a pair."""

from __future__ import annotations

from typing import Any

import numpy as np

from edgewise.core.types import Tensor
from edgewise.model.graph import Graph, Node
from edgewise.optimize.observe import observer
from edgewise.optimize.prune.coupling import coupled
from edgewise.optimize.prune.effects import answered, apart, effects, scaled
from edgewise.optimize.prune.importance import Group, eliminated, groups
from edgewise.optimize.prune.statistics import seen
from edgewise.optimize.sums import Sums

Array = np.ndarray[Any, Any]


def network(first: Array, second: Array, side: int = 6) -> Graph:
    """Two convolutions and what is between them."""
    mid, out = len(first), len(second)
    sizes = {"x": 3, "a": mid, "b": mid, "y": out}
    values = {name: Tensor(name, "float32", (1, size, side, side)) for name, size in sizes.items()}
    nodes = (
        Node("a", "Conv", ("x", "w"), ("a",), {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
        Node("b", "Relu", ("a",), ("b",), {}),
        Node("y", "Conv", ("b", "v"), ("y",), {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
    )
    return Graph(nodes, {"w": first, "v": second}, values, ("x",), ("y",), 17)


def random(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def look(graph: Graph, count: int = 64) -> tuple[Group, dict[str, Sums], Any]:
    observe = observer({"x": random(count, 3, 6, 6, seed=7)})
    (group,) = groups(graph, coupled(graph))
    return group, dict(seen(graph, observe, group.takers, count)), observe


def test_a_copy_costs_nothing_and_the_other_then_much() -> None:
    first = random(8, 3, 3, 3)
    first[5] = first[2]
    first[6] = 2 * first[1]
    group, sums, _ = look(network(first, random(4, 8, 3, 3, seed=1)))
    table = eliminated(group, sums, step=1, keep=1, ridge=1e-6)
    assert {table.order[0], table.order[1]} in ({a, b} for a in (2, 5) for b in (1, 6))
    assert table.errors[2] < 1e-3 * table.errors[3]
    assert list(table.errors) == list(range(8))
    assert sorted(table.errors.values()) == list(table.errors.values())


def test_several_at_a_time_are_not_both_of_a_pair() -> None:
    first = random(16, 3, 3, 3)
    first[8:12] = first[:4]
    group, sums, _ = look(network(first, random(4, 16, 3, 3, seed=1)))
    table = eliminated(group, sums, step=4, keep=4, ridge=1e-6)
    assert sorted(place % 8 for place in table.order[:4]) == [0, 1, 2, 3]
    assert table.errors[4] < 1e-2 * table.errors[8]


def test_what_nobody_weighs_goes_first() -> None:
    second = random(4, 8, 3, 3, seed=1)
    second[:, 3] *= 1e-4
    group, sums, _ = look(network(random(8, 3, 3, 3), second))
    assert eliminated(group, sums, step=1, keep=1).order[0] == 3


def test_the_error_is_that_of_the_fitted_weights() -> None:
    """Told without solving again, and what solving again finds."""
    graph = network(random(8, 3, 3, 3), random(4, 8, 3, 3, seed=1))
    group, sums, _ = look(graph)
    table = eliminated(group, sums, step=2, keep=4, fit_at=(4,), ridge=1e-9)
    (taker,) = group.takers
    covariance = sums["y"].products(True)
    weights, bias = table.fitted[4]["y"]
    gone = [channel * 9 + place for channel in table.order for place in range(9)]
    assert not weights[:, gone].any()
    error = np.einsum("of,fg,og->", weights - taker.weights, covariance, weights - taker.weights)
    variance = np.einsum("of,fg,og->", taker.weights, covariance, taker.weights)
    np.testing.assert_allclose(error / variance, table.errors[4], rtol=1e-3)
    kept = [place for place in range(72) if place not in set(gone)]
    best = np.linalg.solve(covariance[np.ix_(kept, kept)], covariance[kept] @ taker.weights.T).T
    np.testing.assert_allclose(weights[:, kept], best, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(bias, (taker.weights - weights) @ sums["y"].means)


def test_what_is_no_whole_step_goes_first() -> None:
    group, sums, _ = look(network(random(11, 3, 3, 3), random(4, 11, 3, 3, seed=1)))
    assert list(eliminated(group, sums, step=4, keep=4).errors) == [0, 3, 7]


def test_effects_grow_with_errors() -> None:
    graph = network(random(8, 3, 3, 3), random(4, 8, 3, 3, seed=1))
    group, sums, observe = look(graph)
    table = eliminated(group, sums, step=2, keep=2, fit_at=(2, 6))
    found = effects(graph, observe, table, answered(graph, observe))
    assert 0 < found[2] < found[6]
    told = scaled(table.errors, found)
    assert told[0] == 0
    np.testing.assert_allclose([told[2], told[6]], [found[2], found[6]])
    assert told[2] <= told[4] <= told[6]


def test_how_far_answers_are_apart() -> None:
    scores = random(50, 10)
    likely = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    assert apart({"y": scores}, {"y": scores + 3}) < 1e-9
    far = apart({"y": scores}, {"y": scores * 2})
    assert far > 0.01
    double = np.exp(2 * scores) / np.exp(2 * scores).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(apart({"y": likely}, {"y": double}), far, rtol=1e-3)
    assert 0.9 < apart({"y": random(4, 2, 8, 8)}, {"y": np.zeros((4, 2, 8, 8))}) < 1.1
