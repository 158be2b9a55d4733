"""The pocket family: the accuracies it claims, a spread worth choosing from, clean files, a script that makes it."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.typing import NDArray

from edgewise.core.errors import InputError
from edgewise.core.preprocess import parse_preprocess
from edgewise.data.scenes import SIZE, TEST_COUNT, scenes
from edgewise.model.load import inspect
from edgewise.zoo import pocket

SCRIPT = Path(__file__).resolve().parents[2] / "tools" / "pocket.py"
NAMES = ("pocket/nano", "pocket/micro", "pocket/small", "pocket/medium", "pocket/large")
SIMPLE = {"Conv", "Relu", "Clip", "Add", "GlobalAveragePool", "Flatten", "Gemm"}
MODELS: dict[str, Any] = pocket.family()["models"]


@pytest.fixture(scope="module")
def test_scenes() -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """All of them, as the models want them; made once."""
    images, labels = scenes("test", 0, TEST_COUNT)
    digest = hashlib.sha256(images.tobytes() + labels.astype("<i8").tobytes()).hexdigest()
    assert digest == pocket.family()["scenes"]["sha256"]
    values = images.transpose(0, 3, 1, 2).astype(np.float32)
    values /= 127.5
    values -= 1.0
    values *= 2.0
    return np.ascontiguousarray(values), labels


@pytest.fixture(scope="module")
def right(test_scenes: tuple[NDArray[np.float32], NDArray[np.int64]]) -> dict[str, NDArray[np.bool_]]:
    """For each model, which test scenes it gets right on ONNX Runtime."""
    values, labels = test_scenes
    found = {}
    for name in pocket.names():
        session = onnxruntime.InferenceSession(pocket.path(name), providers=["CPUExecutionProvider"])
        parts = [
            session.run(None, {"input": values[start : start + 100]})[0].argmax(1)
            for start in range(0, len(values), 100)
        ]
        found[name] = np.concatenate(parts) == labels
    return found


@pytest.mark.slow
def test_the_claimed_accuracies_are_reproduced_to_a_tenth_of_a_point(right: dict[str, NDArray[np.bool_]]) -> None:
    for name, about in MODELS.items():
        assert abs(right[name].mean() - about["top1"]) <= 0.001, name
        assert about["correct"] == round(about["top1"] * TEST_COUNT)
    oracle = np.any(list(right.values()), axis=0).mean()
    assert abs(oracle - pocket.family()["oracle"]["top1"]) <= 0.001
    # What the whole family is for: no single model gets right what all together do.
    assert oracle - max(each.mean() for each in right.values()) >= 0.02


@pytest.mark.slow
def test_small_models_do_the_easy_scenes_and_large_ones_the_hard_ones(right: dict[str, NDArray[np.bool_]]) -> None:
    nano, large = right["pocket/nano"], right["pocket/large"]
    assert large[nano].mean() > 0.97
    assert large[~nano].mean() > 0.7
    assert (nano & ~large).any()


def test_accuracy_rises_with_cost() -> None:
    assert pocket.names() == tuple(MODELS) == NAMES
    costs = [about["multiply_adds"] for about in MODELS.values()]
    top1 = [about["top1"] for about in MODELS.values()]
    assert costs == sorted(costs) and costs[-1] >= 30 * costs[0]
    assert all(after - before >= 0.005 for before, after in pairwise(top1))
    assert top1[-1] - top1[0] >= 0.12 and top1[-1] <= 0.97
    assert pocket.family()["oracle"]["top1"] - max(top1) >= 0.02
    assert all(about["top5"] > about["top1"] for about in MODELS.values())


def test_all_files_together_are_small() -> None:
    folder = Path(pocket.path("pocket/nano")).parent
    assert sum(file.stat().st_size for file in folder.glob("*.onnx")) <= 6_000_000
    assert {file.suffix for file in folder.iterdir() if file.is_file()} == {".onnx", ".json", ".py"}


@pytest.mark.parametrize("name", NAMES)
def test_a_file_is_clean(name: str) -> None:
    """Its operators are the common ones, its nodes are named, and it says what it is and how it is fed."""
    model = onnx.load(pocket.path(name))
    onnx.checker.check_model(model, full_check=True)
    graph = model.graph
    assert {node.op_type for node in graph.node} <= SIMPLE
    nodes = [node.name for node in graph.node]
    assert all(nodes) and len(set(nodes)) == len(nodes)
    assert [(opset.domain, opset.version) for opset in model.opset_import] == [("", 17)]
    shape = graph.input[0].type.tensor_type.shape.dim
    assert [graph.input[0].name, graph.output[0].name] == ["input", "logits"]
    assert [dim.dim_param or dim.dim_value for dim in shape] == ["batch", 3, SIZE, SIZE]
    assert all(tensor.data_location == onnx.TensorProto.DEFAULT for tensor in graph.initializer)
    about = {prop.key: prop.value for prop in model.metadata_props}
    assert about["data"] == "pocket"
    assert int(about["parameters"]) == MODELS[name]["parameters"]
    loaded = inspect(pocket.path(name))
    assert loaded.data == "pocket"
    assert loaded.preprocess == parse_preprocess("unit(mean=0.5, std=0.25)")


def test_depthwise_and_plain_convolutions_are_both_there() -> None:
    depthwise = {
        name
        for name in NAMES
        for node in onnx.load(pocket.path(name)).graph.node
        for attribute in node.attribute
        if attribute.name == "group" and attribute.i > 1
    }
    assert depthwise == {"pocket/nano", "pocket/small"}


@pytest.mark.parametrize("name", NAMES)
def test_the_record_tells_how_a_model_was_made(name: str) -> None:
    about = MODELS[name]
    assert {"scenes", "epochs", "batch", "rate", "seed", "difficulty"} <= set(about["training"])
    assert about["training"]["difficulty"] == 1.0
    assert len(about["curve"]) == about["training"]["epochs"]
    assert about["curve"][-1]["loss"] < about["curve"][0]["loss"]
    # Chosen on validation scenes, told on test scenes: other digits, so near, but not the same.
    assert abs(about["curve"][-1]["validation_top1"] - about["top1"]) < 0.05
    assert about["torch"] and about["onnx_error"] <= 1e-4


def test_a_model_there_is_not() -> None:
    with pytest.raises(InputError, match="there is no 'pocket/huge' in the pocket family; it has pocket/nano"):
        pocket.path("pocket/huge")


def test_names_come_without_heavy_imports() -> None:
    code = (
        "import sys; from edgewise.zoo import pocket; pocket.names(); pocket.family(); "
        "print([name for name in ('numpy', 'onnx', 'torch', 'onnxruntime') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr


@pytest.mark.slow
def test_the_training_script_runs_from_scenes_to_a_file(tmp_path: Path) -> None:
    """A few steps, without a GPU."""
    pytest.importorskip("torch", reason="PyTorch is not installed")
    settings = ["--scenes", "128", "--epochs", "2", "--batch", "64", "--validation", "32"]
    command = [sys.executable, str(SCRIPT), "train", "nano", "--out", str(tmp_path), "--device", "cpu", *settings]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    told = json.loads((tmp_path / "training.json").read_text())
    assert list(told) == ["nano"]
    assert told["nano"]["multiply_adds"] == MODELS["pocket/nano"]["multiply_adds"]
    assert len(told["nano"]["curve"]) == 2
    made, kept = (onnx.load(path) for path in (str(tmp_path / "nano.onnx"), pocket.path("pocket/nano")))
    assert [node.name for node in made.graph.node] == [node.name for node in kept.graph.node]
