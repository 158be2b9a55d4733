"""What a model costs: by hand where it is small, the same for a quantized form, and never silently nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgewise.core.errors import InputError
from edgewise.core.records import from_json, to_json
from edgewise.core.types import Model
from edgewise.model import work
from edgewise.model.cost import Cost, cost, cost_of
from edgewise.model.graph import fixed
from edgewise.model.load import inspect


def described(
    folder: Path,
    nodes: list[onnx.NodeProto],
    inputs: dict[str, list[Any]],
    weights: dict[str, np.ndarray] | None = None,
    domain: str = "",
    outputs: tuple[str, ...] = ("y",),
) -> Model:
    made = helper.make_graph(
        nodes,
        "test",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["a"]) for name in outputs],
        [numpy_helper.from_array(array, name) for name, array in (weights or {}).items()],
    )
    opsets = [helper.make_opsetid("", 17), *([helper.make_opsetid(domain, 1)] if domain else [])]
    path = folder / "m.onnx"
    onnx.save(helper.make_model(made, opset_imports=opsets, ir_version=8), str(path))
    return inspect(str(path))


def one(folder: Path, operator: str, shapes: list[list[int]], weights: list[tuple[int, ...]], **options: Any) -> Cost:
    """The cost of a single node: inputs of these shapes, then constants."""
    inputs = {f"x{number}": list(shape) for number, shape in enumerate(shapes)}
    constants = {f"w{number}": np.ones(shape, np.float32) for number, shape in enumerate(weights)}
    node = helper.make_node(operator, [*inputs, *constants], ["y"], **options)
    return cost(described(folder, [node], inputs, constants))


@pytest.mark.parametrize(
    ("operator", "shapes", "weights", "options", "multiply_adds", "flops"),
    [
        # 4x5x5 outputs, each of 3·3·3 products, and a bias.
        ("Conv", [[1, 3, 5, 5]], [(4, 3, 3, 3), (4,)], {"pads": [1] * 4}, 2700, 5400 + 100),
        ("Conv", [[2, 4, 8, 8]], [(4, 1, 3, 3)], {"group": 4, "strides": [2, 2]}, 2 * 4 * 9 * 9, 2 * 2 * 4 * 9 * 9),
        # Each of 2x4x4 inputs goes into 3 channels of 2x2.
        ("ConvTranspose", [[1, 2, 4, 4]], [(2, 3, 2, 2)], {"strides": [2, 2]}, 32 * 12, 2 * 32 * 12),
        ("Gemm", [[8, 16]], [(4, 16), (4,)], {"transB": 1}, 8 * 4 * 16, 2 * 8 * 4 * 16 + 32),
        ("MatMul", [[2, 3, 5, 7], [2, 3, 7, 11]], [], {}, 6 * 5 * 7 * 11, 12 * 5 * 7 * 11),
        ("Einsum", [[2, 5, 7], [2, 7, 3]], [], {"equation": "bij,bjk->bik"}, 2 * 5 * 7 * 3, 4 * 5 * 7 * 3),
        ("MaxPool", [[1, 2, 8, 8]], [], {"kernel_shape": [2, 2], "strides": [2, 2]}, 0, 2 * 16 * 4),
        ("GlobalAveragePool", [[1, 2, 8, 8]], [], {}, 0, 128),
        ("Relu", [[1, 100]], [], {}, 0, 100),
        ("Add", [[1, 10, 10], [10]], [], {}, 0, 100),
        ("Sum", [[10], [10], [10]], [], {}, 0, 20),
        ("Softmax", [[1, 100]], [], {}, 0, 500),
        ("BatchNormalization", [[1, 4, 5, 5]], [(4,)] * 4, {}, 0, 200),
        ("LayerNormalization", [[1, 10, 8]], [(8,), (8,)], {}, 0, 7 * 80),
        ("LRN", [[1, 8, 4, 4]], [], {"size": 5}, 0, 128 * 10),
        ("ReduceMean", [[1, 8, 4, 4]], [], {"axes": [2, 3]}, 0, 128),
        ("Transpose", [[4, 5]], [], {}, 0, 0),
        ("LSTM", [[6, 2, 8]], [(1, 40, 8), (1, 40, 10)], {"hidden_size": 10}, 12 * 720, 2 * 12 * 720 + 12 * 130),
    ],
)
def test_by_hand(
    tmp_path: Path, operator: str, shapes: Any, weights: Any, options: Any, multiply_adds: int, flops: int
) -> None:
    found = one(tmp_path, operator, shapes, weights, **options)
    assert not found.unknown
    assert (found.multiply_adds, found.flops) == (multiply_adds, flops)


@pytest.mark.parametrize(("mode", "flops"), [("nearest", 0), ("linear", 8 * 2 * 64), ("cubic", 32 * 2 * 64)])
def test_resizing_costs_its_neighbours(tmp_path: Path, mode: str, flops: int) -> None:
    nodes = [helper.make_node("Resize", ["x", "", "scales"], ["y"], mode=mode)]
    scales = {"scales": np.array([1, 1, 2, 2], np.float32)}
    found = cost(described(tmp_path, nodes, {"x": [1, 2, 4, 4]}, scales))
    assert (found.flops, found.parameters) == (flops, 0)


def test_bytes_of_one_convolution(tmp_path: Path) -> None:
    (node,) = one(tmp_path, "Conv", [[1, 3, 5, 5]], [(4, 3, 3, 3), (4,)], pads=[1] * 4).nodes
    assert (node.weight_bytes, node.read_bytes, node.written_bytes) == (4 * 112, 4 * 75, 4 * 100)
    assert node.parameters == 112
    assert node.shape == (1, 4, 5, 5)


def test_a_weight_used_twice_is_one_weight_read_twice(tmp_path: Path) -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("MatMul", ["h", "w"], ["y"])]
    found = cost(described(tmp_path, nodes, {"x": [1, 8]}, {"w": np.ones((8, 8), np.float32)}))
    assert (found.parameters, found.weight_bytes) == (64, 256)
    assert [node.weight_bytes for node in found.nodes] == [256, 256]


def test_settings_are_not_parameters(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Clip", ["x", "low", "high"], ["a"]),
        helper.make_node("Mul", ["a", "half"], ["b"]),
        helper.make_node("BatchNormalization", ["b", "s", "s", "m", "m"], ["c"]),
        helper.make_node("Reshape", ["c", "flat"], ["y"]),
    ]
    number = {"low": np.float32(0), "high": np.float32(6), "half": np.float32(0.5)}
    weights = {name: np.array(value) for name, value in number.items()}
    weights |= {"s": np.ones(4, np.float32), "m": np.ones(4, np.float32), "flat": np.array([1, -1])}
    assert cost(described(tmp_path, nodes, {"x": [1, 4, 2, 2]}, weights)).parameters == 4


def test_a_row_of_a_table_is_not_the_table(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Cast", ["x"], ["i"], to=TensorProto.INT64),
        helper.make_node("Gather", ["w", "i"], ["y"]),
    ]
    found = cost(described(tmp_path, nodes, {"x": [3]}, {"w": np.ones((1000, 8), np.float32)}))
    assert found.nodes[1].weight_bytes == 3 * 8 * 4
    assert (found.parameters, found.weight_bytes) == (8000, 32000)


def test_most_alive_at_once(tmp_path: Path) -> None:
    """x is kept for the sum at the end: at its side two more values; the reshaped one is no new memory."""
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Reshape", ["a", "flat"], ["b"]),
        helper.make_node("Exp", ["b"], ["c"]),
        helper.make_node("Reshape", ["c", "back"], ["d"]),
        helper.make_node("Add", ["x", "d"], ["y"]),
    ]
    weights = {"flat": np.array([1, 100]), "back": np.array([1, 10, 10])}
    found = cost(described(tmp_path, nodes, {"x": [1, 10, 10]}, weights))
    assert found.peak_bytes == 3 * 400
    assert found.activation_bytes == 3 * 400  # Relu, Exp, Add
    views = [node for node in found.nodes if node.operator == "Reshape"]
    assert all(node.moved_bytes == 0 and node.output_bytes == 400 for node in views)


def test_without_the_long_way_less_is_alive(tmp_path: Path) -> None:
    nodes = [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Exp", ["a"], ["y"])]
    assert cost(described(tmp_path, nodes, {"x": [1, 100]})).peak_bytes == 2 * 400


def test_outputs_that_nobody_reads_are_not_written(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Split", ["x"], ["a", "b"], axis=1),
        helper.make_node("MaxPool", ["b"], ["y", "places"], kernel_shape=[2]),
    ]
    split, pool = cost(described(tmp_path, nodes, {"x": [1, 4, 8]})).nodes
    assert (split.read_bytes, split.written_bytes, split.shape) == (64, 64, (1, 2, 8))
    assert (pool.written_bytes, pool.reason) == (2 * 7 * 4, "")


def _quantized(folder: Path) -> Model:
    """x → Q → DQ → Conv (weights int8 → DQ) → Relu → Q → DQ → y."""
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["xq"]),
        helper.make_node("DequantizeLinear", ["xq", "s", "z"], ["xd"]),
        helper.make_node("DequantizeLinear", ["wq", "s", "zw"], ["w"]),
        helper.make_node("Conv", ["xd", "w"], ["c"]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("QuantizeLinear", ["r", "s", "z"], ["rq"]),
        helper.make_node("DequantizeLinear", ["rq", "s", "z"], ["y"]),
    ]
    weights = {
        "wq": np.ones((4, 3, 3, 3), np.int8),
        "s": np.array(0.1, np.float32),
        "z": np.array(0, np.uint8),
        "zw": np.array(0, np.int8),
    }
    return described(folder, nodes, {"x": [1, 3, 5, 5]}, weights)


def test_a_quantized_model_multiplies_as_much_and_moves_less(tmp_path: Path) -> None:
    found = cost(_quantized(tmp_path))
    conv = next(node for node in found.nodes if node.operator == "Conv")
    relu = next(node for node in found.nodes if node.operator == "Relu")
    assert found.multiply_adds == conv.multiply_adds == 4 * 9 * 27
    assert found.parameters == conv.parameters == 108
    assert (conv.weight_bytes, conv.read_bytes, conv.written_bytes) == (108, 75, 4 * 36)
    assert (relu.read_bytes, relu.written_bytes) == (4 * 36, 36)
    assert [node.written_bytes for node in found.nodes if "Linear" in node.operator] == [75, 0, 0, 0, 4 * 36]
    assert not found.unknown


@pytest.mark.parametrize("elements", [64, pytest.param((1 << 24) + 64, marks=pytest.mark.slow)])
def test_a_cast_weight_counts_as_cast(tmp_path: Path, elements: int) -> None:
    """As an engine has it once it is loaded, whether it is small enough to be folded here or not."""
    nodes = [
        helper.make_node("Cast", ["wq"], ["w"], to=TensorProto.FLOAT),
        helper.make_node("Add", ["x", "w"], ["y"]),
    ]
    found = cost(described(tmp_path, nodes, {"x": [1, elements]}, {"wq": np.ones(elements, np.int8)}))
    assert (found.parameters, found.weight_bytes) == (elements, 4 * elements)
    assert found.nodes[-1].weight_bytes == 4 * elements


def _flattened(folder: Path, *others: onnx.NodeProto) -> Cost:
    """x → Conv → Flatten → Q → DQ → y, and what else is made of these."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"]),
        helper.make_node("Flatten", ["c"], ["f"]),
        helper.make_node("QuantizeLinear", ["f", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        helper.make_node("Relu", ["d"], ["y"]),
        *others,
    ]
    weights = {"w": np.ones((4, 3, 1, 1), np.float32), "s": np.array(0.1, np.float32), "z": np.array(0, np.uint8)}
    outputs = ("y", *(name for node in others for name in node.output))
    return cost(described(folder, nodes, {"x": [1, 3, 5, 5]}, weights, outputs=outputs))


def test_what_is_rounded_behind_a_reshape_is_written_rounded(tmp_path: Path) -> None:
    found = {node.operator: node for node in _flattened(tmp_path).nodes}
    assert found["Conv"].written_bytes == found["Relu"].read_bytes == 100
    assert [found[name].moved_bytes for name in ("Flatten", "QuantizeLinear", "DequantizeLinear")] == [0, 0, 0]


@pytest.mark.parametrize("read", ["c", "f"])
def test_what_somebody_reads_unrounded_is_written_unrounded(tmp_path: Path, read: str) -> None:
    found = {node.operator: node for node in _flattened(tmp_path, helper.make_node("Exp", [read], ["e"])).nodes}
    assert found["Conv"].written_bytes == found["Exp"].read_bytes == 400
    assert (found["QuantizeLinear"].read_bytes, found["QuantizeLinear"].written_bytes) == (400, 100)
    assert found["Relu"].read_bytes == 100


def test_integer_products(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("QLinearConv", ["q", "s", "z", "w", "s", "zw", "s", "z"], ["c"]),
        helper.make_node("DequantizeLinear", ["c", "s", "z"], ["y"]),
    ]
    weights = {
        "w": np.ones((4, 3, 3, 3), np.int8),
        "s": np.array(0.1, np.float32),
        "z": np.array(0, np.uint8),
        "zw": np.array(0, np.int8),
    }
    found = cost(described(tmp_path, nodes, {"x": [1, 3, 5, 5]}, weights))
    assert (found.multiply_adds, found.parameters) == (4 * 9 * 27, 108)


def test_what_is_unknown_is_none_and_says_why(tmp_path: Path) -> None:
    nodes = [helper.make_node("Riddle", ["x"], ["h"], domain="org.example"), helper.make_node("Relu", ["h"], ["y"])]
    riddle, relu = cost(described(tmp_path, nodes, {"x": [1, 4]}, domain="org.example")).nodes
    assert riddle.multiply_adds is riddle.flops is riddle.written_bytes is None
    assert riddle.operator == "org.example.Riddle" and "org.example" in riddle.reason
    assert relu.flops is None and relu.reason == "the size of its output is not known"


def test_what_does_not_fit_is_unknown_too(tmp_path: Path) -> None:
    found = one(tmp_path, "MaxPool", [[1, 4]], [], kernel_shape=[2, 2])
    assert found.unknown[0].reason


def test_a_graph_inside_a_node_is_unknown(tmp_path: Path) -> None:
    def branch(operator: str) -> onnx.GraphProto:
        made = [helper.make_node(operator, ["x"], [operator])]
        return helper.make_graph(
            made, operator, [], [helper.make_tensor_value_info(operator, TensorProto.FLOAT, [1, 4])]
        )

    nodes = [
        helper.make_node("ReduceSum", ["x"], ["s"], keepdims=0),
        helper.make_node("Cast", ["s"], ["b"], to=TensorProto.BOOL),
        helper.make_node("If", ["b"], ["h"], then_branch=branch("Relu"), else_branch=branch("Exp")),
        helper.make_node("Neg", ["h"], ["y"]),
    ]
    found = cost(described(tmp_path, nodes, {"x": [1, 4]}))
    (unknown, *_) = found.unknown
    assert unknown.operator == "If" and "graph of its own" in unknown.reason
    assert found.flops == 4  # ReduceSum; the rest is not known, or moves only


def test_every_operator_of_the_table_is_one_of_onnx() -> None:
    known = {schema.name for schema in onnx.defs.get_all_schemas()}
    ours = {*work._HANDLERS, *work._BY_DATA}
    # Defined after the oldest release of onnx that edgewise takes.
    assert ours - known <= {"RMSNormalization", "Swish", "BitCast"}


def test_a_worker_answers_with_the_same_record(tiny_onnx: Path) -> None:
    model = fixed(inspect(str(tiny_onnx)), {"input": (1, 3, 32, 32)})
    assert from_json(Cost, cost_of(to_json(model))) == cost(model)


def test_a_weight_without_its_bytes_is_the_fault_of_the_file(tmp_path: Path) -> None:
    model = described(
        tmp_path, [helper.make_node("Add", ["x", "w"], ["y"])], {"x": [1, 8]}, {"w": np.ones(8, np.float32)}
    )
    proto = onnx.load(model.path)
    proto.graph.initializer[0].raw_data += bytes(32)
    onnx.save(proto, model.path)
    with pytest.raises(InputError, match="damaged"):
        cost_of(to_json(model))


def test_the_cost_of_a_batch_is_that_of_its_images(tiny_onnx: Path) -> None:
    model = inspect(str(tiny_onnx))
    single, eight = (cost(fixed(model, {"input": (batch, 3, 32, 32)})) for batch in (1, 8))
    assert eight.flops == 8 * single.flops
    assert eight.peak_bytes == 8 * single.peak_bytes
    assert (eight.parameters, eight.weight_bytes) == (single.parameters, single.weight_bytes)
    assert eight.outputs[0].shape == (8, 10)
