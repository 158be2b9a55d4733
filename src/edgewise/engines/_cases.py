"""Small graphs with known answers: the operators an engine must get right.

Weights are seeded noise and dimensions differ: constants and squares hide swapped axes and lost paddings.
"""

from __future__ import annotations

import copy
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

OPSET = 17
IR_VERSION = 8
# Of the output's largest magnitude: room for Winograd, fused multiply-adds and approximated exponentials.
TOLERANCE = 1e-4

Array = NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """A graph, something to feed it, and how far off an answer may be (of the output's largest magnitude)."""

    name: str
    operators: tuple[str, ...]
    model: onnx.ModelProto
    feeds: dict[str, Array]
    tolerance: float = TOLERANCE


def expected(case: Case, feeds: Mapping[str, Array] | None = None) -> dict[str, Array]:
    """What the reference evaluator answers, to the case's own feeds unless given others."""
    model = case.model
    if any(node.op_type == "DequantizeLinear" for node in model.graph.node):
        # The evaluator has it from opset 19 on; nothing that `qdq_convolution` uses changed in between.
        model = copy.deepcopy(model)
        model.opset_import[0].version = 19
    answers = ReferenceEvaluator(model).run(None, dict(feeds or case.feeds))
    return {output.name: np.asarray(answer) for output, answer in zip(model.graph.output, answers, strict=True)}


@dataclass(frozen=True, slots=True)
class _Input:
    """A graph input: noise, positive noise, or (below `labels`) whole numbers as int64."""

    shape: tuple[int, ...]
    positive: bool = False
    labels: int | None = None

    def values(self, random: np.random.Generator) -> Array:
        if self.labels is not None:
            return random.integers(0, self.labels, self.shape, dtype=np.int64)
        noise = random.standard_normal(self.shape).astype(np.float32)
        return np.abs(noise) + np.float32(0.1) if self.positive else noise


class Graph:
    """Collects nodes; every value is known by its name, which `op`, `input` and `weight` return."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.random = np.random.default_rng(zlib.crc32(name.encode()))
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self.feeds: dict[str, Array] = {}

    def input(self, *shape: int, **options: Any) -> str:
        return self.value(_Input(shape, **options))

    def weight(self, *shape: int) -> str:
        return self.value(shape)

    def const(self, values: Sequence[float] | Array | float, dtype: Any = np.int64) -> str:
        return self.value(np.asarray(values, dtype))

    def value(self, argument: _Input | tuple[int, ...] | Array | None) -> str:
        if argument is None:
            return ""
        if isinstance(argument, _Input):
            name, array = f"x{len(self.inputs)}", argument.values(self.random)
            kind = helper.np_dtype_to_tensor_dtype(array.dtype)
            self.inputs.append(helper.make_tensor_value_info(name, kind, ["batch", *array.shape[1:]]))
            self.feeds[name] = array
            return name
        if isinstance(argument, tuple):
            # Scaled by the fan-in, so that the outputs of chained layers stay near one.
            spread = max(1.0, float(np.prod(argument[1:]))) ** 0.5
            argument = (self.random.standard_normal(argument) / spread).astype(np.float32)
        name = f"w{len(self.initializers)}"
        self.initializers.append(numpy_helper.from_array(argument, name))
        return name

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        return self.ops(kind, 1, *inputs, **attributes)[0]

    def ops(self, kind: str, outputs: int, *inputs: str, **attributes: Any) -> list[str]:
        names = [f"{kind.lower()}{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(kind, inputs, names, f"{kind}_{len(self.nodes)}", **attributes))
        return names

    def conv(self, x: str, out: int, into: int, kernel: int, **attributes: Any) -> str:
        pads = [kernel // 2] * 4
        weights = self.weight(out, into // attributes.get("group", 1), kernel, kernel), self.weight(out)
        return self.op("Conv", x, *weights, pads=pads, **attributes)

    def case(self, *outputs: str, tolerance: float = TOLERANCE) -> Case:
        untyped = [onnx.ValueInfoProto(name=name) for name in outputs]
        graph = helper.make_graph(self.nodes, self.name, self.inputs, untyped, self.initializers)
        opset = [helper.make_opsetid("", OPSET)]
        model = helper.make_model(graph, opset_imports=opset, ir_version=IR_VERSION, producer_name="edgewise")
        inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
        del model.graph.output[:]
        model.graph.output.extend(inferred.graph.output)
        operators = tuple(sorted({node.op_type for node in self.nodes}))
        return Case(self.name, operators, model, self.feeds, tolerance)


def _one(name: str, kind: str, *arguments: Any, outputs: int = 1, **attributes: Any) -> Case:
    """A single node. Arguments: an _Input, a shape (noise weights), an array (constant), None (left out)."""
    graph = Graph(name)
    return graph.case(*graph.ops(kind, outputs, *map(graph.value, arguments), **attributes))


def _i64(*values: int) -> Array:
    return np.array(values, np.int64)


def _f32(*values: float) -> Array:
    return np.array(values, np.float32)


X = _Input((2, 3, 7, 6))
X4 = _Input((2, 4, 7, 6))
POSITIVE = _Input((2, 3, 7, 6), positive=True)


def _convolutions() -> Iterator[Case]:
    rows: tuple[tuple[str, _Input, tuple[int, ...], bool, dict[str, Any]], ...] = (
        ("conv_padded", X, (5, 3, 3, 3), True, {"pads": [1, 1, 1, 1]}),
        ("conv_strided", X, (5, 3, 3, 2), True, {"strides": [2, 1]}),
        ("conv_dilated", X, (5, 3, 2, 3), True, {"dilations": [3, 2], "pads": [1, 2, 1, 2]}),
        ("conv_asymmetric_pads", X, (5, 3, 3, 3), True, {"pads": [0, 1, 2, 0], "strides": [2, 2]}),
        ("conv_auto_pad", X, (5, 3, 3, 3), True, {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
        ("conv_grouped", X4, (6, 2, 3, 3), True, {"group": 2, "pads": [1, 1, 1, 1]}),
        ("conv_depthwise", X4, (4, 1, 3, 3), True, {"group": 4, "pads": [1, 1, 1, 1], "strides": [2, 2]}),
        ("conv_depthwise_multiplier", X4, (8, 1, 3, 3), True, {"group": 4}),
        ("conv_pointwise_no_bias", X4, (5, 4, 1, 1), False, {}),
        ("conv_1d", _Input((2, 3, 11)), (4, 3, 3), True, {"pads": [2, 0]}),
    )
    for name, x, weights, bias, attributes in rows:
        yield _one(name, "Conv", x, weights, (weights[0],) if bias else None, **attributes)
    # Without groups, which the reference evaluator cannot do (onnx 1.23).
    transposed: dict[str, Any] = {"strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 1]}
    yield _one("conv_transpose", "ConvTranspose", X, (3, 4, 3, 3), (4,), **transposed)


def _elementwise() -> Iterator[Case]:
    unary: tuple[tuple[str, dict[str, Any]], ...] = (
        ("Relu", {}), ("LeakyRelu", {"alpha": 0.3}), ("Sigmoid", {}), ("Tanh", {}), ("Elu", {"alpha": 0.7}),
        ("HardSigmoid", {"alpha": 0.4, "beta": 0.3}), ("HardSwish", {}), ("Softplus", {}), ("Erf", {}),
        ("Exp", {}), ("Neg", {}), ("Abs", {}), ("Floor", {}), ("Identity", {}), ("Dropout", {}),
        ("Softmax", {"axis": 1}), ("LogSoftmax", {"axis": -1}), ("Flatten", {"axis": 2}),
        ("Transpose", {"perm": [0, 2, 3, 1]}), ("GlobalAveragePool", {}), ("GlobalMaxPool", {}),
        ("ReduceMean", {"axes": [1, 3]}), ("ReduceMax", {"axes": [2], "keepdims": 0}),
        ("ReduceL2", {"axes": [1]}), ("ArgMax", {"axis": 1, "keepdims": 0}),
    )  # fmt: skip
    for kind, attributes in unary:
        yield _one(kind.lower(), kind, X, **attributes)
    yield _one("sqrt", "Sqrt", POSITIVE)
    yield _one("log", "Log", POSITIVE)
    yield _one("prelu", "PRelu", X, (3, 1, 1))
    yield _one("clip", "Clip", X, np.float32(-0.4), np.float32(0.9))
    yield _one("clip_one_sided", "Clip", X, None, np.float32(0.5))
    yield _one("add_channel", "Add", X, (3, 1, 1))
    yield _one("sub_reversed", "Sub", (7, 1), X)
    yield _one("mul_same", "Mul", X, _Input(X.shape))
    yield _one("div_scalar_row", "Div", X, _f32(0.5, -2, 3, 7, -0.3, 1.7))
    yield _one("pow_broadcast", "Pow", POSITIVE, _f32(2.0, 0.5, -1.0).reshape(3, 1, 1))
    yield _one("max_broadcast", "Max", X, (6,))
    yield _one("min_broadcast", "Min", X, (3, 1, 6))


def _linear_and_pools() -> Iterator[Case]:
    yield _one("matmul", "MatMul", _Input((3, 5)), (5, 4))
    yield _one("matmul_batched", "MatMul", _Input((2, 3, 4, 5)), _Input((2, 3, 5, 6)))
    yield _one("matmul_broadcast", "MatMul", _Input((2, 3, 4, 5)), (3, 5, 2))
    yield _one("gemm", "Gemm", _Input((3, 5)), (4, 5), (4,), transB=1)
    yield _one("gemm_scaled", "Gemm", _Input((3, 5)), (5, 4), (1, 4), alpha=0.6, beta=1.7)
    pads: dict[str, Any] = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}
    yield _one("maxpool_padded", "MaxPool", X, **pads)
    yield _one("maxpool_ceil", "MaxPool", X, kernel_shape=[2, 3], strides=[2, 2], ceil_mode=1)
    yield _one("averagepool_exclude_pad", "AveragePool", X, **pads, count_include_pad=0)
    yield _one("averagepool_include_pad", "AveragePool", X, **pads, count_include_pad=1)
    # As many images as channels: the reference evaluator (onnx 1.23) counts the one where it means the other.
    square = _Input((5, 5, 4, 3))
    yield _one("lrn", "LRN", square, size=3, alpha=0.5, beta=0.6, bias=1.0)
    yield _one("lrn_fractional_bias", "LRN", square, size=5, alpha=0.5, beta=0.75, bias=1.5)
    # Scale and variance must be positive: constants here, unlike each other.
    statistics = _f32(0.7, 1.3, 2.1), _f32(0.3, -0.2, 0.5), _f32(-0.4, 0.1, 0.6), _f32(0.5, 1.9, 1.1)
    yield _one("batchnormalization", "BatchNormalization", X, *statistics, epsilon=1e-3)
    yield _one("instancenormalization", "InstanceNormalization", X, *statistics[:2], epsilon=1e-3)
    yield _one("layernormalization", "LayerNormalization", _Input((2, 5, 8)), (8,), (8,), epsilon=1e-3)


def _shapes() -> Iterator[Case]:
    yield _one("split", "Split", X, _i64(1, 2), axis=1, outputs=2)
    yield _one("concat", "Concat", _Input((2, 3, 4)), _Input((2, 2, 4)), _Input((2, 1, 4)), axis=1)
    yield _one("slice", "Slice", X, _i64(1, 1), _i64(3, 100), _i64(1, 3), _i64(1, 2))
    yield _one("slice_negative_step", "Slice", X, _i64(-1, -2), _i64(-100, 0), _i64(2, 3), _i64(-2, -1))
    yield _one("reshape", "Reshape", X, _i64(0, -1, 9))
    yield _one("squeeze", "Squeeze", _Input((2, 1, 5, 1)), _i64(1, -1))
    yield _one("unsqueeze", "Unsqueeze", X, _i64(1, 5))
    yield _one("expand", "Expand", _Input((2, 3, 1)), _i64(1, 3, 4))
    yield _one("tile", "Tile", X, _i64(1, 2, 1, 3))
    yield _one("pad_constant", "Pad", X, _i64(0, 0, 1, 2, 0, 1, 0, 3), np.float32(0.7))
    yield _one("pad_reflect", "Pad", X, _i64(0, 0, 2, 1, 0, 0, 1, 3), mode="reflect")
    yield _one("pad_edge", "Pad", X, _i64(0, 0, 2, 1, 0, 0, 1, 3), mode="edge")
    yield _one("gather", "Gather", X, _i64(4, 0, -1, 4), axis=2)
    yield _one("embedding", "Gather", (11, 6), _Input((2, 5), labels=11))
    yield _one("reducesum", "ReduceSum", X, _i64(2, 3), keepdims=0)
    yield _one("topk", "TopK", X, _i64(2), axis=1, outputs=2)
    yield _one("depthtospace", "DepthToSpace", _Input((2, 8, 3, 5)), blocksize=2)
    yield _one("depthtospace_crd", "DepthToSpace", _Input((2, 8, 3, 5)), blocksize=2, mode="CRD")
    yield _one("spacetodepth", "SpaceToDepth", _Input((2, 3, 4, 6)), blocksize=2)
    nearest: dict[str, Any] = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    yield _one("resize_nearest", "Resize", X, None, _f32(1, 1, 2, 3), **nearest)
    yield _one("resize_linear", "Resize", X, None, _f32(1, 1, 2, 1.5), mode="linear")  # half_pixel


def _where_equal_cast(g: Graph) -> Case:
    labels = g.input(2, 9, labels=4)
    chosen = g.op("Equal", labels, g.const(2))
    return g.case(g.op("Where", chosen, g.input(2, 9), g.op("Cast", labels, to=TensorProto.FLOAT)))


def _gelu_erf(g: Graph) -> Case:
    x = g.input(2, 5, 6)
    erf = g.op("Erf", g.op("Div", x, g.const(2**0.5, np.float32)))
    half = g.op("Mul", x, g.const(0.5, np.float32))
    return g.case(g.op("Mul", half, g.op("Add", erf, g.const(1, np.float32))))


def _swish(g: Graph) -> Case:
    x = g.conv(g.input(2, 3, 6, 5), 4, 3, 3)
    return g.case(g.op("Mul", x, g.op("Sigmoid", x)))


def _mish(g: Graph) -> Case:
    x = g.conv(g.input(2, 3, 6, 5), 4, 3, 3)
    return g.case(g.op("Mul", x, g.op("Tanh", g.op("Softplus", x))))


def _shape_arithmetic(g: Graph) -> Case:
    x = g.input(2, 3, 4, 5)  # PyTorch exports `x.flatten(1)` so
    batch = g.op("Unsqueeze", g.op("Gather", g.op("Shape", x), g.const(0), axis=0), g.const([0]))
    return g.case(g.op("Reshape", x, g.op("Concat", batch, g.const([-1]), axis=0)))


def _residual(g: Graph) -> Case:
    x = g.input(2, 4, 6, 5)
    y = g.op("Relu", g.conv(x, 6, 4, 3, strides=[2, 2]))
    y = g.conv(y, 6, 6, 3)
    return g.case(g.op("Relu", g.op("Add", y, g.conv(x, 6, 4, 1, strides=[2, 2]))))


def _inverted_residual(g: Graph) -> Case:
    x = g.input(2, 4, 6, 5)
    low, high = g.const(0, np.float32), g.const(6, np.float32)
    y = g.op("Clip", g.conv(x, 12, 4, 1), low, high)
    y = g.op("Clip", g.conv(y, 12, 12, 3, group=12), low, high)
    return g.case(g.op("Add", x, g.conv(y, 4, 12, 1)))


def _squeeze_excite(g: Graph) -> Case:
    x = g.op("HardSwish", g.conv(g.input(2, 3, 6, 5), 8, 3, 3))
    y = g.op("Relu", g.conv(g.op("GlobalAveragePool", x), 4, 8, 1))
    return g.case(g.op("Mul", x, g.op("HardSigmoid", g.conv(y, 8, 4, 1), alpha=1 / 6, beta=0.5)))


def _shuffle(g: Graph) -> Case:
    left, right = g.ops("Split", 2, g.input(2, 8, 5, 4), g.const([4, 4]), axis=1)
    y = g.conv(g.op("Relu", g.conv(right, 4, 4, 1)), 4, 4, 3, group=4)
    y = g.op("Reshape", g.op("Concat", left, y, axis=1), g.const([0, 2, 4, 5, 4]))
    return g.case(g.op("Reshape", g.op("Transpose", y, perm=[0, 2, 1, 3, 4]), g.const([0, -1, 5, 4])))


def _attention(g: Graph) -> Case:
    x = g.input(2, 5, 8)
    norm = g.op("LayerNormalization", x, g.weight(8), g.weight(8), axis=-1)
    heads = []
    for perm in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]):
        y = g.op("Add", g.op("MatMul", norm, g.weight(8, 8)), g.weight(8))
        heads.append(g.op("Transpose", g.op("Reshape", y, g.const([0, 5, 2, 4])), perm=perm))
    score = g.op("Div", g.op("MatMul", heads[0], heads[1]), g.const(2, np.float32))
    y = g.op("Transpose", g.op("MatMul", g.op("Softmax", score, axis=-1), heads[2]), perm=[0, 2, 1, 3])
    return g.case(g.op("Add", x, g.op("MatMul", g.op("Reshape", y, g.const([0, 5, 8])), g.weight(8, 8))))


def _two_inputs_two_outputs(g: Graph) -> Case:
    a, b = g.input(2, 3, 4), g.input(2, 1, 4)
    total = g.op("Add", a, b)
    return g.case(g.op("Tanh", total), g.op("Mul", total, a))


def _classifier(g: Graph) -> Case:
    """Conv, pool, dense, softmax: what the checks of behaviour run."""
    y = g.op("Relu", g.conv(g.input(2, 3, 8, 6), 6, 3, 3))
    y = g.op("MaxPool", y, kernel_shape=[2, 2], strides=[2, 2])
    y = g.op("Gemm", g.op("Flatten", y), g.weight(10, 6 * 4 * 3), g.weight(10), transB=1)
    return g.case(g.op("Softmax", y, axis=1))


def _qdq_convolution(g: Graph) -> Case:
    step, zero = np.float32(0.04), g.const(3, np.int8)
    # Seven bits: on x86 without VNNI, sums of two eight-bit products saturate: the processor, not an engine.
    weights = g.const(g.random.integers(-63, 64, (5, 3, 3, 3)), np.int8)
    scales = g.random.uniform(0.002, 0.005, 5).astype(np.float32)
    bias, scale = g.const(g.random.integers(-2000, 2000, 5), np.int32), g.value(np.asarray(step))
    x = g.op("DequantizeLinear", g.op("QuantizeLinear", g.input(2, 3, 7, 6), scale, zero), scale, zero)
    w = g.op("DequantizeLinear", weights, g.value(scales), g.const([0] * 5, np.int8), axis=0)
    b = g.op("DequantizeLinear", bias, g.value(scales * step), axis=0)
    y = g.op("Relu", g.op("Conv", x, w, b, pads=[1, 1, 1, 1]))
    y = g.op("DequantizeLinear", g.op("QuantizeLinear", y, scale, zero), scale, zero)
    # One step of the output, whose range is some 2.5: a rounding may fall either way.
    return g.case(y, tolerance=0.02)


BLOCKS: tuple[Callable[[Graph], Case], ...] = (
    _where_equal_cast, _gelu_erf, _swish, _mish, _shape_arithmetic, _residual, _inverted_residual,
    _squeeze_excite, _shuffle, _attention, _two_inputs_two_outputs, _classifier, _qdq_convolution,
)  # fmt: skip


@cache
def cases() -> tuple[Case, ...]:
    single = (*_convolutions(), *_elementwise(), *_linear_and_pools(), *_shapes())
    return (*single, *(build(Graph(build.__name__.removeprefix("_"))) for build in BLOCKS))
