"""Convolutional classifiers beyond EmBench: as large as those who published them say, and values of order one."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from outline import draw_outlines, multiply_adds, parameters

from edgewise import zoo
from edgewise.zoo.catalog import CATALOG

# To the last one. Keras and TF-slim share these networks; what Keras calls trainable is counted.
PARAMETERS = {
    "mobilenet_v1_100": (4_231_976, "Keras"),
    "resnet_v2_50": (25_568_360, "Keras"),
    "resnet_v2_101": (44_577_896, "Keras"),
    "resnet_v2_152": (60_236_904, "Keras"),
    "inception_v1": (6_624_904, "torchvision, which calls it googlenet"),
    "regnet_x_1_6gf": (9_190_136, "torchvision"),
    "mobilenet_v3_large": (5_483_032, "torchvision"),
    "mobilenet_v3_small": (2_542_856, "torchvision"),
}

# In millions, as printed.
PARAMETERS_M = {
    "mobilenet_v1_025": ("0.5", "paper, Table 6"),
    "mobilenet_v1_050": ("1.3", "paper, Table 6"),
    "mobilenet_v1_075": ("2.6", "paper, Table 6"),
    "mobilenet_v1_100": ("4.2", "paper, Table 6"),
    "googlenet": ("6.999", "OpenVINO's model zoo, of Caffe's file"),
    "regnet_x_1_6gf": ("9.2", "pycls"),
    "regnet_x_4_0gf": ("22.1", "pycls"),
    "efficientnet_lite0": ("4.65", "timm"),
}

# What TF-slim's own tests count before the classifier: weights, and per normalized channel a shift, a mean and a
# variance, but no scale.
BEFORE_CLASSIFIER = {"inception_v1": 5_607_184, "inception_v2": 10_173_112}
CLASSIFIER = 1024 * 1000 + 1000

# In millions; a profile of TF-slim's networks counts floating-point operations, two for each.
MULTIPLY_ADDS_M = {
    "mobilenet_v1_025": (41, "paper, Table 6"),
    "mobilenet_v1_050": (149, "paper, Table 6"),
    "mobilenet_v1_075": (325, "paper, Table 6"),
    "mobilenet_v1_100": (569, "paper, Table 6"),
    "inception_v1": (3000 / 2, "TF-slim"),
    "inception_v2": (3870 / 2, "TF-slim"),
    "resnet_v2_50": (13080 / 2, "TF-slim"),
    "resnet_v2_101": (26770 / 2, "TF-slim"),
    "resnet_v2_152": (40450 / 2, "TF-slim"),
    "regnet_x_1_6gf": (1603, "torchvision"),
    "regnet_x_4_0gf": (4000, "pycls"),
    "mobilenet_v3_large": (217, "TF-slim"),
    "mobilenet_v3_small": (57, "torchvision"),
}

NAMES = sorted({*PARAMETERS, *PARAMETERS_M, *BEFORE_CLASSIFIER})
LARGE = ("resnet_v2_101", "resnet_v2_152")


@pytest.fixture
def outlines(monkeypatch: pytest.MonkeyPatch) -> None:
    draw_outlines(monkeypatch)


def session(model: Any, *also: str) -> onnxruntime.InferenceSession:
    """The model, which returns the values named, too."""
    model.graph.output.extend(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in also)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


@pytest.mark.usefixtures("outlines")
@pytest.mark.parametrize("name", NAMES)
def test_as_many_parameters_and_multiply_adds_as_published(name: str) -> None:
    model = zoo.build(name)
    if name in PARAMETERS:
        assert parameters(model) == PARAMETERS[name][0]
    if name in PARAMETERS_M:
        printed = PARAMETERS_M[name][0]
        decimals = len(printed.partition(".")[2])
        assert f"{parameters(model) / 1e6:.{decimals}f}" == printed
    if name in BEFORE_CLASSIFIER:
        folded = sum(int(np.prod(tensor.dims)) for tensor in model.graph.initializer)
        normalized = parameters(model) - folded
        assert folded - CLASSIFIER + 2 * normalized == BEFORE_CLASSIFIER[name]
    if name in MULTIPLY_ADDS_M:
        assert multiply_adds(model) / 1e6 == pytest.approx(MULTIPLY_ADDS_M[name][0], rel=0.01)


@pytest.mark.usefixtures("outlines")
@pytest.mark.parametrize("name", NAMES)
def test_the_catalog_says_what_the_graph_has(name: str) -> None:
    model, entry = zoo.build(name), CATALOG[name]
    assert (parameters(model), multiply_adds(model)) == (entry.parameters, entry.multiply_adds)
    assert entry.paper is not None
    assert entry.accuracy is not None
    assert entry.source


def test_four_widths_of_one_network_differ_only_in_channels() -> None:
    def outline(name: str) -> list[str]:
        return [node.op_type for node in zoo.build(name, size=32).graph.node]

    assert len({tuple(outline(f"mobilenet_v1_{width}")) for width in ("025", "050", "075", "100")}) == 1


@pytest.mark.parametrize(
    ("name", "ops"),
    [
        ("googlenet", {"LRN"}),
        ("mobilenet_v3_large", {"HardSwish", "HardSigmoid", "Mul"}),
        ("mobilenet_v3_small", {"HardSwish", "HardSigmoid", "Mul"}),
        ("resnet_v2_50", {"BatchNormalization"}),
    ],
)
def test_what_a_network_is_known_for_is_one_operator(name: str, ops: set[str]) -> None:
    """Not taken apart into several, so that an engine's own operator is what is measured."""
    assert ops <= {node.op_type for node in zoo.build(name, size=64).graph.node}


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n in LARGE else n for n in NAMES])
def test_at_its_own_size_it_answers_to_the_image(name: str) -> None:
    model = zoo.build(name)
    size = model.graph.input[0].type.tensor_type.shape.dim[2].dim_value
    features = next(node.input[0] for node in reversed(model.graph.node) if node.op_type == "GlobalAveragePool")
    images = np.random.default_rng(1).standard_normal((2, 3, size, size), dtype=np.float32)
    logits, last = session(model, features).run(None, {"input": images})
    assert 0.05 < np.sqrt(np.mean(last**2)) < 20
    assert (logits[0] - logits[1]).std() > 0.02


def test_the_weighing_of_channels_takes_all_weights_between_nothing_and_everything() -> None:
    """A gate that is always open, or always shut, would leave a network without it."""
    model = zoo.build("mobilenet_v3_large")
    gates = [node.output[0] for node in model.graph.node if node.op_type == "HardSigmoid"]
    images = np.random.default_rng(1).standard_normal((1, 3, 224, 224), dtype=np.float32)
    weights = np.concatenate([gate.ravel() for gate in session(model, *gates).run(gates, {"input": images})])
    assert 0.4 < weights.mean() < 0.6
    assert 0.05 < weights.std() < 0.35


@pytest.mark.parametrize(
    ("name", "preprocess"),
    [("mobilenet_v1_100", "inception"), ("resnet_v2_50", "inception"), ("mobilenet_v3_small", "imagenet")],
)
def test_a_network_says_how_its_images_are_prepared(name: str, preprocess: str) -> None:
    props = {prop.key: prop.value for prop in zoo.build(name, size=64).metadata_props}
    assert props["preprocess"].startswith(preprocess)
