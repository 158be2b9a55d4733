"""The folded graph: nothing that could be known is left to compute, and what is left says the same as the file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgewise.core.errors import InputError
from edgewise.model.graph import fixed, graph
from edgewise.model.load import inspect


def save(
    path: Path, nodes: list[onnx.NodeProto], weights: dict[str, np.ndarray], inputs: dict[str, list[object]]
) -> str:
    made = helper.make_graph(
        nodes,
        "test",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["a", "b"])],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    onnx.save(helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))
    return str(path)


def test_shape_arithmetic_is_done(tmp_path: Path) -> None:
    """The way exporters flatten: Shape, Gather, Concat, Reshape."""
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Gather", ["shape", "zero"], ["batch"], axis=0),
        helper.make_node("Unsqueeze", ["batch", "axes"], ["batch1"]),
        helper.make_node("Concat", ["batch1", "rest"], ["target"], axis=0),
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("Reshape", ["r", "target"], ["y"]),
    ]
    weights = {"zero": np.array(0), "axes": np.array([0]), "rest": np.array([-1])}
    model = inspect(save(tmp_path / "m.onnx", nodes, weights, {"x": ["batch", 3, 4]}))
    found = graph(fixed(model, {"x": (5, 3, 4)}))
    assert [node.operator for node in found.nodes] == ["Relu", "Reshape"]
    assert found.constants["target"].tolist() == [5, -1]
    assert found.values["y"].shape == (5, 12)


def test_quantized_weights_stay_quantized(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "scale"], ["wf"]),
        helper.make_node("Add", ["x", "wf"], ["y"]),
    ]
    weights = {"w": np.ones(4, np.int8), "scale": np.array(0.5, np.float32)}
    model = inspect(save(tmp_path / "m.onnx", nodes, weights, {"x": [1, 4]}))
    assert [node.operator for node in graph(model).nodes] == ["DequantizeLinear", "Add"]


def test_what_no_output_needs_is_gone(tmp_path: Path) -> None:
    nodes = [helper.make_node("Exp", ["x"], ["unused"]), helper.make_node("Relu", ["x"], ["y"])]
    model = inspect(save(tmp_path / "m.onnx", nodes, {"w": np.ones(3, np.float32)}, {"x": [1, 4]}))
    found = graph(model)
    assert [node.operator for node in found.nodes] == ["Relu"]
    assert not found.constants


@pytest.mark.parametrize(
    ("operator", "inputs"),
    [
        ("ConstantOfShape", [np.array([1 << 20, 1 << 20])]),
        ("Tile", [np.ones((1 << 10, 1), np.float32), np.array([1, 1 << 20])]),
        ("Range", [np.array(0.0, np.float32), np.array(1e10, np.float32), np.array(1.0, np.float32)]),
    ],
)
def test_a_small_file_cannot_ask_for_a_huge_constant(tmp_path: Path, operator: str, inputs: list[np.ndarray]) -> None:
    weights = {f"w{number}": array for number, array in enumerate(inputs)}
    nodes = [helper.make_node(operator, list(weights), ["huge"]), helper.make_node("Add", ["x", "huge"], ["y"])]
    model = inspect(save(tmp_path / "m.onnx", nodes, weights, {"x": [1, 4]}))
    assert "huge" not in graph(model).constants


def test_open_sizes_are_refused(tiny_onnx: Path) -> None:
    with pytest.raises(InputError, match="open"):
        graph(inspect(str(tiny_onnx)))


def test_a_real_network(tiny_onnx: Path) -> None:
    model = inspect(str(tiny_onnx))
    found = graph(fixed(model, {"input": (2, 3, 32, 32)}))
    assert found.values["logits"].shape == (2, 10)
    assert all(isinstance(size, int) for value in found.values.values() for size in value.shape or (None,))
