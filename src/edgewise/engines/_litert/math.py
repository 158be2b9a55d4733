"""Operators that work element by element, in whichever order their inputs lie."""

from __future__ import annotations

from math import inf, sqrt
from typing import Any

import numpy as np

from ...core.errors import Unsupported
from ...model.graph import Node
from .flatbuffer import Quant, Slot
from .fuse import activation, limits
from .layout import Order
from .writer import Emit, Writer, attribute, operator

# Scales that the kernels insist on: what they answer lies between 0 and 1, or −1 and 1.
UNIT = Quant((1 / 256,), (-128,))
_SIGNED_UNIT = Quant((1 / 128,), (0,))


def _operands(w: Writer, node: Node) -> tuple[list[Slot], Order]:
    shape = w.shape(node.outputs[0])
    names = [name for name in node.inputs if name]
    order = w.common(names, shape)
    return [w.spread(name, len(shape), order) for name in names], order


def _binary(kind: str, options: str, activated: bool = False) -> Emit:
    def emit(w: Writer, node: Node) -> None:
        (a, b), order = _operands(w, node)
        fields: dict[str, Any] = {"fusedActivationFunction": w.activation(node)} if activated else {}
        w.put(node.outputs[0], w.step(kind, a, b, quant=w.goal, options=options, **fields), order)

    return emit


for _name, _kind in (("Add", "ADD"), ("Sub", "SUB"), ("Mul", "MUL")):
    operator(_name, int8="free")(_binary(_kind, _name, activated=True))


@operator("Div")
def divide(w: Writer, node: Node) -> None:
    if w.dtype(node.outputs[0]) not in ("float32", "int32"):
        raise Unsupported(f"litert has no Div of {w.dtype(node.outputs[0])} (node {node.name!r})")
    _binary("DIV", "Div", activated=True)(w, node)


def _several(kind: str, options: str) -> Emit:
    """Any number of inputs, two by two."""

    def emit(w: Writer, node: Node) -> None:
        (made, *others), order = _operands(w, node)
        for other in others:
            made = w.step(kind, made, other, options=options)
        if node.operator == "Mean":
            made = w.step("MUL", made, w.number(1 / len(node.inputs), made), options="Mul")
        w.put(node.outputs[0], made, order)

    return emit


operator("Max")(_several("MAXIMUM", "MaximumMinimum"))
operator("Min")(_several("MINIMUM", "MaximumMinimum"))
operator("Sum", "Mean")(_several("ADD", "Add"))


def _compared(kind: str, options: str) -> Emit:
    def emit(w: Writer, node: Node) -> None:
        (a, b), order = _operands(w, node)
        w.put(node.outputs[0], w.step(kind, a, b, dtype="bool", options=options), order)

    return emit


for _name, _kind, _options in (
    ("Equal", "EQUAL", "Equal"), ("Greater", "GREATER", "Greater"), ("Less", "LESS", "Less"),
    ("GreaterOrEqual", "GREATER_EQUAL", "GreaterEqual"), ("LessOrEqual", "LESS_EQUAL", "LessEqual"),
    ("And", "LOGICAL_AND", "LogicalAnd"), ("Or", "LOGICAL_OR", "LogicalOr"),
):  # fmt: skip
    operator(_name)(_compared(_kind, _options))


def _unary(kind: str, options: str = "") -> Emit:
    def emit(w: Writer, node: Node) -> None:
        order = w.order(node.inputs[0])
        w.put(node.outputs[0], w.step(kind, w.take(node.inputs[0], order), quant=w.goal, options=options), order)

    return emit


for _name, _kind, _options in (
    ("Exp", "EXP", "Exp"), ("Neg", "NEG", "Neg"), ("Abs", "ABS", "Abs"), ("Log", "LOG", ""), ("Sqrt", "SQRT", ""),
    ("Floor", "FLOOR", ""), ("Ceil", "CEIL", ""), ("Round", "ROUND", ""), ("Sin", "SIN", ""), ("Cos", "COS", "Cos"),
    ("Sign", "SIGN", "Sign"), ("Not", "LOGICAL_NOT", "LogicalNot"),
):  # fmt: skip
    operator(_name)(_unary(_kind, _options))
operator("HardSwish", int8="free")(_unary("HARD_SWISH", "HardSwish"))


@operator("Relu", "Clip", int8="free", fits=lambda w, node: activation(node, w.constants) in ("RELU", "RELU6"))
def clip(w: Writer, node: Node) -> None:
    x, out = node.inputs[0], node.outputs[0]
    order, name, between = w.order(x), activation(node, w.constants), limits(node, w.constants)
    slot = w.take(x, order)
    if name and slot.dtype in ("float32", "int8"):
        slot = w.step(name, slot, quant=w.goal)
    elif between is not None:
        # The lower limit first: where they cross, ONNX lets the upper one win.
        for kind, limit in (("MAXIMUM", between[0]), ("MINIMUM", between[1])):
            if abs(limit) != inf:
                slot = w.step(kind, slot, w.number(limit, slot), options="MaximumMinimum")
    else:
        for kind, position in (("MAXIMUM", 1), ("MINIMUM", 2)):
            if w.given(node, position):
                limits_of = w.spread(node.inputs[position], len(order), order)
                slot = w.step(kind, slot, limits_of, options="MaximumMinimum")
    if between is not None and between[0] >= 0:
        w.nonnegative.add(out)
    w.put(out, slot, order)


@operator("Sigmoid", int8="fixed")
def sigmoid(w: Writer, node: Node) -> None:
    order = w.order(node.inputs[0])
    slot = w.step("LOGISTIC", w.take(node.inputs[0], order), quant=UNIT if w.quantized else None)
    w.put(node.outputs[0], slot, order)
    w.nonnegative.add(node.outputs[0])


@operator("Tanh", int8="fixed")
def tanh(w: Writer, node: Node) -> None:
    order = w.order(node.inputs[0])
    w.put(
        node.outputs[0],
        w.step("TANH", w.take(node.inputs[0], order), quant=_SIGNED_UNIT if w.quantized else None),
        order,
    )


@operator("LeakyRelu", int8="free")
def leaky_relu(w: Writer, node: Node) -> None:
    order, alpha = w.order(node.inputs[0]), attribute(node, "alpha", 0.01)
    x = w.take(node.inputs[0], order)
    w.put(node.outputs[0], w.step("LEAKY_RELU", x, quant=w.goal, options="LeakyRelu", alpha=alpha), order)


@operator("PRelu")
def prelu(w: Writer, node: Node) -> None:
    x, slope = node.inputs
    order, rank = w.order(x), len(w.shape(x))
    w.put(node.outputs[0], w.step("PRELU", w.take(x, order), w.spread(slope, rank, order), shape=None), order)


@operator("Elu", "Selu")
def elu(w: Writer, node: Node) -> None:
    scaled = node.operator == "Selu"
    order, alpha = w.order(node.inputs[0]), attribute(node, "alpha", 1.6732632 if scaled else 1.0)
    x = w.take(node.inputs[0], order)
    if alpha == 1:
        made = w.step("ELU", x)
    else:
        below = w.step("ELU", w.step("MINIMUM", x, w.number(0, x), options="MaximumMinimum"))
        below = w.step("MUL", below, w.number(alpha, x), options="Mul")
        made = w.step("ADD", w.step("RELU", x), below, options="Add")
    if scaled:
        made = w.step("MUL", made, w.number(attribute(node, "gamma", 1.050701), x), options="Mul")
    w.put(node.outputs[0], made, order)


@operator("HardSigmoid")
def hard_sigmoid(w: Writer, node: Node) -> None:
    """RELU6 is what other operators can have built in, so it is computed six times as large."""
    order = w.order(node.inputs[0])
    alpha, beta = 6 * attribute(node, "alpha", 0.2), 6 * attribute(node, "beta", 0.5)
    x = made = w.take(node.inputs[0], order)
    if abs(alpha - 1) > 1e-6:
        made = w.step("MUL", x, w.number(alpha, x), options="Mul")
    made = w.step("ADD", made, w.number(beta, x), options="Add", fusedActivationFunction=3)
    w.put(node.outputs[0], w.step("MUL", made, w.number(1 / 6, x), options="Mul"), order)
    w.nonnegative.add(node.outputs[0])


@operator("Softplus")
def softplus(w: Writer, node: Node) -> None:
    """log(1 + exp x), so that nothing overflows: max(x, 0) + log(1 + exp −|x|)"""
    order = w.order(node.inputs[0])
    x = w.take(node.inputs[0], order)
    small = w.step("EXP", w.step("NEG", w.step("ABS", x, options="Abs"), options="Neg"), options="Exp")
    tail = w.step("LOG", w.step("ADD", small, w.number(1, x), options="Add"))
    w.put(node.outputs[0], w.step("ADD", w.step("RELU", x), tail, options="Add"), order)


@operator("Softsign")
def softsign(w: Writer, node: Node) -> None:
    order = w.order(node.inputs[0])
    x = w.take(node.inputs[0], order)
    below = w.step("ADD", w.step("ABS", x, options="Abs"), w.number(1, x), options="Add")
    w.put(node.outputs[0], w.step("DIV", x, below, options="Div"), order)


@operator("Gelu")
def gelu(w: Writer, node: Node) -> None:
    order, rough = w.order(node.inputs[0]), attribute(node, "approximate", "none") == "tanh"
    w.put(node.outputs[0], w.step("GELU", w.take(node.inputs[0], order), options="Gelu", approximate=rough), order)


@operator("Erf")
def erf(w: Writer, node: Node) -> None:
    """From the only operator that has it inside: gelu(y) = y/2 × (1 + erf(y/√2)). Odd, so zero need not be divided."""
    order = w.order(node.inputs[0])
    x = w.take(node.inputs[0], order)
    away = w.step("MUL", w.step("ABS", x, options="Abs"), w.number(sqrt(2), x), options="Mul")
    away = w.step("MAXIMUM", away, w.number(1e-6, x), options="MaximumMinimum")
    ratio = w.step("DIV", w.step("GELU", away, options="Gelu", approximate=False), away, options="Div")
    twice = w.step("ADD", ratio, ratio, options="Add")
    size = w.step("SUB", twice, w.number(1, x), options="Sub")
    w.put(node.outputs[0], w.step("MUL", size, w.step("SIGN", x, options="Sign"), options="Mul"), order)


@operator("Reciprocal")
def reciprocal(w: Writer, node: Node) -> None:
    order = w.order(node.inputs[0])
    x = w.take(node.inputs[0], order)
    w.put(node.outputs[0], w.step("DIV", w.number(1, x), x, options="Div"), order)


@operator("Pow")
def power(w: Writer, node: Node) -> None:
    exponent = w.const(node.inputs[1])
    (x, y), order = _operands(w, node)
    if x.dtype != y.dtype:
        y = w.step("CAST", y, dtype=x.dtype, options="Cast")
    value = float(exponent.reshape(())) if exponent is not None and exponent.size == 1 else None
    if value == 2:
        made = w.step("MUL", x, x, options="Mul")
    elif value == 0.5:
        made = w.step("SQRT", x)
    elif value == -0.5:
        made = w.step("RSQRT", x)
    else:
        made = w.step("POW", x, y, options="Pow")
    w.put(node.outputs[0], made, order)


@operator("Mod")
def mod(w: Writer, node: Node) -> None:
    if attribute(node, "fmod", 0):
        raise Unsupported(f"litert has Mod with the sign of the divisor only (node {node.name!r})")
    (a, b), order = _operands(w, node)
    w.put(node.outputs[0], w.step("FLOOR_MOD", a, b, options="FloorMod"), order)


@operator("Where")
def where(w: Writer, node: Node) -> None:
    (condition, a, b), order = _operands(w, node)
    w.put(node.outputs[0], w.step("SELECT_V2", condition, a, b, dtype=a.dtype, options="SelectV2"), order)


@operator("Cast")
def cast(w: Writer, node: Node) -> None:
    order, dtype = w.order(node.inputs[0]), w.dtype(node.outputs[0])
    x = w.take(node.inputs[0], order)
    if x.dtype == dtype:
        w.alias(node.outputs[0], node.inputs[0])
        return
    codes: dict[str, Any] = {"inDataType": w.file.type_code(x.dtype), "outDataType": w.file.type_code(dtype)}
    w.put(node.outputs[0], w.step("CAST", x, dtype=dtype, options="Cast", **codes), order)


@operator("BatchNormalization")
def batch_normalization(w: Writer, node: Node) -> None:
    w.one_output(node)
    if attribute(node, "training_mode", 0):
        raise Unsupported(f"litert has BatchNormalization for inference only (node {node.name!r})")
    x = node.inputs[0]
    order, rank = w.order(x), len(w.shape(x))
    scale, shift, mean, variance = (w.need(node, i).astype(np.float64) for i in range(1, 5))
    factor = scale / np.sqrt(variance + attribute(node, "epsilon", 1e-5))
    made = w.take(x, order)
    for options, array, code in (("Mul", factor, 0), ("Add", shift - mean * factor, w.activation(node))):
        wide = array.astype(np.float32).reshape(1, -1, *[1] * (rank - 2)).transpose(order)
        other = w.file.constant(f"{node.name}/{options.lower()}", wide)
        made = w.step(options.upper(), made, other, options=options, fusedActivationFunction=code)
    w.put(node.outputs[0], made, order)
