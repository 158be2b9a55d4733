"""Weights that make up for channels that are gone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from edgewise.core.errors import Unsupported
from edgewise.core.types import Preprocess, Tensor
from edgewise.data.preprocess import prepare
from edgewise.data.scenes import scenes
from edgewise.model.feeds import shapes
from edgewise.model.graph import Graph, Node, fixed, graph
from edgewise.model.load import inspect
from edgewise.optimize.observe import observer
from edgewise.optimize.prune import prune, weakest
from edgewise.optimize.prune.coupling import Coupled, coupled
from edgewise.optimize.prune.importance import groups
from edgewise.optimize.prune.linear import linear
from edgewise.optimize.prune.repair import fit, repair
from edgewise.optimize.prune.walk import Walk, fed, needed
from edgewise.optimize.prune.widths import multiply_adds, sized
from edgewise.optimize.prune.with_data import prune_with_data
from edgewise.zoo import pocket

Array = np.ndarray[Any, Any]


def random(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def residual(inner: int = 8, width: int = 6) -> Graph:
    """A convolution, a block that goes around two, and a product of the means."""
    pad = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    sizes = {"x": 3, "a": width, "b": width, "c": inner, "d": inner, "e": width, "f": width, "g": width}
    values = {name: Tensor(name, "float32", (1, size, 6, 6)) for name, size in sizes.items()}
    values |= {"h": Tensor("h", "float32", (1, width, 1, 1)), "i": Tensor("i", "float32", (1, width))}
    values |= {"y": Tensor("y", "float32", (1, 5))}
    nodes = (
        Node("a", "Conv", ("x", "w1", "b1"), ("a",), pad),
        Node("b", "Relu", ("a",), ("b",), {}),
        Node("c", "Conv", ("b", "w2", "b2"), ("c",), pad),
        Node("d", "Relu", ("c",), ("d",), {}),
        Node("e", "Conv", ("d", "w3", "b3"), ("e",), pad),
        Node("f", "Add", ("e", "b"), ("f",), {}),
        Node("g", "Relu", ("f",), ("g",), {}),
        Node("h", "GlobalAveragePool", ("g",), ("h",), {}),
        Node("i", "Flatten", ("h",), ("i",), {"axis": 1}),
        Node("y", "Gemm", ("i", "w4", "b4"), ("y",), {"transB": 1}),
    )
    constants = {
        "w1": random(width, 3, 3, 3, seed=1) / 4,
        "w2": random(inner, width, 3, 3, seed=2) / 6,
        "w3": random(width, inner, 3, 3, seed=3) / 8,
        "w4": random(5, width, seed=4),
        **{f"b{place}": random(size, seed=place) for place, size in ((1, width), (2, inner), (3, width), (4, 5))},
    }
    return Graph(nodes, constants, values, ("x",), ("y",), 17)


X = random(200, 3, 6, 6, seed=9)


def answers(found: Graph, x: Array = X) -> Array:
    return np.concatenate([batch["y"] for batch in observer({"x": x})(found, ["y"])])


def inner(found: Graph, those: list[int]) -> list[Coupled]:
    return [each for each in coupled(found) for at in each.channels if at[0] == "c" and at[1] in those]


def test_with_nothing_gone_nothing_changes() -> None:
    found = residual()
    again = repair(found, found, [], observer({"x": X}))
    for name, array in found.constants.items():
        np.testing.assert_array_equal(again.constants[name], array)


def test_a_layer_that_sees_what_it_saw_stays_as_it_is() -> None:
    found = residual()
    (layer,) = linear(found, found.nodes[4])
    x = random(3000, 72)
    t = x @ layer.weights.T.astype(np.float32) + layer.bias.astype(np.float32)
    weights, bias = fit(layer, x, t, np.zeros((1, 1), np.float32))
    np.testing.assert_allclose(weights, layer.weights, atol=1e-3)
    np.testing.assert_allclose(bias, layer.bias, atol=1e-3)


def test_what_others_say_too_is_not_missed() -> None:
    found = residual()
    constants = dict(found.constants)
    for name in ("w2", "b2"):
        constants[name] = constants[name].copy()
        constants[name][5], constants[name][6] = constants[name][1], 2 * constants[name][3]
    found = replace(found, constants=constants)
    gone = inner(found, [5, 6])
    assert len(gone) == 2
    without = prune(found, gone)
    exact = answers(found)
    spread = exact.std()
    assert np.abs(answers(without) - exact).max() > 0.1 * spread
    again = repair(found, without, gone, observer({"x": X}), ridge=1e-8)
    assert np.abs(answers(again) - exact).max() < 1e-3 * spread


def test_every_layer_of_a_smaller_network_is_fitted() -> None:
    found = residual(inner=24, width=16)
    gone = weakest(found, coupled(found), 0.5)
    without = prune(found, gone)
    held_out = random(200, 3, 6, 6, seed=10)
    exact = answers(found, held_out)

    def error(of: Graph) -> float:
        return float(np.square(answers(of, held_out) - exact).mean())

    observe = observer({"x": X})
    plain = repair(found, without, gone, observe, rounds=0, beside=False)
    more = repair(found, without, gone, observe)
    assert error(plain) < 0.5 * error(without)
    assert error(more) < error(without)


def test_sums_are_made_up_for() -> None:
    """What is added is wrong by what the layer beside it can see; it then puts it right."""
    found = residual(inner=40, width=16)
    gone = weakest(found, [each for each in coupled(found) if ("b", 0) not in each.channels], 0.3)
    without = prune(found, gone)
    observe = observer({"x": X})

    def error(of: Graph) -> float:
        name = "f"
        kept = [at for at in range(16) if (name, at) not in {c for each in gone for c in each.channels}]
        whole = np.concatenate([batch[name] for batch in observe(found, [name])])[:, kept]
        now = np.concatenate([batch[name] for batch in observe(of, [name])])
        return float(np.square(now - whole).mean())

    apart = error(repair(found, without, gone, observe, rounds=0, beside=False))
    together = error(repair(found, without, gone, observe, rounds=0, beside=True))
    assert together < 1.001 * apart


def test_only_the_side_counts_where_the_rest_is_thrown_away() -> None:
    found = residual()
    (layer,) = linear(found, found.nodes[4])
    x = random(4000, 72)
    t = x @ random(72, 6, seed=5)
    t = np.where(t > 0, t, 10 * t)
    none = np.zeros((1, 1), np.float32)

    def error(rounds: int) -> float:
        weights, bias = fit(layer, x, t, none, low=0.0, rounds=rounds)
        made = x @ weights.T + bias
        return float(np.square(np.maximum(made, 0) - np.maximum(t, 0)).mean())

    assert error(6) < 0.5 * error(0)


def test_means_and_spreads_are_matched() -> None:
    found = residual()
    (layer,) = linear(found, found.nodes[4])
    x, t = random(4000, 72), random(4000, 6, seed=5) * 3 + 2
    weights, bias = fit(layer, x, t, np.zeros((1, 1), np.float32), affine=True)
    made = x @ weights.T + bias
    np.testing.assert_allclose(made.mean(axis=0), t.mean(axis=0), atol=1e-2)
    np.testing.assert_allclose(made.std(axis=0), t.std(axis=0), rtol=1e-2)


def test_a_walk_passes_every_node_once_and_tells_the_same() -> None:
    found = residual()
    observe = observer({"x": X})
    walk = Walk(fed(found, observe))
    for names in (["b"], ["d", "b"], ["f"], ["y"]):
        values = walk.at(found, names)
        for name in names:
            expected = np.concatenate([batch[name] for batch in observe(found, [name])])
            np.testing.assert_allclose(values[name], expected, rtol=1e-4, atol=1e-5)
    assert [node.name for node in needed(found.nodes, ["d"])] == ["a", "b", "c", "d"]


def load(name: str) -> tuple[Graph, Preprocess]:
    model = inspect(pocket.path(name))
    assert model.preprocess is not None
    return graph(fixed(model, shapes(model, 1, {}))), model.preprocess


@pytest.mark.slow
def test_better_than_by_weights_alone_on_scenes_not_seen() -> None:
    found, how = load("pocket/medium")
    (name,) = found.inputs
    train = prepare(list(scenes("train", 0, 96)[0]), how)
    images, labels = scenes("test", 0, 200)
    asked = prepare(list(images), how)

    def right(of: Graph) -> float:
        scores = [batch[of.outputs[0]] for batch in observer({name: asked})(of, of.outputs)]
        return float((np.concatenate(scores).argmax(axis=1) == labels).mean())

    def work(of: Graph) -> float:
        cost = multiply_adds(of, 1)
        return sum(cost(layer.name, layer.taken, layer.made) for layer in sized(of, []))

    by_weights = prune(found, weakest(found, coupled(found), 0.3))
    ratio = 1 - work(by_weights) / work(found)
    by_data = prune_with_data(found, observer({name: train}), ratio, multiply_adds(found, 1), block=8, least=1500)
    assert work(by_data) <= 1.0001 * work(by_weights)
    assert right(by_data) > right(by_weights) + 0.1


def in_groups(parts: int = 2, wide: int = 48) -> Graph:
    """What the block of a residual network goes around is done in groups, as in ResNeXt and RegNet."""
    found = residual(wide, 24)
    pad = found.nodes[2].attributes
    inside = (
        Node("c2", "Conv", ("d", "w5", "b5"), ("c2",), {**pad, "group": parts}),
        Node("d2", "Relu", ("c2",), ("d2",), {}),
        Node("e", "Conv", ("d2", "w3", "b3"), ("e",), pad),
    )
    values = dict(found.values) | {name: replace(found.values["c"], name=name) for name in ("c2", "d2")}
    constants = dict(found.constants) | {
        "w5": random(wide, wide // parts, 3, 3, seed=5) / 12,
        "b5": random(wide, seed=5),
    }
    return replace(found, nodes=(*found.nodes[:4], *inside, *found.nodes[5:]), values=values, constants=constants)


def test_what_takes_by_groups_is_fitted_group_by_group() -> None:
    found = in_groups()
    observe = observer({"x": X})
    smaller = prune_with_data(found, observe, 0.6, multiply_adds(found, 1), block=8, least=2000)
    made = {node.name: node for node in smaller.nodes}
    assert made["c2"].attributes["group"] == 2
    assert smaller.constants["w5"].shape[1] < 24, "what goes into the groups"
    cost = multiply_adds(found, 1)
    work = [sum(cost(each.name, each.taken, each.made) for each in sized(of, [])) for of in (found, smaller)]
    assert work[1] <= 0.4 * work[0]
    those = [group for group in groups(found, coupled(found)) if len(group.classes) > 8]
    gone = [each for group in those for each in group.classes[len(group.classes) // 2 :]]
    without = prune(found, gone)
    held_out = random(200, 3, 6, 6, seed=10)

    def error(of: Graph) -> float:
        return float(np.square(answers(of, held_out) - answers(found, held_out)).mean())

    assert error(repair(found, without, gone, observe)) < 0.5 * error(without)


def test_a_copy_of_a_channel_in_its_own_group_is_not_missed() -> None:
    found = in_groups()
    constants = dict(found.constants)
    for name in ("w2", "b2"):
        constants[name] = constants[name].copy()
        constants[name][[5, 29]] = constants[name][[3, 27]]
    found = replace(found, constants=constants)
    gone = inner(found, [5])
    assert [each.channels[:2] for each in gone] == [(("c", 5), ("c", 29))]
    exact = answers(found)
    without = prune(found, gone)
    again = repair(found, without, gone, observer({"x": X}), ridge=1e-8)
    assert np.abs(answers(without) - exact).max() > 0.1 * exact.std()
    assert np.abs(answers(again) - exact).max() < 1e-3 * exact.std()


def test_what_has_nothing_to_take_out_is_refused() -> None:
    found = residual(inner=8, width=8)
    with pytest.raises(Unsupported, match="no layer has more than 16 channels"):
        prune_with_data(found, observer({"x": X}), 0.3)
