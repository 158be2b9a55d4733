"""Every other convolution cut by its input channels: the same answers as the whole, and half the exchanges."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from split_networks import ORT, in_turn

from edgewise.core.errors import Unsupported
from edgewise.core.records import to_json
from edgewise.core.text import parse_placement, parse_target
from edgewise.core.types import Model
from edgewise.model.graph import graph
from edgewise.model.load import inspect
from edgewise.optimize.quantize import quantize_file
from edgewise.parallel.split.balance import Way
from edgewise.parallel.split.executable import Split
from edgewise.parallel.split.plan import plan
from edgewise.parallel.split.rewrite import write
from edgewise.parallel.split.search import candidates
from edgewise.parallel.split.source import Source
from edgewise.parallel.split.ways import Ways, loads
from networks import Network, whole
from processor import VNNI

pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")


def agree(answers: list[dict[str, Any]], expected: dict[str, Any]) -> None:
    for name, array in expected.items():
        for answer in answers:
            np.testing.assert_allclose(answer[name], array, rtol=1e-4, atol=1e-4 * max(1e-3, np.abs(array).max()))


@pytest.mark.parametrize("optimized", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_random_networks_by_input_channels(tmp_path: Path, seed: int, optimized: bool) -> None:
    model = Network(seed + 200).save(tmp_path / "m.onnx", layers=8)
    random = np.random.default_rng(seed)
    parts = int(random.choice([2, 2, 3]))
    shares = [list(random.uniform(0.1, 1.0, parts)) for _ in range(int(random.choice([1, 4])))]
    feeds, answers = in_turn(model, ORT, shares, tmp_path, optimized, "inputs")
    agree(answers, whole(model, feeds))


# Activations that engines fuse into a convolution, with settings of their own.
SETTINGS: dict[str, Any] = {"LeakyRelu": {"alpha": 0.3}, "HardSigmoid": {"alpha": 0.3, "beta": 0.4}, "Clip": {}}
WINDOWS = st.fixed_dictionaries(
    {
        "kernel": st.integers(1, 5),
        "stride": st.integers(1, 3),
        "dilation": st.integers(1, 2),
        "pads": st.tuples(*[st.integers(0, 2)] * 4),
        "automatic": st.sampled_from(["NOTSET", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"]),
        "bias": st.booleans(),
        "behind": st.sampled_from(["", "Relu", *SETTINGS, "HardSwish", "Sigmoid", "Tanh", "BatchNormalization"]),
        "residual": st.booleans(),
        "channels": st.sampled_from([16, 24, 32, 48, 80]),
        "shares": st.lists(st.floats(0.05, 1.0), min_size=2, max_size=3),
        "optimized": st.booleans(),
    }
)


def windowed(path: Path, asked: dict[str, Any]) -> Model:
    """A convolution by output channels, the one asked for behind it, and another; a sum with what came before."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    random = np.random.default_rng(0)
    weights: list[Any] = []

    def weight(name: str, *shape: int) -> str:
        values = (random.standard_normal(shape) / max(1.0, np.sqrt(np.prod(shape[1:])))).astype(np.float32)
        weights.append(
            numpy_helper.from_array(np.abs(values) + np.float32(0.5) if name == "variance" else values, name)
        )
        return name

    channels, kernel = asked["channels"], asked["kernel"]
    window: dict[str, Any] = {"kernel_shape": [kernel] * 2, "strides": [asked["stride"]] * 2}
    if asked["automatic"] == "NOTSET":
        window |= {"pads": list(asked["pads"]), "dilations": [asked["dilation"]] * 2}
    else:
        window["auto_pad"] = asked["automatic"]
    bias = [weight("c", 32)] if asked["bias"] else []
    nodes = [
        helper.make_node("Conv", ["x", weight("a", channels, 3, 1, 1)], ["first"], name="first"),
        helper.make_node(
            "Conv", ["first", weight("b", 32, channels, kernel, kernel), *bias], ["y"], name="mid", **window
        ),
    ]
    name = "y"
    if asked["behind"]:
        norms = [weight(each, 32) for each in ("scale", "shift", "mean", "variance")]
        more = norms if asked["behind"] == "BatchNormalization" else []
        if asked["behind"] == "Clip":
            weights.extend(
                numpy_helper.from_array(np.array(to, np.float32), each) for each, to in (("lo", -0.2), ("hi", 0.5))
            )
            more = ["lo", "hi"]
        set_to = SETTINGS.get(asked["behind"], {})
        nodes.append(helper.make_node(asked["behind"], ["y", *more], ["z"], name="behind", **set_to))
        name = "z"
    if asked["residual"]:
        # The same windows over the same values: something of the same size that was cut otherwise.
        nodes.append(
            helper.make_node("Conv", ["first", weight("d", 32, channels, kernel, kernel)], ["r"], name="r", **window)
        )
        nodes.append(helper.make_node("Add", [name, "r"], ["s"], name="sum"))
        nodes.append(helper.make_node("Relu", ["s"], ["t"], name="after"))
        name = "t"
    nodes.append(helper.make_node("Conv", [name, weight("e", 32, 32, 1, 1), weight("f", 32)], ["out"], name="last"))
    made = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 17, 15])],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, [None] * 4)],
        weights,
    )
    onnx.save(helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return inspect(str(path))


@given(WINDOWS)
@settings(max_examples=60, deadline=None, phases=[Phase.explicit, Phase.generate])
def test_any_window_and_what_follows(tmp_path_factory: pytest.TempPathFactory, asked: dict[str, Any]) -> None:
    folder = tmp_path_factory.mktemp("inputs")
    model = windowed(folder / "m.onnx", asked)
    feeds, answers = in_turn(model, ORT, [asked["shares"]], folder, asked["optimized"], "inputs")
    agree(answers, whole(model, feeds))


def row(path: Path, convolutions: int, channels: int = 32) -> Model:
    network = Network(0)
    network.shapes["x"] = (1, 3, 12, 12)
    y = "x"
    for _ in range(convolutions):
        y = network.add("Relu", [network.conv(y, channels)], (1, channels, 12, 12))
    return network.saved(path, 12, y)


def test_two_convolutions_cost_one_exchange(tmp_path: Path) -> None:
    found = graph(row(tmp_path / "m.onnx", 6))
    made = plan(found, [[1, 1]], "inputs")
    assert made.sums == 3
    # The last one only adds up.
    assert (made.steps, plan(found, [[1, 1]]).steps) == (4, 6)
    shared = [name for name, value in made.values.items() if value.shared and name in made.lasting]
    assert sum("of part" in name for name in shared) == 6


def test_what_is_added_comes_once_and_activations_come_after(tmp_path: Path) -> None:
    found = graph(row(tmp_path / "m.onnx", 2))
    made = plan(found, [[1, 1]], "inputs")
    first, second = (work.node for work in made.works if work.only is not None)
    assert (len(first.inputs), len(second.inputs)) == (3, 2)
    assert [work.node.operator for work in made.works if work.step == 1] == ["Add", "Relu"]


def test_each_part_does_its_share_of_the_multiplications(tmp_path: Path) -> None:
    found = graph(row(tmp_path / "m.onnx", 2))
    (work, _), (by_outputs, _) = (loads(plan(found, [[0.5, 0.5]], axis))[0] for axis in ("inputs", "channels"))
    _, last = loads(plan(found, [[0.5, 0.5]], "channels"))
    assert work == pytest.approx(by_outputs + last[0], rel=0.01)


def test_products_too(tmp_path: Path) -> None:
    network = Network(0)
    network.shapes["x"] = (1, 3, 4, 4)
    flat = network.add("Flatten", ["x"], (1, 48))
    first = network.add("Gemm", [flat, network.constant(64, 48), network.constant(64)], (1, 64), transB=1)
    bent = network.add("Relu", [first], (1, 64))
    second = network.add("Gemm", [bent, network.constant(64, 96), network.constant(96)], (1, 96), alpha=0.5, beta=2.0)
    third = network.add("MatMul", [second, network.constant(96, 64)], (1, 64))
    last = network.add("MatMul", [third, network.constant(64, 40)], (1, 40))
    model = network.saved(tmp_path / "m.onnx", 4, last)
    assert plan(graph(model), [[1, 1]], "inputs").sums == 2
    feeds, answers = in_turn(model, ORT, [[0.5, 0.2, 0.3]], tmp_path, False, "inputs")
    agree(answers, whole(model, feeds))


def test_processes_answer_like_the_whole(tmp_path: Path) -> None:
    model = row(tmp_path / "m.onnx", 5)
    split = Split([(model, ())] * 2, parse_placement(f"split({ORT}{{split=inputs}}=0.5, {ORT}=0.5)"))
    try:
        assert "2 of them by input channels, and added up by every part" in split.ran().notes
        for seed in range(5):
            feeds = {"x": np.random.default_rng(seed).standard_normal((1, 3, 12, 12)).astype(np.float32)}
            agree([dict(split.run(feeds))], whole(model, feeds))
    finally:
        split.close()


@pytest.mark.parametrize(("exchange_ns", "tried"), [(1_000, False), (10_000, False), (1_000_000, True)])
def test_it_is_tried_only_where_waiting_costs_more_than_adding_up(
    tmp_path: Path, exchange_ns: float, tried: bool
) -> None:
    model, targets = row(tmp_path / "m.onnx", 8, 64), [parse_target(ORT)] * 2
    ways = Ways([model] * 2, Source(graph(model), targets), targets, ["channels", "inputs"])
    now = Way("split", ((0.5, 0.5),), axis="channels")
    # Fifty multiplications in a nanosecond.
    busy = [[work / 50 for work in step] for step in ways.loads(now)]
    frame_ns = sum(map(max, busy)) + exchange_ns * len(busy)
    found = candidates(ways, now, busy, frame_ns)
    assert any(way.axis == "inputs" for way in found) == tried


def test_eight_bits_never_try_it(tmp_path: Path) -> None:
    model = row(tmp_path / "m.onnx", 3)
    made = quantize_file(model=to_json(model), shapes={"x": [1, 3, 12, 12]}, path=str(tmp_path / "q.onnx"), vnni=VNNI)
    split = Split([(model, ()), (inspect(made.path), ())], parse_placement(f"split({ORT}=0.5, ort:cpu:int8@1=0.5)"))
    try:
        assert split._ways.axes == ("auto", "channels", "rows")
    finally:
        split.close()


def test_eight_bits_are_refused(tmp_path: Path) -> None:
    model = row(tmp_path / "m.onnx", 2)
    made = quantize_file(model=to_json(model), shapes={"x": [1, 3, 12, 12]}, path=str(tmp_path / "q.onnx"), vnni=VNNI)
    small = inspect(made.path)
    for models, second in (([small, small], "int8"), ([model, small], "int8")):
        first = "int8" if models[0] is small else "fp32"
        text = f"split(ort:cpu:{first}@1{{split=inputs}}, ort:cpu:{second}@1)"
        with pytest.raises(Unsupported, match="exchanged in floating point"):
            Split([(each, ()) for each in models], parse_placement(text))


def test_written_into_the_graph_it_answers_the_same(tmp_path: Path) -> None:
    model = row(tmp_path / "m.onnx", 4)
    text = f"split({ORT}{{split=inputs}}=0.6, {ORT}=0.4)"
    written = inspect(write(to_json(model), text, str(tmp_path / "written.onnx")))
    feeds = {"x": np.random.default_rng(1).standard_normal((1, 3, 12, 12)).astype(np.float32)}
    agree([whole(written, feeds)], whole(model, feeds))
    operators = [node.operator for node in graph(written).nodes]
    assert operators.count("Conv") == 8 and operators.count("Add") == 2
    # Nothing is joined or cut: a part goes on with its own channels, and everybody with the sum.
    assert "Concat" not in operators and "Slice" not in operators
