"""Eight bits in some parts of a split: what a quantized file knows of a network, put into the pieces of a float one.

What is exchanged stays floating point. Inside a piece the inputs of a convolution or product are rounded to the 8 bits
that the quantized file has for them, its weights are those of that file, and what it makes is rounded the same way:
then an engine finds what it looks for, and computes in 8 bits.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ...model.graph import Array, Graph, Node
from .rules import CONVOLUTIONS, PRODUCTS

_MULTIPLY = CONVOLUTIONS | PRODUCTS | {"ConvTranspose"}
# Engines take these for a part of the convolution before them: what comes out of it is what comes out of these.
_BEHIND = ("Relu", "Clip")
# Behind the name of a constant, where ONNX Runtime has quantized it.
_QUANTIZED = "_quantized"


@dataclass(frozen=True, slots=True)
class Slice:
    """Of which value something is a piece; of a constant, from where to where along an axis."""

    name: str
    axis: int = 0
    begin: int = 0
    end: int | None = None


@dataclass(frozen=True, slots=True)
class Weights:
    """A constant in whole numbers, with its scales and zero points: one for all, or one for each place along `axis`."""

    numbers: Array
    scales: tuple[Array, ...]
    axis: int


@dataclass(frozen=True, slots=True)
class Eight:
    """By the names of the float graph: scale and zero point of its values, and its constants in whole numbers."""

    values: Mapping[str, tuple[Array, ...]]
    constants: Mapping[str, Weights]

    def knows(self, node: Node) -> bool:
        """Whether the file computes this node in 8 bits."""
        return (
            node.operator in _MULTIPLY
            and len(node.inputs) > 1
            and node.inputs[0] in self.values
            and node.inputs[1] in self.constants
        )


def multiplies(node: Node) -> bool:
    return node.operator in _MULTIPLY


def eight(found: Graph) -> Eight:
    """Read from the graph of a quantized file."""
    told = {node.outputs[0]: node for node in found.nodes if node.operator == "QuantizeLinear"}
    values: dict[str, tuple[Array, ...]] = {}
    constants: dict[str, Weights] = {}
    for node in found.nodes:
        if node.operator == "QuantizeLinear":
            if (scales := _constants(found, node)) is not None:
                values[node.inputs[0]] = scales
        elif node.operator == "DequantizeLinear" and (scales := _constants(found, node)) is not None:
            given, made = node.inputs[0], node.outputs[0]
            if given in found.constants:
                axis = int(node.attributes.get("axis", 1))
                constants[given.removesuffix(_QUANTIZED)] = Weights(found.constants[given], scales, axis)
            elif given in told and made in found.outputs:
                # What is an answer keeps its name behind the rounding, and has another before it.
                values[made] = scales
    return Eight(values, constants)


def _constants(found: Graph, node: Node) -> tuple[Array, ...] | None:
    names = [name for name in node.inputs[1:] if name]
    return tuple(found.constants[name] for name in names) if all(name in found.constants for name in names) else None


def rounded(
    nodes: Sequence[Node],
    known: Eight,
    slices: Mapping[str, Slice],
    kept: Collection[str],
) -> tuple[list[Node], dict[str, Array]]:
    """The nodes of a piece with conversions to 8 bits and back around those that multiply, and the constants of these.
    `slices` says what the names of the piece are pieces of; `kept` are its outputs."""
    rounding = _Rounding(known, slices)
    ends = rounding.ends(nodes, kept)
    for node in nodes:
        rounding.take(node, ends)
    return rounding.nodes, rounding.constants


class _Rounding:
    def __init__(self, known: Eight, slices: Mapping[str, Slice]) -> None:
        self._known, self._slices = known, slices
        self.nodes: list[Node] = []
        self.constants: dict[str, Array] = {}
        # Conversions that are there already, by what is converted.
        self._made: dict[str, str] = {}

    def ends(self, nodes: Iterable[Node], kept: Collection[str]) -> set[str]:
        """The values that come out of what multiplies, as far as it is known how to round them."""
        users: dict[str, list[Node]] = defaultdict(list)
        for node in nodes:
            for name in node.inputs:
                users[name].append(node)
        found = set()
        for node in nodes:
            name = node.outputs[0]
            if not self._multiplied(node):
                continue
            while name not in self._known.values and name not in kept:
                if len(users[name]) != 1 or users[name][0].operator not in _BEHIND:
                    break
                name = users[name][0].outputs[0]
            if name in self._known.values:
                found.add(name)
        return found

    def take(self, node: Node, ends: Collection[str]) -> None:
        if self._multiplied(node):
            first, *others = node.inputs
            inputs = (self._rounded(first), *(self._weights(name) for name in others))
            node = replace(node, inputs=inputs)
        made = node.outputs[0]
        if made not in ends:
            self.nodes.append(node)
            return
        before = f"{made} as computed"
        self.nodes.append(replace(node, outputs=(before, *node.outputs[1:])))
        self._convert(before, made, made)
        self._made[made] = made

    def _multiplied(self, node: Node) -> bool:
        whole = tuple(self._slices[name].name if name in self._slices else name for name in node.inputs)
        return self._known.knows(replace(node, inputs=whole))

    def _rounded(self, name: str) -> str:
        if name not in self._made:
            self._made[name] = f"{name} rounded"
            self._convert(name, self._made[name], self._slices.get(name, Slice(name)).name)
        return self._made[name]

    def _convert(self, name: str, made: str, value: str) -> None:
        """To 8 bits and back."""
        scales = tuple(
            self._keep(f"{value} {what}", array)
            for what, array in zip(("scale", "zero"), self._known.values[value], strict=False)
        )
        between = f"{made} in 8 bits"
        self.nodes.append(Node(between, "QuantizeLinear", (name, *scales), (between,), {}))
        self.nodes.append(Node(f"{made} again", "DequantizeLinear", (between, *scales), (made,), {}))

    def _weights(self, name: str) -> str:
        """A piece of a constant in whole numbers, with the scales that belong to it."""
        of = self._slices.get(name, Slice(name))
        if of.name not in self._known.constants:
            return name
        if name not in self._made:
            whole = self._known.constants[of.name]
            cut = (slice(None),) * of.axis + (slice(of.begin, of.end),)
            inputs = [self._keep(f"{name} in 8 bits", whole.numbers[cut])]
            for what, array in zip(("scale", "zero"), whole.scales, strict=False):
                each = array.ndim == 1 and array.size > 1 and whole.axis % max(1, whole.numbers.ndim) == of.axis
                inputs.append(self._keep(f"{name} {what}", array[of.begin : of.end] if each else array))
            self._made[name] = f"{name} again"
            settings = {"axis": whole.axis} if any(array.size > 1 for array in whole.scales) else {}
            self.nodes.append(Node(name, "DequantizeLinear", tuple(inputs), (self._made[name],), settings))
        return self._made[name]

    def _keep(self, name: str, array: Array) -> str:
        self.constants[name] = array
        return name
