"""Built-in networks: what the papers say they are, the same each time, finite and varied outputs."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from outline import draw_outlines, parameters

from edgewise import zoo
from edgewise.core.errors import InputError
from edgewise.core.preprocess import parse_preprocess
from edgewise.zoo import layers
from edgewise.zoo.catalog import CATALOG
from edgewise.zoo.published import PUBLISHED

# Large enough for every layer, small enough to be quick.
SMALL = {"alexnet": 64, "inception_v3": 75, "inception_v4": 75, "xception": 71, "tiny": 32}
CLASSIFIERS = [name for name, entry in CATALOG.items() if entry.task == "classification"]
BY_SIZE = [
    pytest.param(name, marks=pytest.mark.slow) if CATALOG[name].parameters > 40e6 else name for name in CLASSIFIERS
]


@pytest.fixture
def outlines(monkeypatch: pytest.MonkeyPatch) -> None:
    draw_outlines(monkeypatch)


@pytest.mark.usefixtures("outlines")
@pytest.mark.parametrize("name", PUBLISHED)
def test_the_published_size(name: str) -> None:
    """All 26 parameter counts of EmBench's Table 1, to its two decimals. Multiply-adds: test_multiply_adds.py."""
    published = PUBLISHED[name]
    count = parameters(zoo.build(name))
    assert count == CATALOG[name].parameters
    assert f"{(count + published.training_parameters) / 1e6:.2f}" == f"{published.params_m:.2f}"


def test_every_network_of_the_papers_is_there() -> None:
    """EmBench's 26, and those the other papers ran."""
    others = (
        "mobilenet_v1_025 mobilenet_v1_050 mobilenet_v1_075 mobilenet_v1_100 inception_v1 inception_v2 resnet_v2_50 "
        "resnet_v2_101 resnet_v2_152 googlenet yolov2 posenet fast_style_transfer retinaface_mobilenet025 "
        "regnet_x_1_6gf regnet_x_4_0gf"
    )
    today = "mobilenet_v3_large mobilenet_v3_small efficientnet_lite0 vit_tiny_patch16 vit_small_patch16 mobilevit_s"
    assert set(zoo.names()) >= {*PUBLISHED, *others.split(), *today.split(), "yolo_anchor_free_n", "tiny"}


@pytest.mark.parametrize("name", BY_SIZE)
def test_it_runs_with_values_of_order_one_that_follow_the_input(name: str) -> None:
    size = SMALL.get(name, 64)
    model = zoo.build(name, size=size)
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
    # Were rounding errors magnified a thousandfold, engines would differ that are both right.
    nearby = images + np.random.default_rng(2).standard_normal(images.shape, dtype=np.float32) * np.float32(1e-4)
    difference = session.run(["logits"], {"input": nearby})[0] - logits
    assert np.sqrt(np.mean(difference**2) / np.mean(logits**2)) < 100 * 1e-4
    alone = session.run(["logits"], {"input": images[1:]})[0]
    np.testing.assert_allclose(alone[0], logits[1], rtol=1e-3, atol=1e-3 * np.abs(logits).max())


@pytest.mark.parametrize(
    # The smaller ones have time to spare, whatever else has the processor's caches meanwhile.
    "name",
    [pytest.param(n, marks=pytest.mark.alone) if CATALOG[n].parameters > 40e6 else n for n in zoo.names()],
)
def test_it_is_built_in_three_seconds(name: str) -> None:
    """At its own size, with all its weights."""
    started = time.process_time()  # what other processes take is not the network's fault
    zoo.build(name)
    assert time.process_time() - started < 3


@pytest.mark.usefixtures("outlines")
@pytest.mark.parametrize("name", zoo.names())
def test_the_graph_is_plain(name: str) -> None:
    """Nothing computes a shape; every node has a name of its own; the batch is open."""
    graph = zoo.build(name).graph
    ops = {node.op_type for node in graph.node}
    # A transformer's class token is a row more in every image of an open batch; padding is what makes room for it.
    allowed = {"Pad"} if CATALOG[name].family == "vit" else set()
    assert ops.isdisjoint({"Shape", "Gather", "Unsqueeze", "Pad", "Identity", "Constant", "Cast"} - allowed)
    assert len({node.name for node in graph.node}) == len(graph.node)
    assert {value.type.tensor_type.shape.dim[0].dim_param for value in (*graph.input, *graph.output)} == {"batch"}


def test_a_fixed_batch_and_wrong_wishes() -> None:
    model = zoo.build("tiny", batch=4)
    assert model.graph.input[0].type.tensor_type.shape.dim[0].dim_value == 4
    onnx.checker.check_model(model, full_check=True)
    for options, says in (
        ({"batch": 0}, "at least 1"),
        ({"size": -3}, "at least 1"),
        ({"seed": -1}, "at least 0"),
        ({"size": 1}, "too small"),
    ):
        with pytest.raises(InputError, match=says):
            zoo.build("squeezenet1_1", **options)
    with pytest.raises(InputError, match="fast_style_transfer has no classes; it has size, seed"):
        zoo.build("fast_style_transfer", classes=3)
    with pytest.raises(InputError, match="no built-in network 'resnet51'"):
        zoo.build("resnet51")


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        # 512 channels at 46 x 46 places, with a bias, to 4096: the first linear layer alone is 16.5 GiB.
        ("vgg16", {"size": 1500}, r"vgg16 with size 1500 .* 4096 x 1083393 make it \d+ bytes, .* holds 2130706432"),
        ("squeezenet1_1", {"classes": 100_000_000}, "an ONNX file holds"),
        ("vit_small_patch16", {"size": 8192, "classes": 2_000_000}, "an ONNX file holds"),
        ("yolov2", {"classes": 100_000_000}, "an ONNX file holds"),
        ("squeezenet1_1", {"size": 10**9}, "size must be at most 8192"),
        ("squeezenet1_1", {"classes": 10**12}, "classes must be at most 2147483647"),
        ("squeezenet1_1", {"batch": 10**30}, "batch must be at most 2147483647"),
    ],
)
def test_more_than_a_file_can_hold_is_refused_before_it_is_drawn(name: str, options: dict[str, int], says: str) -> None:
    with pytest.raises(InputError, match=says):
        zoo.build(name, **options)


def test_weights_count_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each layer of it would fit."""
    draw_outlines(monkeypatch)
    monkeypatch.setattr(layers, "_LARGEST_BYTES", 4 * CATALOG["resnet50"].parameters)
    zoo.build("resnet50")
    with pytest.raises(InputError, match="an ONNX file holds"):
        zoo.build("resnet101")


def test_a_model_says_how_images_become_its_input() -> None:
    said = {prop.key: prop.value for prop in zoo.build("squeezenet1_1", size=64, classes=3).metadata_props}
    assert parse_preprocess(said["preprocess"]) == parse_preprocess("imagenet(resize=73, crop=64)")


def test_other_classes_sizes_and_seeds() -> None:
    first, second = (
        zoo.build("squeezenet1_1", classes=7, size=48),
        zoo.build("squeezenet1_1", classes=7, size=48, seed=1),
    )
    assert first.graph.output[0].type.tensor_type.shape.dim[1].dim_value == 7
    assert first.graph.initializer[0].raw_data != second.graph.initializer[0].raw_data
    with pytest.raises(InputError, match="too small"):
        zoo.build("inception_v3", size=32)


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
