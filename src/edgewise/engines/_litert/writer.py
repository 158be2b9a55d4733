"""Where every value of an ONNX graph is in the .tflite file: in which tensor, order of axes and precision.

Operators (the functions of the themes that `ops` joins: conv, linear, math and so on) ask for their inputs with
`take`, add operators with `step`, and say with `put` what their outputs are. Transposes, quantizing and dequantizing
come in only where an operator asks for a form that a value does not have yet.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ...core.errors import EdgewiseError, Unsupported
from ...core.protocols import Array
from ...core.types import Verdict
from ...model.graph import Graph, Node
from .flatbuffer import File, Quant, Slot
from .layout import Order, arranged, plain, same_memory

# RELU and its kin as operators name them when they are part of another operator.
ACTIVATIONS = {"": 0, "RELU": 1, "RELU_N1_TO_1": 2, "RELU6": 3}
# Marks the node that an activation was made part of.
FUSED = "fused activation"

Emit = Callable[["Writer", Node], None]
Fits = Callable[["Writer", Node], bool]


@dataclass(frozen=True, slots=True)
class Operator:
    """How an ONNX operator is written.

    `int8`: "same" keeps scale and zero point, "free" takes those that the next QuantizeLinear asks for, "fixed"
    has its own, "" is float only. `fits` says whether this one can run in integers.
    """

    emit: Emit
    int8: str = ""
    fits: Fits | None = None


OPERATORS: dict[str, Operator] = {}


def operator(*names: str, int8: str = "", fits: Fits | None = None) -> Callable[[Emit], Emit]:
    def add(emit: Emit) -> Emit:
        OPERATORS.update(dict.fromkeys(names, Operator(emit, int8, fits)))
        return emit

    return add


@dataclass(slots=True)
class Held:
    """A value in the file, with the forms made of it so far."""

    slot: Slot
    order: Order
    orders: dict[Order, Slot] = field(default_factory=dict)
    # What is held in integers, as numbers.
    real: dict[Order, Slot] = field(default_factory=dict)


class Writer:
    def __init__(self, graph: Graph, exact: bool = True) -> None:
        self.graph = graph
        self._exact = exact
        self.file = File()
        self.node: Node = Node("", "", (), (), {})
        # Whether the node at hand runs in integers, and the scale and zero point its output should have.
        self.quantized = False
        self.goal: Quant | None = None
        self.constants: dict[str, Array] = dict(graph.constants)
        # Scales of the constants that are stored as integers.
        self.scales: dict[str, Quant] = {}
        self._held: dict[str, Held] = {}
        self._weights: dict[tuple[object, ...], Array] = {}
        self.nonnegative: set[str] = set()
        self.readers: dict[str, list[Node]] = {}
        for node in graph.nodes:
            for name in node.inputs:
                self.readers.setdefault(name, []).append(node)
        for name in graph.inputs:
            slot = self.file.tensor(name, self.shape(name), self.dtype(name))
            self._held[name] = Held(slot, plain(len(slot.shape)))
        self._inputs = [(name, self._held[name].slot) for name in graph.inputs]

    # What is known of a value.

    def shape(self, name: str) -> tuple[int, ...]:
        if name in self.constants:
            return tuple(self.constants[name].shape)
        shape = self.graph.values[name].shape
        if shape is None or not all(isinstance(size, int) for size in shape):
            raise Unsupported(f"litert is given fixed sizes only, and {name!r} is known only when it runs")
        if 0 in shape:
            raise Unsupported(f"litert has no empty tensors, and {name!r} is {shape}")
        return tuple(size for size in shape if isinstance(size, int))

    def dtype(self, name: str) -> str:
        if name in self.scales:
            return "float32"
        if name in self.constants:
            return str(self.constants[name].dtype.name)
        return self.graph.values[name].dtype

    def order(self, name: str) -> Order:
        return self._held[name].order if name in self._held else plain(len(self.shape(name)))

    def const(self, name: str) -> Array | None:
        """The numbers a constant stands for, whichever way they are stored."""
        if name not in self.scales:
            return self.constants.get(name)
        key = (name, "real")
        if key not in self._weights:
            self._weights[key] = dequantized(self.constants[name], self.scales[name])
        return self._weights[key]

    def need(self, node: Node, position: int) -> Array:
        array = self.const(node.inputs[position])
        if array is None:
            raise Unsupported(
                f"litert has {node.operator} with a constant {_ordinal(position)} input only (node {node.name!r})"
            )
        return array

    def given(self, node: Node, position: int) -> bool:
        return len(node.inputs) > position and node.inputs[position] != ""

    def one_output(self, node: Node) -> None:
        """Refuses a node of whose further outputs somebody reads one."""
        for name in node.outputs[1:]:
            if name and (name in self.readers or name in self.graph.outputs):
                raise Unsupported(f"litert has {node.operator} with one output only, and {name!r} is read")

    def stored(self, name: str) -> Quant | None:
        """Scale and zero point of a value that is held in integers."""
        if name in self.scales:
            return self.scales[name]
        held = self._held.get(name)
        return held.slot.quant if held else None

    def in_integers(self, name: str) -> bool:
        return self.stored(name) is not None

    def wanted(self, name: str) -> Quant | None:
        """Scale and zero point in which all readers of a value want it, if they agree."""
        readers = self.readers.get(name, [])
        if name in self.graph.outputs or not readers or any(r.operator != "QuantizeLinear" for r in readers):
            return None
        found = {self.steps(reader) for reader in readers}
        return found.pop() if len(found) == 1 else None

    def steps(self, node: Node) -> Quant | None:
        """The parameters of a (De)QuantizeLinear of 8 bits; unsigned ones are shifted, which changes no number."""
        scale = self.constants.get(node.inputs[1])
        zero = self.constants.get(node.inputs[2]) if self.given(node, 2) else np.zeros((), np.uint8)
        if scale is None or zero is None or zero.dtype.name not in ("int8", "uint8") or scale.dtype != np.float32:
            return None
        shift = 128 if zero.dtype == np.uint8 else 0
        scales = tuple(float(each) for each in scale.ravel())
        zeros = np.broadcast_to(zero.ravel().astype(np.int64) - shift, (len(scales),))
        axis = int(node.attributes.get("axis", 1)) if len(scales) > 1 else 0
        return Quant(scales, tuple(int(each) for each in zeros), axis % max(1, len(self.shape(node.inputs[0]))))

    # Asking for values, adding operators.

    def take(self, name: str, order: Order | None = None) -> Slot:
        """The value in the order asked for; in integers where the node at hand runs in integers."""
        order = plain(len(self.shape(name))) if order is None else order
        if name in self.constants:
            return self._take_constant(name, order)
        held = self._held[name]
        slot = self.arrange(held, self.shape(name), order)
        if slot.quant is None or self.quantized:
            return slot
        if order not in held.real:
            held.real[order] = self.step("DEQUANTIZE", slot, dtype="float32", options="Dequantize")
        return held.real[order]

    def _take_constant(self, name: str, order: Order) -> Slot:
        quant = self.scales.get(name)
        if quant is None or not self.quantized:
            array = self.const(name)
            assert array is not None
            return self.weights(name, array.transpose(order), (name, order))
        return self.weights(name, self.constants[name].transpose(order), (name, order, "stored"), quant)

    def weights(self, name: str, array: Array, key: tuple[object, ...], quant: Quant | None = None) -> Slot:
        """A constant; what was asked for before by the same key is stored once."""
        return self.file.constant(name, self._weights.setdefault(key, array), quant)

    def ints(self, values: int | Sequence[int] | Array, name: str = "") -> Slot:
        return self.file.constant(name or f"{self.node.name}/const", np.asarray(values, np.int32))

    def number(self, value: float, like: Slot) -> Slot:
        return self.file.constant(f"{self.node.name}/const", np.full((1,) * len(like.shape), value, like.dtype))

    def spread(self, name: str, rank: int, order: Order) -> Slot:
        """The value as an operand that is broadcast to `rank` axes lying in `order`."""
        shape = self.shape(name)
        missing = rank - len(shape)
        if not missing:
            return self.take(name, order)
        wide = (1,) * missing + shape
        if name not in self.constants:
            slot = self.reshape(self.take(name), wide)
            return self.arrange(Held(slot, plain(rank)), wide, order)
        quant = self.scales.get(name) if self.quantized else None
        array = self.constants[name] if quant else self.const(name)
        assert array is not None
        return self.weights(name, array.reshape(wide).transpose(order), (name, wide, order, quant), quant)

    def common(self, names: Sequence[str], shape: tuple[int, ...]) -> Order:
        """The order in which operands meet: one that some of them has already, NHWC rather than plain."""
        found = plain(len(shape))
        for name in names:
            if name not in self.constants and self.shape(name) == shape:
                if self.order(name) != plain(len(shape)):
                    return self.order(name)
                found = self.order(name)
        if any(self.shape(name) == shape for name in names if name not in self.constants):
            return found
        ranked = [n for n in names if n not in self.constants and len(self.shape(n)) == len(shape)]
        return max((self.order(n) for n in ranked), key=lambda o: o != plain(len(shape)), default=found)

    def arrange(self, held: Held, shape: Sequence[int], order: Order) -> Slot:
        if held.order == order:
            return held.slot
        if order not in held.orders:
            there = arranged(shape, order)
            if same_memory(shape, held.order, order):
                held.orders[order] = self.reshape(held.slot, there)
            else:
                perm = self.ints([held.order.index(axis) for axis in order])
                held.orders[order] = self.step("TRANSPOSE", held.slot, perm, shape=there, options="Transpose")
        return held.orders[order]

    def reshape(self, slot: Slot, shape: Sequence[int]) -> Slot:
        if slot.shape == tuple(shape):
            return slot
        sizes = np.array(shape, np.int32)
        return self.step("RESHAPE", slot, self.ints(sizes), shape=shape, options="Reshape", newShape=sizes)

    def requantize(self, slot: Slot, quant: Quant) -> Slot:
        if slot.quant == quant:
            return slot
        if slot.quant is not None and self._exact:
            # Between integers XNNPACK rounds coarsely: with some scales a quarter of the answers is off by one.
            slot = self.step("DEQUANTIZE", slot, dtype="float32", options="Dequantize")
        return self.step("QUANTIZE", slot, shape=slot.shape, dtype="int8", quant=quant, options="Quantize")

    def step(
        self,
        kind: str,
        *inputs: Slot | None,
        shape: Sequence[int] | None = None,
        dtype: str | None = None,
        quant: Quant | None = None,
        options: str = "",
        **fields: object,
    ) -> Slot:
        """One operator; its output is of the first input's kind, and of the size that broadcasting gives."""
        first = next(slot for slot in inputs if slot is not None)
        if shape is None:
            shape = np.broadcast_shapes(*(slot.shape for slot in inputs if slot is not None))
        if dtype is None:
            dtype, quant = first.dtype, quant or first.quant
        name = self.node.outputs[0] if self.node.outputs else kind
        made = self.file.tensor(f"{name}/{kind.lower()}", shape, dtype, quant)
        self.file.operator(kind, inputs, [made], options, **fields)
        return made

    def put(self, name: str, slot: Slot, order: Order | None = None) -> None:
        self._held[name] = Held(slot, plain(len(slot.shape)) if order is None else order)

    def alias(self, name: str, source: str) -> None:
        if source in self.constants:
            self.constants[name] = self.constants[source]
            if source in self.scales:
                self.scales[name] = self.scales[source]
        else:
            self._held[name] = self._held[source]
        if source in self.nonnegative:
            self.nonnegative.add(name)

    def activation(self, node: Node) -> int:
        """The activation that was made part of this node."""
        return ACTIVATIONS[node.attributes.get(FUSED, "")]

    # The whole graph.

    def emit(self, node: Node) -> None:
        known = OPERATORS.get(node.operator) if node.domain in ("", "ai.onnx") else None
        if known is None:
            domain = f" of {node.domain}" if node.domain not in ("", "ai.onnx") else ""
            raise Unsupported(f"litert has no operator {node.operator}{domain} (node {node.name!r})")
        self.node = node
        self.goal = self.wanted(node.outputs[0]) if known.int8 == "free" else None
        self.quantized = self._runs_in_integers(known, node)
        if not self.quantized:
            self.goal = None
        known.emit(self, node)
        if node.attributes.get(FUSED) in ("RELU", "RELU6"):
            self.nonnegative.add(node.outputs[0])

    def _runs_in_integers(self, known: Operator, node: Node) -> bool:
        if not known.int8 or not any(self.in_integers(name) for name in node.inputs if name):
            return False
        if known.int8 != "same" and self.wanted(node.outputs[0]) is None:
            return False
        if known.fits is not None:
            return known.fits(self, node)
        # Without a rule of its own: every number it reads must be in integers of one scale.
        for name in node.inputs:
            if name and self.dtype(name) in ("float32", "uint8", "int8"):
                quant = self.stored(name)
                if quant is None or len(quant.scales) != 1:
                    return False
        return True

    def write(self, path: Path) -> None:
        for node in self.graph.nodes:
            self.emit(node)
        self.file.write(path, self._inputs, self._outputs())

    def verdicts(self) -> list[Verdict]:
        """Every node tried; where one is refused, the next ones see a tensor of the size it would have made."""
        found = []
        for node in self.graph.nodes:
            try:
                self.emit(node)
            except EdgewiseError as refusal:
                found.append(Verdict(node.name, node.operator, "rejected", "cpu", refusal.message))
                for name in node.outputs:
                    tensor = self.graph.values.get(name)
                    sizes = [size if isinstance(size, int) else 1 for size in (tensor.shape or ())] if tensor else []
                    self.put(name, self.file.tensor(name, sizes, "float32"))
            else:
                found.append(Verdict(node.name, node.operator, "supported", "cpu"))
        return found

    def _outputs(self) -> list[tuple[str, Slot]]:
        """Outputs in plain order and of the type ONNX gives them, each a tensor of its own with the right name."""
        self.node = Node("outputs", "", (), (), {})
        taken = {slot.index for _, slot in self._inputs}
        found = []
        for name in self.graph.outputs:
            dtype = self.dtype(name)
            self.quantized = dtype in ("int8", "uint8")
            slot = self.take(name)
            if slot.dtype == "int8" and dtype == "uint8" and slot.quant is not None:
                shifted = Quant(slot.quant.scales, tuple(zero + 128 for zero in slot.quant.zeros))
                slot = self.step("QUANTIZE", slot, dtype="uint8", quant=shifted, options="Quantize")
            if slot.index in taken or self.file.is_constant(slot):
                sizes = np.array(slot.shape, np.int32)
                slot = self.step("RESHAPE", slot, self.ints(sizes), shape=slot.shape, options="Reshape", newShape=sizes)
            taken.add(slot.index)
            self.file.rename(slot, name)
            found.append((name, slot))
        return found


def dequantized(array: Array, quant: Quant) -> Array:
    shape = [1] * array.ndim
    if len(quant.scales) > 1:
        shape[quant.axis] = len(quant.scales)
    zero, scale = np.array(quant.zeros).reshape(shape), np.array(quant.scales, np.float32).reshape(shape)
    # Whole numbers of 32 bits do not fit into 24 bits of mantissa.
    found: Array = ((array.astype(np.int64) - zero) * scale.astype(np.float64)).astype(np.float32)
    return found


def attribute(node: Node, name: str, default: Any) -> Any:
    value = node.attributes.get(name)
    return default if value is None else value


def _ordinal(position: int) -> str:
    return ("first", "second", "third", "fourth", "fifth")[position] if position < 5 else f"{position + 1}th"
