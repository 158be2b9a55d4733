"""Channels taken out: what is left answers as if nobody took anything from them."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgewise import zoo
from edgewise.core.types import Tensor
from edgewise.model import feeds
from edgewise.model.emit import emit
from edgewise.model.graph import Graph, Node, fixed, graph
from edgewise.model.load import inspect
from edgewise.optimize.prune import mask, prune, sparsity
from edgewise.optimize.prune.coupling import coupled


def answers(found: Graph, x: dict[str, Any]) -> list[np.ndarray[Any, Any]]:
    inputs, outputs = ([found.values[name] for name in names] for names in (found.inputs, found.outputs))
    made = emit(found.nodes, found.constants, inputs, outputs, found.opset).SerializeToString()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    return list(onnxruntime.InferenceSession(made, options).run(None, x))


def same(a: Graph, b: Graph, x: dict[str, Any]) -> None:
    for ours, theirs in zip(answers(a, x), answers(b, x), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4 * max(1e-6, float(np.abs(theirs).max())))


@pytest.mark.parametrize(
    "name",
    [
        *("resnet18", "mobilenet_v2", "mobilenet_v3_small", "squeezenet1_1", "densenet121", "shufflenet_v2_x0_5"),
        *("regnet_x_1_6gf", "tiny"),
    ],
)
def test_pruned_is_masked(name: str, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    zoo.export(name, str(path))
    model = inspect(str(path))
    shapes = feeds.shapes(model, 1, {})
    model = fixed(model, shapes)
    found = graph(model)
    classes = coupled(found)
    gone = random.Random(0).sample(classes, len(classes) // 4)
    smaller = prune(found, gone)
    assert sparsity(found, smaller) > 0.1
    same(smaller, mask(found, gone), dict(feeds.feeds(model, shapes, 0)))


@st.composite
def networks(draw: st.DrawFn) -> Graph:
    """Convolutions, also by groups, sums, concatenations, activations and a product at the end, drawn at random."""
    chance = np.random.default_rng(draw(st.integers(0, 1000)))
    values = {"x": Tensor("x", "float32", (1, 3, 6, 6))}
    nodes: list[Node] = []
    constants: dict[str, Any] = {}
    width = {"x": 3}

    def add(operator: str, inputs: list[str], channels: int, **attributes: Any) -> str:
        name = f"v{len(nodes)}"
        nodes.append(Node(name, operator, tuple(inputs), (name,), attributes))
        values[name], width[name] = Tensor(name, "float32", (1, channels, 6, 6)), channels
        return name

    def weight(*shape: int) -> str:
        name = f"w{len(constants)}"
        constants[name] = chance.standard_normal(shape).astype(np.float32)
        return name

    def convolved(of: str, channels: int) -> str:
        return add("Conv", [of, weight(channels, width[of], 3, 3), weight(channels)], channels, pads=[1, 1, 1, 1])

    def grouped(of: str, groups: int, each: int) -> str:
        weights = [weight(groups * each, width[of] // groups, 3, 3), weight(groups * each)]
        return add("Conv", [of, *weights], groups * each, pads=[1, 1, 1, 1], group=groups)

    kinds = ["conv", "depthwise", "grouped", "grouped sum", "sum", "concat", "relu", "scale"]
    here = convolved("x", draw(st.integers(2, 6)))
    for kind in draw(st.lists(st.sampled_from(kinds), max_size=7)):
        channels = width[here]
        if kind == "conv":
            here = convolved(here, draw(st.integers(2, 6)))
        elif kind == "grouped":
            # Groups of several channels, of one, and such that make only one.
            groups = draw(st.sampled_from([n for n in range(2, channels + 1) if channels % n == 0] or [1]))
            here = grouped(here, groups, draw(st.integers(1, 3)))
        elif kind == "grouped sum":
            inner = convolved(here, 6)
            here = add("Add", [inner, grouped(inner, 2, 3)], 6)
        elif kind == "depthwise":
            here = add("Conv", [here, weight(channels, 1, 3, 3)], channels, pads=[1, 1, 1, 1], group=channels)
        elif kind == "sum":
            here = add("Add", [here, convolved(here, channels)], channels)
        elif kind == "concat":
            other = convolved(here, draw(st.integers(1, 4)))
            here = add("Concat", [here, other], channels + width[other], axis=1)
        elif kind == "relu":
            here = add("Sigmoid", [here], channels)
        else:
            here = add("Mul", [here, weight(1, channels, 1, 1)], channels)
    flat = f"v{len(nodes)}"
    nodes.append(Node(flat, "Flatten", (here,), (flat,), {"axis": 1}))
    values[flat] = Tensor(flat, "float32", (1, width[here] * 36))
    nodes.append(Node("y", "Gemm", (flat, weight(width[here] * 36, 5), weight(5)), ("y",), {}))
    values["y"] = Tensor("y", "float32", (1, 5))
    return Graph(tuple(nodes), constants, values, ("x",), ("y",), 17)


@given(networks(), st.randoms(use_true_random=False))
@settings(max_examples=40, deadline=None)
def test_whatever_is_taken_out_of_whatever_network(found: Graph, chance: random.Random) -> None:
    classes = coupled(found)
    assert classes, "every network here has channels that nobody outside sees"
    # Something has to stay of every layer.
    by_layer: dict[str, list[int]] = {}
    for place, each in enumerate(classes):
        by_layer.setdefault(each.params[0].name, []).append(place)
    gone = [classes[i] for those in by_layer.values() for i in chance.sample(those, len(those) // 2)]
    x = {"x": np.random.default_rng(0).standard_normal((1, 3, 6, 6), dtype=np.float32)}
    same(prune(found, gone), mask(found, gone), x)


def test_what_others_see_or_nobody_knows_stays() -> None:
    """A sum with the input itself ties channels to it; an unknown operator keeps what it reads."""
    weights = np.ones((3, 3, 1, 1), np.float32)
    values = {name: Tensor(name, "float32", (1, 3, 4, 4)) for name in "xabcy"}
    nodes = (
        Node("a", "Conv", ("x", "w"), ("a",), {}),
        Node("b", "Add", ("a", "x"), ("b",), {}),
        Node("c", "Conv", ("b", "v"), ("c",), {}),
        Node("y", "Softmax", ("c",), ("y",), {"axis": 1}),
    )
    found = Graph(nodes, {"w": weights, "v": weights.copy()}, values, ("x",), ("y",), 17)
    assert coupled(found) == []


def test_groups_stay_alike_and_lose_the_channel_at_the_same_place() -> None:
    values = {name: Tensor(name, "float32", (1, size, 4, 4)) for name, size in zip("xaby", (3, 8, 8, 5), strict=True)}
    nodes = (
        Node("a", "Conv", ("x", "u"), ("a",), {}),
        Node("b", "Conv", ("a", "v"), ("b",), {"group": 2}),
        Node("y", "Conv", ("b", "w"), ("y",), {}),
    )
    chance = np.random.default_rng(0)
    sizes = {"u": (8, 3, 1, 1), "v": (8, 4, 1, 1), "w": (5, 8, 1, 1)}
    constants = {name: chance.standard_normal(size).astype(np.float32) for name, size in sizes.items()}
    found = Graph(nodes, constants, values, ("x",), ("y",), 17)
    classes = coupled(found)
    assert [each.channels for each in classes[1:6:4]] == [(("a", 1), ("a", 5)), (("b", 1), ("b", 5))]
    smaller = prune(found, [classes[1], classes[5]])
    assert smaller.nodes[1].attributes["group"] == 2
    assert [smaller.constants[name].shape[:2] for name in "uvw"] == [(6, 3), (6, 3), (5, 6)]
    np.testing.assert_array_equal(smaller.constants["u"], constants["u"][[0, 2, 3, 4, 6, 7]])


def test_weights_that_two_layers_share_stay() -> None:
    values = {name: Tensor(name, "float32", (1, 3, 4, 4)) for name in "xaby"}
    nodes = tuple(Node(made, "Conv", (taken, "w"), (made,), {}) for taken, made in (("x", "a"), ("a", "b"), ("b", "y")))
    found = Graph(nodes, {"w": np.ones((3, 3, 1, 1), np.float32)}, values, ("x",), ("y",), 17)
    assert coupled(found) == []
