"""A quantized ONNX graph as MNN knows quantization: a plain graph, and beside it a file of scales.

MNN's converter reads QuantizeLinear and DequantizeLinear wrongly (it swaps the first axes of an activation, or drops
the pair), but takes scales for the layers of a float model. So the pairs are taken out, 8-bit weights are written
as the floats they stand for, and each layer whose input, weights and output are quantized gets the scales it had.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ...core.errors import Unsupported
from ...core.protocols import Array
from ...model.graph import Graph, Node

_LAYERS = ("Conv", "Gemm", "MatMul")
_ACTIVATIONS = ("Relu", "Clip")
# What may give negative numbers, of what a Relu is commonly put behind.
_SIGNED = (*_LAYERS, "Add", "Sub", "Mul", "BatchNormalization")
# MNN's integers are signed; ONNX's unsigned ones are the same, moved by half the range.
_UNSIGNED_BY = 128
_ZERO = "zero/"
_OPSET_AXES_INPUT = 18


@dataclass(frozen=True, slots=True)
class Scale:
    """Of a tensor: value = (integer - zero) * step, in signed 8-bit integers."""

    step: float
    zero: int


@dataclass(frozen=True, slots=True)
class Layer:
    """`names` are those its output may have once the converter has merged what follows into it."""

    names: tuple[str, ...]
    source: str
    input: Scale
    output: Scale
    weights: tuple[float, ...]


@dataclass(slots=True)
class _Work:
    """A graph being taken apart: scales of constants (one per channel), scales of tensors, names that became others."""

    graph: Graph
    constants: dict[str, Array]
    steps: dict[str, Array] = field(default_factory=dict)
    scales: dict[str, Scale] = field(default_factory=dict)
    alias: dict[str, str] = field(default_factory=dict)

    def shape(self, name: str) -> list[int]:
        shape = self.graph.values[name].shape if name in self.graph.values else None
        return [size for size in shape or () if isinstance(size, int)]


def unquantized(graph: Graph) -> tuple[Graph, tuple[Layer, ...]]:
    """The graph without its pairs, and the scales of the layers that are to run in 8 bits."""
    work = _Work(graph, dict(graph.constants) | {_ZERO: np.zeros((), np.float32)})
    nodes = list(_without_pairs(work))
    nodes = [each for node in nodes for each in _as_convolution(node, work)]
    layers = tuple(_layers(nodes, work))
    if not layers:
        raise Unsupported(
            "mnn runs in 8 bits only layers whose input, weights and output are quantized: there are none"
        )
    nodes = list(_rectified(nodes, work, layers))
    nodes += [
        Node(f"{name}/named", "Identity", (work.alias[name],), (name,), {})
        for name in graph.outputs
        if name in work.alias
    ]
    return replace(graph, nodes=tuple(nodes), constants=work.constants), layers


def _without_pairs(work: _Work) -> Iterator[Node]:
    for node in work.graph.nodes:
        inputs = tuple(work.alias.get(name, name) for name in node.inputs)
        made = node.outputs[0]
        if node.operator == "DequantizeLinear" and inputs[0] in work.constants:
            work.constants[made], work.steps[made] = _widened(node, work.constants)
        elif node.operator == "QuantizeLinear":
            if made in work.graph.outputs:
                raise Unsupported(f"mnn gives outputs as floats, and that of the QuantizeLinear {node.name!r} is not")
            _agree(node, work.scales.setdefault(inputs[0], _scale(node, work.constants)), work)
            work.alias[made] = inputs[0]
        elif node.operator == "DequantizeLinear":
            if inputs[0] in work.graph.inputs and node.inputs[0] not in work.alias:
                raise Unsupported(f"mnn takes inputs as floats, and that of the DequantizeLinear {node.name!r} is not")
            if node.inputs[0] in work.alias:
                _agree(node, work.scales[inputs[0]], work)
            work.alias[made] = inputs[0]
        elif node.operator == "GlobalAveragePool":
            yield _averaged(replace(node, inputs=inputs), work)
        else:
            yield replace(node, inputs=inputs)


def _averaged(node: Node, work: _Work) -> Node:
    """A pool keeps the scale of its input, far too coarse for the average of an image; a reduction is in float."""
    axes = list(range(2, len(work.shape(node.outputs[0]))))
    if work.graph.opset < _OPSET_AXES_INPUT:
        return replace(node, operator="ReduceMean", attributes={"axes": axes, "keepdims": 1})
    work.constants[f"{node.name}/axes"] = np.array(axes, np.int64)
    inputs = (*node.inputs, f"{node.name}/axes")
    return replace(node, operator="ReduceMean", inputs=inputs, attributes={"keepdims": 1})


def _agree(node: Node, scale: Scale, work: _Work) -> None:
    if _scale(node, work.constants) != scale:
        raise Unsupported(f"mnn has one scale per activation, and that of {node.name!r} differs from another's")


def _constant(node: Node, position: int, constants: Mapping[str, Array]) -> Array:
    if node.inputs[position] not in constants:
        raise Unsupported(
            f"mnn needs scales, zero points and biases that are known beforehand, and {node.operator} {node.name!r} "
            f"computes {node.inputs[position]!r}"
        )
    return constants[node.inputs[position]]


def _scale(node: Node, constants: Mapping[str, Array]) -> Scale:
    step = _constant(node, 1, constants)
    if step.size != 1:
        raise Unsupported(f"mnn has one scale per activation, and {node.name!r} has {step.size}")
    zero = _constant(node, 2, constants) if len(node.inputs) > 2 and node.inputs[2] else np.zeros(1, np.uint8)
    by = _UNSIGNED_BY if zero.dtype == np.uint8 else 0
    return Scale(float(step.reshape(-1)[0]), int(zero.reshape(-1)[0]) - by)


def _widened(node: Node, constants: Mapping[str, Array]) -> tuple[Array, Array]:
    values, steps = constants[node.inputs[0]], _constant(node, 1, constants).astype(np.float32).reshape(-1)
    zeros = _constant(node, 2, constants).reshape(-1) if len(node.inputs) > 2 and node.inputs[2] else np.zeros(1)
    along = [1] * values.ndim
    if steps.size > 1:
        along[int(node.attributes.get("axis", 1))] = steps.size
    offset = zeros.astype(np.float64).reshape(along if zeros.size > 1 else [1] * values.ndim)
    return ((values.astype(np.float64) - offset) * steps.reshape(along)).astype(np.float32), steps


def _as_convolution(node: Node, work: _Work) -> Iterator[Node]:
    """A quantized product with a matrix as a convolution over single points: from some size on the converter writes
    the former's weights so that MNN cannot read them."""
    made, attributes = node.outputs[0], node.attributes
    plain = not attributes.get("transA") and attributes.get("alpha", 1.0) == attributes.get("beta", 1.0) == 1.0
    if node.operator not in ("Gemm", "MatMul") or node.inputs[1] not in work.steps or not plain:
        yield node
        return
    matrix, steps = work.constants[node.inputs[1]], work.steps[node.inputs[1]]
    matrix = matrix if attributes.get("transB") else matrix.T
    bias = [_constant(node, 2, work.constants)] if len(node.inputs) > 2 and node.inputs[2] else []
    before, after = work.shape(node.inputs[0]), work.shape(made)
    if matrix.ndim != 2 or not before or any(each.size != len(matrix) for each in bias):
        yield node
        return
    names = {part: f"{made}/{part}" for part in ("points", "weights", "bias", "conv", "to", "back")}
    work.constants[names["weights"]] = np.ascontiguousarray(matrix)[:, :, np.newaxis, np.newaxis]
    work.steps[names["weights"]] = steps
    work.constants[names["to"]] = np.array([-1, matrix.shape[1], 1, 1], np.int64)
    work.constants[names["back"]] = np.array(after, np.int64)
    if bias:
        work.constants[names["bias"]] = bias[0].reshape(-1)
    if node.inputs[0] in work.scales:
        work.scales[names["points"]] = work.scales[node.inputs[0]]
    if made in work.scales:
        work.scales[names["conv"]] = work.scales[made]
    yield Node(names["points"], "Reshape", (node.inputs[0], names["to"]), (names["points"],), {})
    inputs = (names["points"], names["weights"], *([names["bias"]] if bias else ()))
    yield Node(node.name, "Conv", inputs, (names["conv"],), {"kernel_shape": [1, 1]})
    yield Node(names["back"], "Reshape", (names["conv"], names["back"]), (made,), {})


def _layers(nodes: Sequence[Node], work: _Work) -> Iterator[Layer]:
    users: dict[str, list[Node]] = {}
    for node in nodes:
        for name in node.inputs:
            users.setdefault(name, []).append(node)
    ends = {work.alias[name]: name for name in work.graph.outputs if name in work.alias}
    for node in nodes:
        if node.operator != "Conv" or node.inputs[0] not in work.scales or node.inputs[1] not in work.steps:
            continue
        made = [node.outputs[0]]
        after = users.get(made[0], [])
        if made[0] not in work.scales and len(after) == 1 and after[0].operator in _ACTIVATIONS:
            made.append(after[0].outputs[0])
        if made[-1] not in work.scales:
            continue
        names = [*made, *(ends[name] for name in made if name in ends)]
        channels, steps = len(work.constants[node.inputs[1]]), work.steps[node.inputs[1]]
        yield Layer(
            # Before an output the converter puts a change of layout, and names what came before it so.
            (*names, *(f"{name}__before_tr" for name in names)),
            node.inputs[0],
            work.scales[node.inputs[0]],
            work.scales[made[-1]],
            tuple(float(step) for step in np.broadcast_to(steps, channels)),
        )


def _rectified(nodes: Sequence[Node], work: _Work, layers: Sequence[Layer]) -> Iterator[Node]:
    """Where no integer stands for a negative number, the pair did the work of a Relu, and the quantizer dropped that.

    A layer takes it in. Behind anything else MNN would merge it too, and then forget it in 8 bits; but where all
    around is in 8 bits the integers cut off negative numbers by themselves, and elsewhere a Clip is not merged.
    """
    described = {name for layer in layers for name in (layer.source, *layer.names)}
    sources = {layer.source for layer in layers}
    for node in nodes:
        made = node.outputs[0]
        signed = node.operator in _SIGNED and made in work.scales and work.scales[made].zero == -_UNSIGNED_BY
        if not signed or (node.operator not in _LAYERS and made in sources and described.issuperset(node.inputs)):
            yield node
            continue
        yield replace(node, outputs=(f"{made}/signed", *node.outputs[1:]))
        if node.operator in _LAYERS:
            yield Node(f"{made}/relu", "Relu", (f"{made}/signed",), (made,), {})
        else:
            yield Node(f"{made}/relu", "Clip", (f"{made}/signed", _ZERO), (made,), {})


def parameters(layers: Sequence[Layer]) -> bytes:
    """The scales in the converter's format (a protocol buffer, MNN.Compression.Pipeline)."""
    entries = b"".join(_message(4, _layer(layer, name)) for layer in layers for name in layer.names)
    return _text(1, "0.0.0") + _message(2, _number(1, 0) + _message(2, _number(1, 1) + entries))


def _layer(layer: Layer, name: str) -> bytes:
    weights = _text(1, f"{name}/weights") + _floats(3, layer.weights) + _number(4, -128) + _number(5, 127)
    source = _message(1, _activation(layer.source, layer.input))
    return source + _message(2, weights) + _message(3, _activation(name, layer.output)) + _number(4, 0)


def _activation(name: str, scale: Scale) -> bytes:
    limits = _number(5, -128) + _number(6, 127)
    return _text(1, name) + _number(2, 8) + _floats(3, (scale.step,)) + _number(4, scale.zero) + limits


def _number(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(value & (1 << 64) - 1)


def _floats(number: int, values: Sequence[float]) -> bytes:
    return b"".join(_varint(number << 3 | 5) + struct.pack("<f", value) for value in values)


def _text(number: int, value: str) -> bytes:
    return _message(number, value.encode())


def _message(number: int, body: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(body)) + body


def _varint(value: int) -> bytes:
    parts = []
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    return bytes((*parts, value))
