"""Sums over what layers see: those of the explicit products."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgewise.core.types import Tensor
from edgewise.model.graph import Graph, Node
from edgewise.optimize.observe import observer
from edgewise.optimize.prune.linear import Linear, linear, patches, rewritten, rows
from edgewise.optimize.prune.statistics import per_sample, places, seen
from edgewise.optimize.prune.walk import joined
from edgewise.optimize.sums import Sums

Array = np.ndarray[Any, Any]


def convolution(shape: tuple[int, ...], weights: Array, out: tuple[int, ...], **attributes: Any) -> Graph:
    values = {
        "x": Tensor("x", "float32", shape),
        "a": Tensor("a", "float32", shape),
        "y": Tensor("y", "float32", out),
    }
    nodes = (Node("a", "Relu", ("x",), ("a",), {}), Node("y", "Conv", ("a", "w"), ("y",), attributes))
    return Graph(nodes, {"w": weights}, values, ("x",), ("y",), 17)


def of(graph: Graph, name: str) -> Linear:
    (found,) = linear(graph, next(node for node in graph.nodes if node.name == name))
    return found


@given(st.integers(1, 3), st.integers(1, 3), st.integers(1, 3), st.integers(1, 2), st.integers(0, 2), st.integers(1, 2))
@settings(max_examples=25, deadline=None)
def test_patches_are_what_a_convolution_sees(
    channels: int, high: int, wide: int, stride: int, pad: int, dilation: int
) -> None:
    chance = np.random.default_rng(0)
    x = chance.standard_normal((3, channels, 7, 9), dtype=np.float32)
    weights = chance.standard_normal((4, channels, high, wide), dtype=np.float32)
    sides = [(size + pad + 1 - (side - 1) * dilation - 1) // stride + 1 for size, side in ((7, high), (9, wide))]
    graph = convolution(
        (1, *x.shape[1:]),
        weights,
        (1, 4, *sides),
        kernel_shape=[high, wide],
        strides=[stride, stride],
        dilations=[dilation, dilation],
        pads=[pad, pad, 1, 1],
    )
    (batch,) = observer({"x": x})(graph, ["a", "y"])
    layer = of(graph, "y")
    at = places(3, 0, batch["y"].shape[2:], 10**6)
    assert len(at) == batch["y"][:, 0].size
    made = patches(layer, batch["a"], at) @ layer.weights.T
    np.testing.assert_allclose(made, rows(batch["y"], at), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("way", ["SAME_UPPER", "SAME_LOWER", "VALID"])
def test_padding_that_is_only_named(way: str) -> None:
    chance = np.random.default_rng(0)
    x = chance.standard_normal((2, 2, 7, 8), dtype=np.float32)
    weights = chance.standard_normal((3, 2, 4, 2), dtype=np.float32)
    graph = convolution((1, 2, 7, 8), weights, (1, 3, 2, 4), kernel_shape=[4, 2], strides=[2, 2], auto_pad=way)
    graph.values["y"] = Tensor("y", "float32", (1, 3, 4, 4) if way != "VALID" else (1, 3, 2, 4))  # type: ignore[index]
    (batch,) = observer({"x": x})(graph, ["a", "y"])
    at = places(2, 0, batch["y"].shape[2:], 10**6)
    made = patches(of(graph, "y"), batch["a"], at) @ of(graph, "y").weights.T
    np.testing.assert_allclose(made, rows(batch["y"], at), rtol=1e-4, atol=1e-4)


def test_sums_are_products() -> None:
    """In however many pieces rows come, and with large means."""
    chance = np.random.default_rng(0)
    x = chance.normal([100, 0, -3, 0, 0], 1, (10_000, 5)).astype(np.float32)
    t = (x[:, :2] @ [[1.0, 2], [3, 4]]).astype(np.float32)
    sums = Sums(5, 2)
    for begin in range(0, 10_000, 700):
        sums.add(x[begin : begin + 700], t[begin : begin + 700])
    one = np.column_stack([x, np.ones(len(x))]).astype(np.float64)
    assert sums.count == 10_000
    np.testing.assert_allclose(sums.gram, one.T @ one, rtol=1e-5, atol=1)
    np.testing.assert_allclose(sums.cross, t.T.astype(np.float64) @ one, rtol=1e-5, atol=1)
    np.testing.assert_allclose(sums.products(True), np.cov(x.T.astype(np.float64), bias=True), rtol=1e-4, atol=1e-4)


def test_seen_inside_a_network() -> None:
    chance = np.random.default_rng(0)
    x = chance.standard_normal((70, 2, 6, 6), dtype=np.float32)
    graph = convolution((1, 2, 6, 6), np.ones((3, 2, 3, 3), np.float32), (1, 3, 4, 4), kernel_shape=[3, 3])
    sums = seen(graph, observer({"x": x}), [of(graph, "y")], 70, least=10**6)["y"]
    (batch,) = observer({"x": x}, batch=70)(graph, ["a"])
    windows = np.lib.stride_tricks.sliding_window_view(batch["a"], (3, 3), axis=(2, 3))
    explicit = windows.transpose(0, 2, 3, 1, 4, 5).reshape(-1, 18).astype(np.float64)
    np.testing.assert_allclose(sums.gram[:-1, :-1], explicit.T @ explicit, rtol=1e-4)
    np.testing.assert_allclose(sums.means, explicit.mean(axis=0), rtol=1e-5)


@given(st.integers(1, 40), st.integers(0, 5000), st.integers(1, 30), st.integers(1, 30), st.integers(1, 200))
def test_places_are_the_same_for_a_sample_each_time(samples: int, first: int, high: int, wide: int, each: int) -> None:
    found = places(samples, first, (high, wide), each)
    assert (found[:, 1] < high).all()
    assert (found[:, 2] < wide).all()
    assert (found >= 0).all()
    assert len(found) == samples * (high * wide if 2 * each >= high * wide else each)
    last = places(1, first + samples - 1, (high, wide), each)
    np.testing.assert_array_equal(found[found[:, 0] == samples - 1, 1:], last[:, 1:])


def test_wide_layers_are_looked_at_more() -> None:
    assert per_sample(10, 1000) == 20
    assert per_sample(10_000, 1000) == 60


def test_products_either_way_round() -> None:
    chance = np.random.default_rng(0)
    w, b = chance.standard_normal((4, 3), dtype=np.float32), chance.standard_normal(3, dtype=np.float32)
    values = {"x": Tensor("x", "float32", (1, 4)), "y": Tensor("y", "float32", (1, 3))}
    for node, weights in (
        (Node("y", "Gemm", ("x", "w", "b"), ("y",), {}), w),
        (Node("y", "Gemm", ("x", "w", "b"), ("y",), {"transB": 1}), w.T.copy()),
        (Node("y", "MatMul", ("x", "w"), ("y",), {}), w),
    ):
        graph = Graph((node,), {"w": weights, "b": b}, values, ("x",), ("y",), 17)
        layer = of(graph, "y")
        np.testing.assert_array_equal(layer.weights, w.T.astype(np.float64))
        again = rewritten(graph, layer, layer.weights * 2, layer.bias)
        np.testing.assert_array_equal(again.constants["w"], weights * 2)


def test_a_bias_is_given_where_there_was_none() -> None:
    graph = convolution((1, 2, 4, 4), np.ones((3, 2, 1, 1), np.float32), (1, 3, 4, 4), kernel_shape=[1, 1])
    layer = of(graph, "y")
    again = rewritten(graph, layer, layer.weights, np.array([1.0, 2, 3]))
    x = np.zeros((1, 2, 4, 4), np.float32)
    (batch,) = observer({"x": x})(again, ["y"])
    np.testing.assert_array_equal(batch["y"][0, :, 0, 0], [1, 2, 3])


@pytest.mark.parametrize(
    "node",
    [
        Node("y", "Conv", ("x", "w"), ("y",), {"group": 4}),
        Node("y", "Gemm", ("x", "w"), ("y",), {"alpha": 2.0}),
        Node("y", "Gemm", ("x", "w"), ("y",), {"transA": 1}),
        Node("y", "Relu", ("x",), ("y",), {}),
        Node("y", "MatMul", ("x", "v"), ("y",), {}),
    ],
)
def test_other_kinds_are_nothing_here(node: Node) -> None:
    values = {"x": Tensor("x", "float32", (1, 4)), "y": Tensor("y", "float32", (1, 4))}
    assert linear(Graph((node,), {"w": np.ones((4, 4), np.float32)}, values, ("x",), ("y",), 17), node) == ()


def test_batches_are_joined_in_order_however_many() -> None:
    parts = [{"x": np.full((size, 2), size, np.float32)} for size in (3, 3, 1)]
    for count in (0, 3, 7, 9):
        found = joined(parts, count)["x"]
        np.testing.assert_array_equal(found, np.concatenate([part["x"] for part in parts]))
