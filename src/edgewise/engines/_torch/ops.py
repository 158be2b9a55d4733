"""ONNX operators in terms of PyTorch's: what an operator sees, the table, and what works element by element.

A function of the table is called once, while the network is built. What it is given stands for a tensor
(a `torch.fx` proxy): the calls it makes on that become lines of the network's code. Sizes are known from the graph.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ...core.errors import Unsupported
from ...core.types import Tensor
from ...model.graph import Array, Node

Made = Any  # a proxy, or a tuple of them where the operator has several outputs
TABLE: dict[str, Callable[[Op], Made]] = {}


def register(*names: str) -> Callable[[Callable[[Op], Made]], Callable[[Op], Made]]:
    def add(function: Callable[[Op], Made]) -> Callable[[Op], Made]:
        TABLE.update(dict.fromkeys(names, function))
        return function

    return add


class Building(Protocol):
    """What an operator may ask of the network under construction."""

    torch: Any
    constants: Mapping[str, Array]
    values: Mapping[str, Tensor]
    opset: int

    def value(self, name: str) -> Any: ...
    def constant(self, array: Array) -> Any: ...
    def dtype(self, name: str) -> Any: ...


@dataclass(frozen=True, slots=True)
class Op:
    """One node while it is translated."""

    node: Node
    net: Building

    @property
    def torch(self) -> Any:
        return self.net.torch

    @property
    def functional(self) -> Any:
        return self.net.torch.nn.functional

    @property
    def opset(self) -> int:
        return self.net.opset

    def refuse(self, why: str) -> Unsupported:
        return Unsupported(f"torch has no {self.node.operator} {why} (node {self.node.name!r})")

    def attribute(self, name: str, default: Any = None) -> Any:
        return self.node.attributes.get(name, default)

    def has(self, index: int) -> bool:
        return index < len(self.node.inputs) and bool(self.node.inputs[index])

    def wants(self, index: int) -> bool:
        """Is output number `index` used by anything?"""
        return index < len(self.node.outputs) and self.node.outputs[index] in self.net.values

    def __getitem__(self, index: int) -> Any:
        return self.net.value(self.node.inputs[index])

    def all(self) -> list[Any]:
        return [self.net.value(name) for name in self.node.inputs]

    def dtype(self, index: int = 0) -> str:
        """The ONNX type of an input."""
        name = self.node.inputs[index]
        return self.net.constants[name].dtype.name if name in self.net.constants else self.net.values[name].dtype

    def shape(self, index: int = 0) -> tuple[int, ...]:
        return self._shape(self.node.inputs[index])

    def made(self, index: int = 0) -> tuple[int, ...]:
        """The size of an output."""
        return self._shape(self.node.outputs[index])

    def _shape(self, name: str) -> tuple[int, ...]:
        if name in self.net.constants:
            return tuple(self.net.constants[name].shape)
        sizes = self.net.values[name].shape
        if sizes is None or not all(isinstance(size, int) for size in sizes):
            raise self.refuse("between tensors whose sizes depend on the data")
        return tuple(size for size in sizes if isinstance(size, int))

    def known(self, index: int, attribute: str = "", default: Any = None) -> Any:
        """An argument that must be a constant: input number `index`, or, in older opsets, an attribute."""
        if self.has(index):
            array = self.net.constants.get(self.node.inputs[index])
            if array is None:
                raise self.refuse(f"whose input {self.node.inputs[index]!r} depends on the data")
            return array.tolist()
        return self.attribute(attribute, default)

    def axis(self, default: int) -> int:
        axis, rank = int(self.attribute("axis", default)), len(self.shape())
        return axis + rank if axis < 0 else axis

    def operand(self, index: int) -> Any:
        """Input number `index`, as a plain number where it is one and that leaves the result's rank as it is."""
        array = self.net.constants.get(self.node.inputs[index])
        if array is None or array.size != 1 or array.dtype.kind not in "fi" or array.ndim > len(self.shape(1 - index)):
            return self[index]
        return self.number(array.item())

    def number(self, value: Any) -> Any:
        """Within the range of the precision: a mask of -3e38 must not become infinite in fp16, and then NaN."""
        if not isinstance(value, float) or not math.isfinite(value) or self.dtype() == "float64":
            return value
        limit = self.torch.finfo(self.net.dtype("float32")).max
        return min(max(value, -limit), limit)


# One argument, no attributes; the function of that name in torch, or in torch.nn.functional.
_PLAIN = {
    "Relu": "relu", "Sigmoid": "sigmoid", "Tanh": "tanh", "Exp": "exp", "Log": "log", "Sqrt": "sqrt", "Abs": "abs",
    "Neg": "neg", "Floor": "floor", "Ceil": "ceil", "Round": "round", "Erf": "erf", "Sin": "sin", "Cos": "cos",
    "Tan": "tan", "Asin": "asin", "Acos": "acos", "Atan": "atan", "Sinh": "sinh", "Cosh": "cosh", "Asinh": "asinh",
    "Acosh": "acosh", "Atanh": "atanh", "Reciprocal": "reciprocal", "Sign": "sign", "Not": "logical_not",
    "IsNaN": "isnan", "Softplus": "softplus", "Softsign": "softsign", "HardSwish": "hardswish", "Mish": "mish",
}  # fmt: skip


def _plain(op: Op) -> Made:
    name = _PLAIN[op.node.operator]
    return getattr(op.torch if hasattr(op.torch, name) else op.functional, name)(op[0])


TABLE.update(dict.fromkeys(_PLAIN, _plain))

_TWO: dict[str, Callable[[Any, Any], Any]] = {
    "Add": operator.add, "Sub": operator.sub, "Mul": operator.mul, "Equal": operator.eq, "Greater": operator.gt,
    "Less": operator.lt, "GreaterOrEqual": operator.ge, "LessOrEqual": operator.le,
}  # fmt: skip


def _two(op: Op) -> Made:
    return _TWO[op.node.operator](op.operand(0), op.operand(1))


TABLE.update(dict.fromkeys(_TWO, _two))


@register("And", "Or", "Xor")
def _logical(op: Op) -> Made:
    return getattr(op.torch, f"logical_{op.node.operator.lower()}")(op[0], op[1])


@register("Div")
def _div(op: Op) -> Made:
    if op.dtype().startswith("float"):
        return op.operand(0) / op.operand(1)
    return op.torch.div(op[0], op[1], rounding_mode="trunc")


@register("Mod")
def _mod(op: Op) -> Made:
    return (op.torch.fmod if op.attribute("fmod", 0) else op.torch.remainder)(op[0], op[1])


@register("Pow")
def _pow(op: Op) -> Made:
    # The result has the type of the base, whatever the exponent's is.
    return (op.operand(0) ** op.operand(1)).to(op.net.dtype(op.dtype()))


@register("Max", "Min", "Sum", "Mean")
def _several(op: Op) -> Made:
    first, *others = op.all()
    add = {"Max": op.torch.maximum, "Min": op.torch.minimum}.get(op.node.operator, operator.add)
    for other in others:
        first = add(first, other)
    return first / (1 + len(others)) if op.node.operator == "Mean" else first


@register("Where")
def _where(op: Op) -> Made:
    return op.torch.where(op[0], op[1], op[2])


@register("Identity")
def _identity(op: Op) -> Made:
    return op[0]


@register("Dropout")
def _dropout(op: Op) -> Made:
    if op.wants(1) or (op.has(2) and op.known(2)):
        raise op.refuse("in training, or that gives its mask")
    return op[0]


@register("Clip")
def _clip(op: Op) -> Made:
    if any(op.has(i) and op.node.inputs[i] not in op.net.constants for i in (1, 2)):
        return op.torch.clamp(op[0], *(op[i] if op.has(i) else None for i in (1, 2)))
    low, high = op.known(1, "min"), op.known(2, "max")
    # A bound may be given as a list of one.
    low, high = (None if b is None else op.number(np.asarray(b).item()) for b in (low, high))
    if (low, high) == (0, 6) and op.dtype() == "float32":
        return op.functional.relu6(op[0])
    return op[0] if low is None and high is None else op.torch.clamp(op[0], low, high)


@register("LeakyRelu")
def _leaky_relu(op: Op) -> Made:
    return op.functional.leaky_relu(op[0], op.attribute("alpha", 0.01))


@register("Elu")
def _elu(op: Op) -> Made:
    return op.functional.elu(op[0], op.attribute("alpha", 1.0))


@register("Celu")
def _celu(op: Op) -> Made:
    return op.functional.celu(op[0], op.attribute("alpha", 1.0))


@register("Selu")
def _selu(op: Op) -> Made:
    alpha, gamma = op.attribute("alpha", 1.6732632423543772), op.attribute("gamma", 1.0507009873554805)
    return op.functional.elu(op[0], alpha) * gamma


@register("HardSigmoid")
def _hard_sigmoid(op: Op) -> Made:
    alpha, beta = op.attribute("alpha", 0.2), op.attribute("beta", 0.5)
    if math.isclose(alpha, 1 / 6, rel_tol=1e-6) and beta == 0.5:
        return op.functional.hardsigmoid(op[0])
    return op.torch.clamp(op[0] * alpha + beta, 0.0, 1.0)


@register("Gelu")
def _gelu(op: Op) -> Made:
    return op.functional.gelu(op[0], approximate=op.attribute("approximate", "none"))


@register("ThresholdedRelu")
def _thresholded_relu(op: Op) -> Made:
    return op.functional.threshold(op[0], op.attribute("alpha", 1.0), 0.0)


@register("Shrink")
def _shrink(op: Op) -> Made:
    edge, bias = op.attribute("lambd", 0.5), op.attribute("bias", 0.0)
    x = op[0]
    return (x + bias) * (x < -edge) + (x - bias) * (x > edge)


@register("PRelu")
def _prelu(op: Op) -> Made:
    x, slope, shape = op[0], op[1], op.shape(1)
    channels = op.shape()[1] if len(op.shape()) > 1 else 1
    per_channel = len(shape) == len(op.shape()) - 1 and shape[0] == channels and math.prod(shape) == channels
    if per_channel or math.prod(shape) == 1:
        return op.functional.prelu(x, op.torch.reshape(slope, (-1,)))
    return op.torch.where(x < 0, x * slope, x)


@register("IsInf")
def _is_inf(op: Op) -> Made:
    both = op.attribute("detect_negative", 1), op.attribute("detect_positive", 1)
    names = {(1, 1): "isinf", (1, 0): "isneginf", (0, 1): "isposinf"}
    return getattr(op.torch, names[both])(op[0]) if both in names else op.torch.zeros_like(op[0], dtype=op.torch.bool)


@register("Softmax", "LogSoftmax", "Hardmax")
def _softmax(op: Op) -> Made:
    """Before opset 13 everything from the axis on counted as one."""
    flat = op.opset < 13
    axis, shape, x = op.axis(1 if flat else -1), op.shape(), op[0]
    if flat and axis != len(shape) - 1:
        x = op.torch.reshape(x, (math.prod(shape[:axis]), math.prod(shape[axis:])))
        return op.torch.reshape(_softmax_over(op, x, 1, math.prod(shape[axis:])), shape)
    return _softmax_over(op, x, axis, shape[axis])


def _softmax_over(op: Op, x: Any, axis: int, size: int) -> Made:
    if op.node.operator != "Hardmax":
        return (op.torch.softmax if op.node.operator == "Softmax" else op.torch.log_softmax)(x, axis)
    hot = op.functional.one_hot(op.torch.argmax(x, axis), size)
    return op.torch.movedim(hot, -1, axis).to(op.net.dtype(op.dtype()))


@register("Cast", "CastLike")
def _cast(op: Op) -> Made:
    if op.node.operator == "CastLike":
        return op[0].to(op.net.dtype(op.dtype(1)))
    from onnx import TensorProto

    name = TensorProto.DataType.Name(int(op.attribute("to"))).lower()
    return op[0].to(op.net.dtype({"float": "float32", "double": "float64"}.get(name, name)))
