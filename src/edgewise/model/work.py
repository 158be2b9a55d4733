"""The arithmetic of each operator: a table of handlers, from the sizes of a node's values to its work.

A multiply-add is two FLOPs. Everything else is counted operation by operation, one FLOP each, in whatever type it is
done: additions, comparisons, and functions such as exp or tanh. Work on the zeros of a padding counts, as it does in
every published figure. What only moves or relabels values counts nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from .graph import Node

Shape = tuple[int, ...]


class Uncountable(Exception):
    """Why the work of a node cannot be told."""


@dataclass(frozen=True, slots=True)
class Work:
    """`flops` has the multiply-adds in it."""

    multiply_adds: int
    flops: int


@dataclass(frozen=True, slots=True)
class Sized:
    """A node whose values have sizes."""

    node: Node
    sizes: Mapping[str, Shape]

    def input(self, index: int) -> Shape:
        return self._shape(self.node.inputs, index, "input")

    def output(self, index: int = 0) -> Shape:
        return self._shape(self.node.outputs, index, "output")

    def has(self, index: int) -> bool:
        return index < len(self.node.inputs) and bool(self.node.inputs[index])

    def option(self, name: str, default: Any) -> Any:
        return self.node.attributes.get(name, default)

    def _shape(self, names: tuple[str, ...], index: int, what: str) -> Shape:
        if index >= len(names) or names[index] not in self.sizes:
            raise Uncountable(f"the size of its {what} is not known")
        return self.sizes[names[index]]


Handler = Callable[[Sized], Work]


def work(node: Node, sizes: Mapping[str, Shape]) -> Work:
    """What one run of `node` computes; Uncountable where that cannot be told."""
    if node.domain not in ("", "ai.onnx"):
        raise Uncountable(f"it is defined by {node.domain}, not by ONNX")
    if node.operator in _BY_DATA:
        raise Uncountable(_BY_DATA[node.operator])
    if node.operator not in _HANDLERS:
        raise Uncountable("nothing is known of this operator")
    try:
        return _HANDLERS[node.operator](Sized(node, sizes))
    except (TypeError, ValueError, IndexError):
        # Ranks and attributes come from the file, and a checker does not look at all of them.
        raise Uncountable("its sizes and settings do not fit each other") from None


# Products.


def _product(multiply_adds: int, others: int = 0) -> Work:
    return Work(multiply_adds, 2 * multiply_adds + others)


def _conv(weight: int, bias: int | None, each: int = 0) -> Handler:
    """`weight` and `bias` are the numbers of the inputs; `each`: what else is done to every output."""

    def count(n: Sized) -> Work:
        outputs, filters = math.prod(n.output()), n.input(weight)
        added = bias is not None and n.has(bias)
        return _product(outputs * math.prod(filters[1:]), outputs * (each + added))

    return count


def _conv_transpose(n: Sized) -> Work:
    """Every input is multiplied into a whole window of outputs."""
    return _product(math.prod(n.input(0)) * math.prod(n.input(1)[1:]), math.prod(n.output()) * n.has(2))


def _gemm(n: Sized) -> Work:
    a = n.input(0)
    if len(a) != 2:
        raise Uncountable(f"Gemm takes matrices, found {len(a)} dimensions")
    outputs = math.prod(n.output())
    return _product(outputs * a[0 if n.option("transA", 0) else 1], outputs * n.has(2))


def _matmul(second: int, each: int = 0) -> Handler:
    def count(n: Sized) -> Work:
        n.input(second)
        inner = n.input(0)[-1:]
        if not inner:
            raise Uncountable("MatMul takes no scalars")
        outputs = math.prod(n.output())
        return _product(outputs * inner[0], outputs * each)

    return count


def _einsum(n: Sized) -> Work:
    """As if summed in one go: a product of all factors for every combination of letters."""
    equation = n.option("equation", "")
    text = (equation.decode() if isinstance(equation, bytes) else str(equation)).replace(" ", "")
    terms = text.partition("->")[0].split(",")
    if "." in text or len(terms) != len(n.node.inputs):
        raise Uncountable(f"the equation {text!r} is beyond this count")
    lengths: dict[str, int] = {}
    for index, term in enumerate(terms):
        if len(term) != len(n.input(index)):
            raise Uncountable(f"the equation {text!r} does not fit its inputs")
        lengths |= dict(zip(term, n.input(index), strict=True))
    return _product(math.prod(lengths.values()) * max(1, len(terms) - 1))


def _recurrent(each: int) -> Handler:
    """`each`: what is done to every hidden value in a step beside the products and biases."""

    def count(n: Sized) -> Work:
        steps, batch = n.input(0)[:2] if not n.option("layout", 0) else n.input(0)[1::-1]
        products = math.prod(n.input(1)) + math.prod(n.input(2))
        directions, _, hidden = n.input(2)
        biases = math.prod(n.input(3)) if n.has(3) else 0
        return _product(steps * batch * products, steps * batch * (biases + each * directions * hidden))

    return count


# Everything else: so many operations for every output, input, or place of a window.


def _per_output(each: int) -> Handler:
    return lambda n: Work(0, each * math.prod(n.output()))


def _per_input(each: int) -> Handler:
    return lambda n: Work(0, each * math.prod(n.input(0)))


def _folded(n: Sized) -> Work:
    """Of several inputs, two at a time."""
    return Work(0, max(0, len(n.node.inputs) - 1) * math.prod(n.output()))


def _mean(n: Sized) -> Work:
    return Work(0, len(n.node.inputs) * math.prod(n.output()))


def _pool(each: int) -> Handler:
    return lambda n: Work(0, each * math.prod(n.output()) * math.prod(n.option("kernel_shape", ())))


def _lrn(n: Sized) -> Work:
    """Squares, their sum over the window, and four more: scaled, shifted, raised, divided by."""
    return Work(0, (int(n.option("size", 1)) + 5) * math.prod(n.output()))


def _resize(n: Sized) -> Work:
    """A multiply-add for every neighbour an output is made of, along the sides that change."""
    mode = n.option("mode", "nearest")
    mode = mode.decode() if isinstance(mode, bytes) else mode
    neighbours = {"nearest": 0, "linear": 2, "cubic": 4}.get(mode)
    if neighbours is None:
        raise Uncountable(f"nothing is known of resizing by {mode!r}")
    before, after = n.input(0), n.output()
    changed = sum(a != b for a, b in zip(before, after, strict=True))
    return Work(0, 2 * neighbours**changed * math.prod(after) if neighbours and changed else 0)


def _grid_sample(n: Sized) -> Work:
    mode = n.option("mode", "linear")
    mode = mode.decode() if isinstance(mode, bytes) else mode
    neighbours = {"nearest": 0, "linear": 2, "bilinear": 2, "cubic": 4, "bicubic": 4}.get(mode)
    if neighbours is None:
        raise Uncountable(f"nothing is known of sampling by {mode!r}")
    directions = len(n.output()) - 2
    return Work(0, 2 * neighbours**directions * math.prod(n.output()) if neighbours else 0)


def _roi_align(n: Sized) -> Work:
    """Four neighbours for every sample of an output; how many samples must be said."""
    samples = int(n.option("sampling_ratio", 0))
    if samples < 1:
        raise Uncountable("how many samples it takes depends on the regions")
    return Work(0, 8 * samples**2 * math.prod(n.output()))


def _constants(table: Mapping[int, str], make: Callable[[int], Handler]) -> dict[str, Handler]:
    return {operator: make(each) for each, operators in table.items() for operator in operators.split()}


# What they compute, or how large it gets, depends on the values they are given.
_BY_DATA = {
    **dict.fromkeys(("If", "Loop", "Scan"), "it holds a graph of its own, which runs as its inputs say"),
    "SequenceMap": "it holds a graph of its own, which runs as its inputs say",
    "NonMaxSuppression": "its work depends on the boxes it is given",
}
_VIEWS = "Reshape Flatten Squeeze Unsqueeze Identity Dropout"
_MOVES = (
    "Transpose Concat Split Slice Gather GatherElements GatherND ScatterElements ScatterND Scatter Pad Expand Tile "
    "DepthToSpace SpaceToDepth Cast CastLike BitCast Constant ConstantOfShape Shape Size Range OneHot EyeLike Trilu "
    "ReverseSequence Compress NonZero CenterCropPad Col2Im ConcatFromSequence SequenceAt SequenceConstruct "
    "SequenceEmpty SequenceInsert SplitToSequence"
)
_ELEMENTWISE = {
    1: "Add Sub Mul Div Pow Mod Neg Abs Relu Exp Log Sqrt Reciprocal Tanh Erf Sin Cos Tan Asin Acos Atan Sinh Cosh "
    "Asinh Acosh Atanh Floor Ceil Round Sign Not And Or Xor Equal Greater GreaterOrEqual Less LessOrEqual Where IsNaN "
    "IsInf BitShift BitwiseAnd BitwiseOr BitwiseXor BitwiseNot ThresholdedRelu",
    2: "Clip LeakyRelu PRelu Softplus Softsign Shrink BatchNormalization QuantizeLinear DequantizeLinear",
    3: "Sigmoid Elu",
    4: "Selu Celu HardSigmoid Mish Swish DynamicQuantizeLinear RMSNormalization",
    # Softmax: largest, subtract, exp, sum, divide. Gelu: x/2 · (1 + erf(x/√2)).
    5: "Softmax LogSoftmax Gelu HardSwish MeanVarianceNormalization",
    # Mean, subtract, square, sum, scale, and an affine map.
    7: "InstanceNormalization LayerNormalization GroupNormalization",
}
_REDUCTIONS = {
    1: "ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 GlobalAveragePool GlobalMaxPool ArgMax ArgMin "
    "CumSum TopK Hardmax",
    2: "ReduceL2 ReduceSumSquare ReduceLogSum ReduceLogSumExp GlobalLpPool",
    3: "LpNormalization",
}
_HANDLERS: Mapping[str, Handler] = {
    **{operator: lambda _: Work(0, 0) for operator in (*_VIEWS.split(), *_MOVES.split())},
    **_constants(_ELEMENTWISE, _per_output),
    **_constants(_REDUCTIONS, _per_input),
    **_constants({1: "MaxPool AveragePool", 2: "LpPool"}, _pool),
    **dict.fromkeys(("Sum", "Max", "Min"), _folded),
    "Mean": _mean,
    "Conv": _conv(weight=1, bias=2),
    "ConvInteger": _conv(weight=1, bias=None),
    # Scaled and rounded to the output's type.
    "QLinearConv": _conv(weight=3, bias=8, each=2),
    "ConvTranspose": _conv_transpose,
    "Gemm": _gemm,
    "MatMul": _matmul(second=1),
    "MatMulInteger": _matmul(second=1),
    "QLinearMatMul": _matmul(second=3, each=2),
    "Einsum": _einsum,
    # Gates added up and put through their functions, states mixed.
    "RNN": _recurrent(each=2),
    "GRU": _recurrent(each=11),
    "LSTM": _recurrent(each=13),
    "LRN": _lrn,
    "Resize": _resize,
    "Upsample": _resize,
    "GridSample": _grid_sample,
    "RoiAlign": _roi_align,
}
VIEWS = frozenset(_VIEWS.split())
