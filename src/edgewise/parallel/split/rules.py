"""What an operator needs in order to compute some of its output channels, and which operators move no data at all.

Channels are the second axis, of tensors whose first has length 1: the channels of a part are then one piece of memory.
An operator without a rule is computed whole by everybody: that costs no exchange, and gains nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from ...model.graph import Graph, Node

_AXIS = 1

# One input in, the same channels out; further inputs are settings.
UNARY = frozenset(
    [
        "Abs",
        "Cast",
        "Ceil",
        "Celu",
        "Clip",
        "Elu",
        "Erf",
        "Exp",
        "Floor",
        "Gelu",
        "HardSigmoid",
        "HardSwish",
        "LeakyRelu",
        "Log",
        "Mish",
        "Neg",
        "QuickGelu",
        "Reciprocal",
        "Relu",
        "Round",
        "Selu",
        "Sigmoid",
        "Softplus",
        "Softsign",
        "Sqrt",
        "Swish",
        "Tanh",
        "ThresholdedRelu",
    ]
)
_POOLS = frozenset(["AveragePool", "GlobalAveragePool", "GlobalMaxPool", "LpPool", "MaxPool"])
BINARY = frozenset(["Add", "Div", "Max", "Mean", "Min", "Mul", "PRelu", "Pow", "Sub", "Sum"])
CONVOLUTIONS = frozenset(("Conv", "FusedConv"))
_GEMMS = frozenset(("Gemm", "FusedGemm"))
PRODUCTS = _GEMMS | {"MatMul"}
_NORMS = frozenset(("BatchNormalization", "InstanceNormalization"))
_VIEWS = frozenset(("Dropout", "Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"))


@dataclass(frozen=True, slots=True)
class Whole:
    """All of the input."""


@dataclass(frozen=True, slots=True)
class Own:
    """Of the input, `per` channels for each channel of the output."""

    per: Fraction = Fraction(1)


@dataclass(frozen=True, slots=True)
class Cut:
    """A constant, cut along this axis as the output is; or as the input, where it is that whose channels are divided.
    Where weights are `blocked`, they lie by blocks of both kinds of channels."""

    axis: int
    blocked: bool = False


@dataclass(frozen=True, slots=True)
class Kept:
    """A constant that is the same for every part."""


@dataclass(frozen=True, slots=True)
class Sized:
    """A constant that holds the sizes of the output."""


Take = Whole | Own | Cut | Kept | Sized
Attributes = Callable[[Mapping[str, Any], int, int], dict[str, Any]]


def _same(attributes: Mapping[str, Any], begin: int, end: int) -> dict[str, Any]:
    return dict(attributes)


@dataclass(frozen=True, slots=True)
class Rule:
    """What a part takes of each input; `unit` output channels belong together; `attributes` of the part from channel
    `begin` to `end`."""

    takes: tuple[Take, ...]
    unit: int = 1
    attributes: Attributes = field(default=_same, compare=False)

    @property
    def mixes(self) -> bool:
        """Whether an output channel depends on all channels of an input."""
        return any(isinstance(take, Whole) for take in self.takes)


def rule(node: Node, found: Graph) -> Rule | None:
    """None where the operator cannot be cut, or nobody here knows how."""
    shape = shape_of(found, node.outputs[0])
    if shape is None or len(shape) < 2 or shape[0] != 1 or sum(1 for name in node.outputs if name) > 1:
        return None
    makers = (
        (CONVOLUTIONS, _convolution),
        (frozenset(("ConvTranspose",)), _transposed),
        (_GEMMS, _gemm),
        (frozenset(("MatMul",)), _matmul),
        (UNARY, _unary),
        (_POOLS, _unary),
        (frozenset(("ReorderInput", "Upsample")), _unary),
        (frozenset(("ReorderOutput",)), _reorder_output),
        (_NORMS, _norm),
        (frozenset(("QuantizeLinear", "DequantizeLinear")), _quantized),
        (BINARY, _broadcast),
        (frozenset(("Resize",)), _resize),
        (frozenset(("Pad",)), _pad),
        (frozenset(("ReduceMean", "ReduceMax", "ReduceSum")), _reduce),
    )
    for operators, make in makers:
        if node.operator in operators:
            return make(node, found)
    return None


def shape_of(found: Graph, name: str) -> tuple[int, ...] | None:
    """The size of a value, where all of it is known."""
    if name in found.constants:
        return tuple(found.constants[name].shape)
    value = found.values.get(name)
    if value is None or value.shape is None or not all(isinstance(size, int) for size in value.shape):
        return None
    return tuple(size for size in value.shape if isinstance(size, int))


def _constant(found: Graph, node: Node, place: int) -> bool:
    return place < len(node.inputs) and node.inputs[place] in found.constants


def _absent(node: Node, place: int) -> bool:
    return place >= len(node.inputs) or not node.inputs[place]


def _convolution(node: Node, found: Graph) -> Rule | None:
    if not _constant(found, node, 1) or not (_absent(node, 2) or _constant(found, node, 2)):
        return None
    shape = shape_of(found, node.inputs[0])
    if shape is None or shape[0] != 1:
        return None
    outputs, groups = int(found.constants[node.inputs[1]].shape[0]), int(node.attributes.get("group", 1))
    rest: tuple[Take, ...] = (Cut(0), Cut(0), Own())[: len(node.inputs) - 1]
    if groups == 1:
        return Rule((Whole(), *rest))
    if outputs % groups:
        return None
    each = outputs // groups

    def attributes(given: Mapping[str, Any], begin: int, end: int) -> dict[str, Any]:
        return dict(given) | {"group": (end - begin) // each}

    return Rule((Own(Fraction(shape[_AXIS], outputs)), *rest), each, attributes)


def _transposed(node: Node, found: Graph) -> Rule | None:
    plain = int(node.attributes.get("group", 1)) == 1 and _constant(found, node, 1)
    if not plain or not (_absent(node, 2) or _constant(found, node, 2)):
        return None
    return Rule((Whole(), Cut(1), Cut(0))[: len(node.inputs)])


def _gemm(node: Node, found: Graph) -> Rule | None:
    if not _constant(found, node, 1) or node.attributes.get("transA", 0):
        return None
    if _absent(node, 2):
        return Rule((Whole(), Cut(0 if node.attributes.get("transB", 0) else 1))[: len(node.inputs)])
    if not _constant(found, node, 2):
        return None
    bias = found.constants[node.inputs[2]]
    last: Take = Cut(bias.ndim - 1) if bias.ndim and bias.shape[-1] > 1 else Kept()
    return Rule((Whole(), Cut(0 if node.attributes.get("transB", 0) else 1), last))


def _matmul(node: Node, found: Graph) -> Rule | None:
    shape = shape_of(found, node.inputs[0])
    if not _constant(found, node, 1) or shape is None or len(shape) != 2:
        return None
    return Rule((Whole(), Cut(1))) if found.constants[node.inputs[1]].ndim == 2 else None


def _unary(node: Node, found: Graph) -> Rule | None:
    if any(not _absent(node, place) and not _constant(found, node, place) for place in range(1, len(node.inputs))):
        return None
    return _channelwise(node, found, (Own(), *[Kept()] * (len(node.inputs) - 1)))


def _channelwise(node: Node, found: Graph, takes: tuple[Take, ...]) -> Rule | None:
    """Only where the channels of the output are those of the input."""
    given, made = shape_of(found, node.inputs[0]), shape_of(found, node.outputs[0])
    if given is None or made is None or len(given) < 2 or given[:2] != made[:2]:
        return None
    return Rule(takes)


def _reorder_output(node: Node, found: Graph) -> Rule | None:
    """From blocks back to single channels: of the last block, some may be filling."""
    given, made = shape_of(found, node.inputs[0]), shape_of(found, node.outputs[0])
    if given is None or made is None or given[_AXIS] != made[_AXIS] or node.attributes.get("channels_last"):
        return None

    def attributes(settings: Mapping[str, Any], begin: int, end: int) -> dict[str, Any]:
        return dict(settings) | {"channels": end - begin}

    return Rule((Own(),), 1, attributes)


def _norm(node: Node, found: Graph) -> Rule | None:
    count = len(node.inputs)
    if not all(_constant(found, node, place) for place in range(1, count)):
        return None
    return _channelwise(node, found, (Own(), *[Cut(0)] * (count - 1)))


def _quantized(node: Node, found: Graph) -> Rule | None:
    """One scale for all channels, or one for each."""
    if not all(_absent(node, place) or _constant(found, node, place) for place in range(1, len(node.inputs))):
        return None
    scale, axis = found.constants[node.inputs[1]], int(node.attributes.get("axis", 1))
    each = scale.size > 1
    if each and (scale.ndim != 1 or axis != _AXIS):
        return None
    return _channelwise(node, found, (Own(), *[Cut(0) if each else Kept()] * (len(node.inputs) - 1)))


def _broadcast(node: Node, found: Graph) -> Rule | None:
    made = shape_of(found, node.outputs[0])
    assert made is not None
    takes: list[Take] = []
    for name in node.inputs:
        shape = shape_of(found, name)
        if shape is None:
            return None
        axis = _AXIS - (len(made) - len(shape))
        wide = 0 <= axis < len(shape) and shape[axis] > 1
        if name in found.constants:
            takes.append(Cut(axis) if wide else Kept())
        elif wide and axis == _AXIS:
            takes.append(Own())
        elif wide:
            return None
        else:
            takes.append(Whole())
    # PRelu's slope is broadcast to its first input, like all the others.
    return Rule(tuple(takes)) if any(isinstance(take, Own) for take in takes) else None


def _resize(node: Node, found: Graph) -> Rule | None:
    if not all(_absent(node, place) or _constant(found, node, place) for place in range(1, len(node.inputs))):
        return None
    if "axes" in node.attributes:
        return None
    settings: list[Take] = [Kept() for _ in node.inputs[1:]]
    if len(node.inputs) > 3 and node.inputs[3]:
        settings[2] = Sized()
    return _channelwise(node, found, (Own(), *settings))


def _pad(node: Node, found: Graph) -> Rule | None:
    if not all(_absent(node, place) or _constant(found, node, place) for place in range(1, len(node.inputs))):
        return None
    # With `axes` as an input it is another form; the sizes tell whether channels are added.
    return _channelwise(node, found, (Own(), *[Kept()] * (len(node.inputs) - 1)))


def _reduce(node: Node, found: Graph) -> Rule | None:
    """Over places, not over channels."""
    axes = node.attributes.get("axes")
    if axes is None and _constant(found, node, 1):
        axes = found.constants[node.inputs[1]].tolist()
    shape = shape_of(found, node.inputs[0])
    if not axes or shape is None or not node.attributes.get("keepdims", 1):
        return None
    if any(axis % len(shape) <= _AXIS for axis in axes):
        return None
    return _channelwise(node, found, (Own(), *[Kept()] * (len(node.inputs) - 1)))


@dataclass(frozen=True, slots=True)
class Alias:
    """`name` is a piece of `base`, from the element `offset` on."""

    name: str
    base: str
    offset: int


def aliases(node: Node, found: Graph) -> list[Alias] | None:
    """The values that need not be made, because they lie in memory as they should. None where that is not so."""
    made = shape_of(found, node.outputs[0])
    if made is None or not made or (made[0] != 1 and node.operator not in _VIEWS):
        return None
    if node.operator in _VIEWS:
        if node.inputs[0] in found.constants:
            return None
        return [Alias(node.outputs[0], node.inputs[0], 0)]
    if node.operator == "Concat" and node.attributes.get("axis", 0) % len(made) == _AXIS:
        return _row(node.inputs, node.outputs[0], found)
    if node.operator == "Split":
        shape = shape_of(found, node.inputs[0])
        if shape is not None and shape[0] == 1 and node.attributes.get("axis", 0) % len(shape) == _AXIS:
            return _row(node.outputs, node.inputs[0], found)
    return None


def _row(names: tuple[str, ...], base: str, found: Graph) -> list[Alias] | None:
    """Values that lie behind one another in `base`; each can be in one place only."""
    if len(set(names)) < len(names) or base in found.constants or any(name in found.constants for name in names):
        return None
    offset, placed = 0, []
    for name in names:
        shape = shape_of(found, name)
        if shape is None:
            return None
        placed.append(Alias(name, base, offset))
        offset += math.prod(shape)
    return placed
