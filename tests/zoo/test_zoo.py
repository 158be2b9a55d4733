"""Built-in networks: what the papers say they are, the same each time, finite and varied outputs."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from edgewise import zoo
from edgewise.zoo import layers
from edgewise.zoo.moments import Moments
from edgewise.zoo.published import PUBLISHED

# Multiply-adds in millions, of the papers (NASNet, PNASNet, MobileNetV2, MnasNet, ShuffleNetV2) or of torchvision.
MULTIPLY_ADDS_M = {
    "alexnet": 714,
    "vgg16": 15470,
    "resnet18": 1814,
    "resnet50": 4089,
    "resnet152": 11514,
    "inception_v3": 5713,
    "squeezenet1_1": 349,
    "densenet121": 2834,
    "mobilenet_v2": 300,
    "shufflenet_v2_x0_5": 41,
    "shufflenet_v2_x1_0": 146,
    "mnasnet1_0": 315,
    "nasnetamobile": 564,
    "nasnetalarge": 23800,
    "pnasnet5large": 25000,
}

# Large enough for every layer, small enough to be quick.
SMALL = {"alexnet": 64, "inception_v3": 75, "inception_v4": 75, "xception": 71, "tiny": 32}
LARGE = {name for name, published in PUBLISHED.items() if published.params_m > 40}
BY_SIZE = [pytest.param(name, marks=pytest.mark.slow) if name in LARGE else name for name in zoo.NETWORKS]


def build(name: str, **options: int) -> Any:
    return getattr(importlib.import_module(f"edgewise.zoo.{zoo.NETWORKS[name]}"), name)(**options)


@pytest.fixture
def outlines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Networks of full size whose weights have shapes, but no values: a hundred times as fast to build."""

    def filters(_: Any, into: Moments, out: int, taps: int, groups: int, *__: Any) -> Any:
        return np.broadcast_to(np.float32(0), (out, len(into.mean) // groups, taps)), np.zeros(out)

    def constant(net: layers.Net, name: str, value: Any) -> str:
        kind = onnx.helper.np_dtype_to_tensor_dtype(value.dtype)
        data = value.tobytes() if value.dtype == np.int64 else b""  # shapes follow from the whole numbers
        net.graph.initializer.append(onnx.TensorProto(name=name, data_type=kind, dims=value.shape, raw_data=data))
        return name

    monkeypatch.setattr(layers, "filters", filters)
    monkeypatch.setattr(layers.Net, "constant", constant)


def multiply_adds(model: Any) -> int:
    """Of convolutions and linear layers, for one image."""
    inferred = onnx.shape_inference.infer_shapes(model).graph
    shapes = {t.name: list(t.dims) for t in inferred.initializer}
    for value in (*inferred.value_info, *inferred.output):
        shapes[value.name] = [dim.dim_value or 1 for dim in value.type.tensor_type.shape.dim]
    total = 0
    for node in inferred.node:
        assert node.op_type != "MatMul"
        if node.op_type in ("Conv", "Gemm"):
            places = shapes[node.output[0]][2:]
            total += int(np.prod(shapes[node.input[1]]) * np.prod(places, dtype=np.int64))
    return total


@pytest.mark.usefixtures("outlines")
@pytest.mark.parametrize("name", PUBLISHED)
def test_the_published_size(name: str) -> None:
    """All 26 parameter counts of EmBench's Table 1, to its two decimals, and multiply-adds within 2 %."""
    model, published = build(name), PUBLISHED[name]
    parameters = int({prop.key: prop.value for prop in model.metadata_props}["parameters"])
    assert f"{(parameters + published.training_parameters) / 1e6:.2f}" == f"{published.params_m:.2f}"
    if name in MULTIPLY_ADDS_M:
        assert multiply_adds(model) / 1e6 == pytest.approx(MULTIPLY_ADDS_M[name], rel=0.02)


def test_every_network_is_published_or_tiny() -> None:
    assert set(zoo.names()) == {*PUBLISHED, "tiny"}


@pytest.mark.parametrize("name", BY_SIZE)
def test_it_runs_with_values_of_order_one_that_follow_the_input(name: str) -> None:
    size = SMALL.get(name, 64)
    model = build(name, size=size)
    onnx.checker.check_model(model, full_check=True)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    # A branch that never speaks, or one that drowns the others, would show at the last pooling.
    features = next(n.input[0] for n in reversed(model.graph.node) if n.op_type in ("GlobalAveragePool", "Flatten"))
    model.graph.output.append(onnx.helper.make_tensor_value_info(features, onnx.TensorProto.FLOAT, None))
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    images = np.random.default_rng(1).standard_normal((2, 3, size, size), dtype=np.float32)
    logits, last = session.run(None, {"input": images})
    assert logits.shape == (2, 10 if name == "tiny" else 1000)
    assert np.isfinite(logits).all()
    assert 0.05 < np.sqrt(np.mean(last**2)) < 20
    assert (logits[0] - logits[1]).std() > 0.02
    alone = session.run(["logits"], {"input": images[1:]})[0]
    np.testing.assert_allclose(alone[0], logits[1], rtol=1e-3, atol=1e-3 * np.abs(logits).max())


@pytest.mark.usefixtures("outlines")
@pytest.mark.parametrize("name", zoo.NETWORKS)
def test_the_graph_is_plain(name: str) -> None:
    """Nothing computes a shape; every node has a name of its own; the batch is open."""
    graph = build(name).graph
    ops = {node.op_type for node in graph.node}
    assert ops.isdisjoint({"Shape", "Gather", "Unsqueeze", "Pad", "Identity", "Constant", "Cast"})
    assert len({node.name for node in graph.node}) == len(graph.node)
    assert [value.type.tensor_type.shape.dim[0].dim_param for value in (*graph.input, *graph.output)] == ["batch"] * 2


def test_other_classes_sizes_and_seeds() -> None:
    first, second = build("squeezenet1_1", classes=7, size=48), build("squeezenet1_1", classes=7, size=48, seed=1)
    assert first.graph.output[0].type.tensor_type.shape.dim[1].dim_value == 7
    assert first.graph.initializer[0].raw_data != second.graph.initializer[0].raw_data
    with pytest.raises(ValueError, match="too small"):
        build("inception_v3", size=32)


@pytest.mark.parametrize("name", ["tiny", "mobilenet_v2", "densenet121"])
def test_an_export_is_the_same_each_time(name: str, tmp_path: Path) -> None:
    first, second = tmp_path / "first.onnx", tmp_path / "second.onnx"
    zoo.export(name, str(first))
    zoo.export(name, str(second))
    assert first.read_bytes() == second.read_bytes()
    assert not list(tmp_path.glob("*.part"))


def test_knowing_the_names_imports_nothing() -> None:
    code = "import sys; from edgewise import zoo; zoo.names(); print(sorted({'onnx', 'numpy'} & set(sys.modules)))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.strip() == "[]"
