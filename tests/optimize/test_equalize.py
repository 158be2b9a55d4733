"""Channels made even: the same answers from other weights."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgewise.core.types import Tensor
from edgewise.model.feeds import shapes
from edgewise.model.graph import Array, Graph, Node, fixed, graph
from edgewise.model.load import inspect
from edgewise.optimize.observe import observer
from edgewise.optimize.quantize.equalize import equalized, pairs
from edgewise.zoo import pocket

SIZE = 6
BETWEEN = ("", "Relu", "LeakyRelu", "PRelu", "MaxPool", "Clip(0)", "Clip(0,6)", "Sigmoid", "branch")
SOME = {"x": np.random.default_rng(5).standard_normal((3, 4, SIZE, SIZE)).astype(np.float32)}


def network(layers: list[tuple[int, int, str]], seed: int) -> Graph:
    """Convolutions of (channels, groups, what comes after); channels of very different sizes."""
    rng = np.random.default_rng(seed)
    nodes: list[Node] = []
    constants: dict[str, Array] = {"zero": np.float32(0), "six": np.float32(6)}
    values = {"x": Tensor("x", "float32", (1, 4, SIZE, SIZE))}
    taken, width = "x", 4

    def put(operator: str, *inputs: str, **attributes: object) -> None:
        nonlocal taken
        made = f"v{len(nodes)}"
        nodes.append(Node(made, operator, inputs, (made,), attributes))
        values[made] = Tensor(made, "float32", (1, width, SIZE, SIZE))
        taken = made

    for place, (channels, asked, between) in enumerate(layers):
        groups = asked if width % asked == 0 and channels % asked == 0 else 1
        sizes = np.exp(rng.uniform(-2, 2, channels))[:, None, None, None] / np.sqrt(9 * width / groups)
        weights = rng.standard_normal((channels, width // groups, 3, 3)) * sizes
        constants[f"w{place}"] = weights.astype(np.float32)
        constants[f"b{place}"] = rng.standard_normal(channels).astype(np.float32)
        width = channels
        bias = (f"b{place}",) if rng.random() < 0.7 else ()
        put("Conv", taken, f"w{place}", *bias, group=groups, pads=[1, 1, 1, 1])
        before = taken
        if between == "PRelu":
            constants[f"s{place}"] = rng.random((channels, 1, 1)).astype(np.float32)
            put("PRelu", taken, f"s{place}")
        elif between == "MaxPool":
            put("MaxPool", taken, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
        elif between.startswith("Clip"):
            put("Clip", taken, "zero", *(("six",) if "6" in between else ()))
        elif between == "branch":
            put("Relu", taken)
            put("Add", taken, before)
        elif between:
            put(between, taken)
    return Graph(tuple(nodes), constants, values, ("x",), (taken,), 17)


def answers(of: Graph) -> Array:
    return np.concatenate([each[of.outputs[0]] for each in observer(SOME, threads=1)(of, of.outputs)])


layer = st.tuples(st.sampled_from((4, 8, 6)), st.sampled_from((1, 2, 4, 8)), st.sampled_from(BETWEEN))


@settings(max_examples=40, deadline=None)
@given(st.lists(layer, min_size=2, max_size=5), st.integers(0, 1000))
def test_the_answers_stay_what_they_were(layers: list[tuple[int, int, str]], seed: int) -> None:
    plain = network(layers, seed)
    # What is cut off or cancels out on the way has been rounded at its size before.
    inside = [node.outputs[0] for node in plain.nodes]
    largest = max(
        float(np.abs(array).max()) for each in observer(SOME, threads=1)(plain, inside) for array in each.values()
    )
    assert np.abs(answers(equalized(plain)) - answers(plain)).max() <= 1e-4 * largest


def largest(weights: Array, axis: int) -> Array:
    return np.abs(weights).max(tuple(each for each in range(4) if each != axis))


@pytest.mark.parametrize("between", ["", "Relu", "LeakyRelu", "PRelu", "MaxPool", "Clip(0)"])
def test_what_makes_a_channel_is_as_large_as_what_takes_it(between: str) -> None:
    rng = np.random.default_rng(0)
    plain = network([(8, 1, between), (8, 1, "Relu")], 0)
    plain.constants["w1"][:] *= np.exp(rng.uniform(-1, 1, (1, 8, 1, 1))).astype(np.float32)
    even = equalized(plain).constants
    np.testing.assert_allclose(largest(even["w0"], 0), largest(even["w1"], 1), rtol=1e-3)
    assert not np.allclose(largest(plain.constants["w0"], 0), largest(plain.constants["w1"], 1), rtol=0.1)


@pytest.mark.parametrize("between", ["Clip(0,6)", "Sigmoid", "branch"])
def test_nothing_is_moved_past_what_lets_no_factor_through(between: str) -> None:
    plain = network([(8, 1, between), (8, 1, "Relu")], 0)
    assert not list(pairs(plain))
    even = equalized(plain).constants
    assert all(np.array_equal(even[name], array) for name, array in plain.constants.items())


def test_weights_that_two_layers_share_are_left_alone() -> None:
    plain = network([(4, 1, "Relu"), (4, 1, "Relu")], 0)
    nodes = tuple(
        Node(n.name, n.operator, (n.inputs[0], "w0", *n.inputs[2:]), n.outputs, n.attributes) if "w1" in n.inputs else n
        for n in plain.nodes
    )
    shared = Graph(nodes, plain.constants, plain.values, plain.inputs, plain.outputs, plain.opset)
    assert not list(pairs(shared))


def test_a_trained_network_answers_the_same() -> None:
    model = inspect(pocket.path("pocket/small"))
    plain = graph(fixed(model, shapes(model, 1, {})))
    x = {"input": np.random.default_rng(0).standard_normal((8, *plain.values["input"].shape[1:])).astype(np.float32)}
    before, after = (
        np.concatenate([each[plain.outputs[0]] for each in observer(x, threads=1)(of, plain.outputs)])
        for of in (plain, equalized(plain))
    )
    np.testing.assert_allclose(after, before, atol=1e-4 * np.abs(before).max())
