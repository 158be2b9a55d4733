"""Chains of operators cut by rows: the same answers as the whole, whatever the windows, the cuts and the shares."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, assume, given, settings
from hypothesis import strategies as st
from split_networks import ORT, in_turn

from edgewise.model.graph import graph
from edgewise.model.load import inspect
from edgewise.parallel.split.chains import Chain, Chains, early, row_edges
from edgewise.parallel.split.plan import plan
from edgewise.parallel.split.rows import row_rule
from networks import Network, whole

pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")


def always(chain: Chain) -> bool:
    return chain.convolutions > 0


def agree(answers: list[dict[str, Any]], expected: dict[str, Any]) -> None:
    for name, array in expected.items():
        for answer in answers:
            np.testing.assert_allclose(answer[name], array, rtol=1e-4, atol=1e-4 * max(1e-3, np.abs(array).max()))


@pytest.mark.parametrize("optimized", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_random_networks_by_rows(tmp_path: Path, seed: int, optimized: bool) -> None:
    model = Network(seed + 100).save(tmp_path / "m.onnx", layers=8, size=24)
    random = np.random.default_rng(seed)
    shares = [list(random.uniform(0.1, 1.0, int(random.choice([2, 2, 3]))))]
    axis = "rows" if seed % 2 else "auto"
    feeds, answers = in_turn(model, ORT, shares, tmp_path, optimized, axis, always)
    agree(answers, whole(model, feeds))


def one_operator(path: Path, operator: str, inputs: int, rows: int, weights: list[Any], **attributes: Any) -> Any:
    """x (1, 8, rows, 9) through a convolution, the operator, and another convolution."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    random = np.random.default_rng(0)

    def weight(name: str, *shape: int) -> Any:
        return numpy_helper.from_array(random.standard_normal(shape).astype(np.float32) / 8, name)

    nodes = [
        helper.make_node("Conv", ["x", "a"], ["y"], name="first", kernel_shape=[3, 3], pads=[1] * 4),
        helper.make_node(operator, ["y", *[w.name for w in weights]], ["z"], name="middle", **attributes),
        helper.make_node("Conv", ["z", "b"], ["out"], name="last", kernel_shape=[1, 1]),
    ]
    made = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, inputs, rows, 9])],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, [None] * 4)],
        [weight("a", 16, inputs, 3, 3), weight("b", 16, 16, 1, 1), *weights],
    )
    onnx.save(helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return inspect(str(path))


WINDOWS = st.fixed_dictionaries(
    {
        "kernel": st.integers(1, 5),
        "stride": st.integers(1, 3),
        "dilation": st.integers(1, 2),
        "heads": st.tuples(st.integers(0, 2), st.integers(0, 2)),
        "tails": st.tuples(st.integers(0, 2), st.integers(0, 2)),
        "automatic": st.sampled_from(["NOTSET", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"]),
        "operator": st.sampled_from(["Conv", "Depthwise", "MaxPool", "AveragePool"]),
        "ceil": st.booleans(),
        "counted": st.booleans(),
        "rows": st.integers(8, 30),
        "share": st.floats(0.05, 0.95),
        "optimized": st.booleans(),
    }
)


@given(WINDOWS)
@settings(max_examples=40, deadline=None, phases=[Phase.explicit, Phase.generate])
def test_any_window(tmp_path_factory: pytest.TempPathFactory, asked: dict[str, Any]) -> None:
    from onnx import numpy_helper

    folder = tmp_path_factory.mktemp("window")
    kernel, pools = asked["kernel"], asked["operator"].endswith("Pool")
    most = kernel - 1 if pools else 2
    pads = [min(each, most) for each in (*asked["heads"], *asked["tails"])]
    attributes: dict[str, Any] = {"kernel_shape": [kernel] * 2, "strides": [asked["stride"]] * 2}
    dilation = asked["dilation"] if kernel < 4 and asked["operator"] != "AveragePool" else 1
    if asked["automatic"] == "NOTSET":
        attributes["pads"] = pads
        attributes["dilations"] = [dilation] * 2
    else:
        attributes["auto_pad"] = asked["automatic"]
        dilation = 1
    weights = []
    if pools:
        attributes["ceil_mode"] = int(asked["ceil"] and asked["automatic"] == "NOTSET")
        if attributes["ceil_mode"]:
            # ONNX and its runtime do not agree on whether there is a last window that begins behind the image.
            for size, head, tail in zip((asked["rows"], 9), pads[:2], pads[2:], strict=True):
                last = -(-(size + head + tail - dilation * (kernel - 1) - 1) // asked["stride"]) * asked["stride"]
                assume(last < size + head)
        if asked["operator"] == "AveragePool":
            attributes.pop("dilations", None)
            attributes["count_include_pad"] = int(asked["counted"])
    else:
        group = 16 if asked["operator"] == "Depthwise" else 1
        attributes["group"] = group
        values = np.random.default_rng(1).standard_normal((16, 16 // group, kernel, kernel)).astype(np.float32)
        weights = [numpy_helper.from_array(values, "w")]
    operator = asked["operator"] if pools else "Conv"
    model = one_operator(folder / "m.onnx", operator, 3, asked["rows"], weights, **attributes)
    shares = [[asked["share"], 1 - asked["share"]]]
    feeds, answers = in_turn(model, ORT, shares, folder, asked["optimized"], "rows")
    agree(answers, whole(model, feeds))


def test_rows_of_a_known_chain(tmp_path: Path) -> None:
    """3×3 after 3×3 with stride 2: of 20 rows the upper half of 10 needs 11 in the middle, and 12 of the image."""
    network = Network(0)
    network.shapes["x"] = (1, 3, 20, 20)
    network.conv(network.conv("x", 16), 16, stride=2)
    model = network.saved(tmp_path / "m.onnx", 20, "v6")
    found = graph(model)
    chain = Chains(found, "rows").chain(0, 2, [1, 1])
    assert chain is not None
    assert chain.edges == {"v6": (0, 5, 10)}
    assert chain.rows["v3"] == ((0, 10), (9, 20))
    assert chain.rows["x"] == ((0, 11), (8, 20))
    assert chain.height == 10
    first, last = 20 * 20 * 16 * 27, 10 * 10 * 16 * 144
    assert chain.redundant == pytest.approx((first * 21 / 20 + last) / (first + last) - 1)


def test_what_ends_a_chain(tmp_path: Path) -> None:
    network = Network(3)
    model = network.save(tmp_path / "m.onnx", layers=0)
    found = graph(model)
    known = {node.operator: row_rule(node, found) is not None for node in found.nodes}
    assert known == {"Conv": True, "GlobalAveragePool": False, "Flatten": False, "Gemm": False}


def test_the_default_is_rows_where_images_are_high(tmp_path: Path) -> None:
    network = Network(0)
    network.shapes["x"] = (1, 3, 112, 112)
    y = "x"
    for stride in (2, 1, 1, 2, 1, 2, 1, 1, 1):
        y = network.conv(y, 32, stride=stride)
    model = network.saved(tmp_path / "m.onnx", 112, y)
    made = plan(graph(model), [[1, 1]], "auto")
    assert made.chains and all(chain.height >= 28 and chain.redundant <= 0.02 for chain in made.chains)
    assert sum(chain.end - chain.begin for chain in made.chains) < len(made.graph.nodes)
    assert made.steps < plan(graph(model), [[1, 1]]).steps
    assert not plan(graph(model), [[1, 1]]).chains
    assert plan(graph(model), [[1, 1]], "auto", lambda chain: False).steps == plan(graph(model), [[1, 1]]).steps


@given(st.integers(1, 300), st.lists(st.floats(0.01, 1), min_size=2, max_size=4))
def test_row_edges_cover_everything(height: int, shares: list[float]) -> None:
    edges = row_edges(height, shares)
    assert edges[0] == 0 and edges[-1] == height and list(edges) == sorted(edges)
    for edge, share in zip(edges[1:-1], np.cumsum(shares)[:-1] / sum(shares), strict=True):
        assert abs(edge - share * height) <= 1


def test_nothing_is_early_that_is_low_or_twice() -> None:
    chain = Chain(0, 2, {}, (), {}, 28, 2, 1.0, 0.01)
    assert early(chain)
    assert not early(Chain(0, 2, {}, (), {}, 27, 2, 1.0, 0.01))
    assert not early(Chain(0, 2, {}, (), {}, 28, 2, 1.0, 0.05))
    assert not early(Chain(0, 1, {}, (), {}, 28, 1, 1.0, 0.0))
