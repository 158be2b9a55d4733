"""What a model is made of, node by node: parameters, multiply-adds, FLOPs, bytes moved, and memory alive at once.

All of it follows from the graph and its input sizes; nothing runs. What each operator computes is in `model.work`.
Bytes are those of the graph as it is written: an engine that fuses two nodes moves less. Quantized values count in the
type they are stored in, so `QuantizeLinear` and `DequantizeLinear` around them move nothing. What else is computed of
constants alone is done once, as engines do when they load: a weight stored in 8 bits and cast to 32 is one of 32.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..core.errors import InputError
from ..core.records import from_json, to_json
from ..core.types import Model, Tensor
from .graph import Graph, Node, graph
from .work import VIEWS, Shape, Uncountable, Work, work

_BITS = {
    "float64": 64, "float32": 32, "float16": 16, "bfloat16": 16, "complex64": 64, "complex128": 128, "bool": 8,
    "int64": 64, "uint64": 64, "int32": 32, "uint32": 32, "int16": 16, "uint16": 16, "int8": 8, "uint8": 8,
    "int4": 4, "uint4": 4, "float8e4m3fn": 8, "float8e4m3fnuz": 8, "float8e5m2": 8, "float8e5m2fnuz": 8,
    "float8_e4m3fn": 8, "float8_e4m3fnuz": 8, "float8_e5m2": 8, "float8_e5m2fnuz": 8, "float4e2m1": 4,
}  # fmt: skip
# Which inputs can hold parameters; of all others, every one. The rest are settings: axes, bounds, scales of
# quantization, and the statistics of batch normalization, which nobody trained.
_FIRST = (
    "Resize Upsample Pad Slice Reshape Expand Tile Unsqueeze Squeeze Split TopK CumSum Dropout Gather GatherElements "
    "GatherND QuantizeLinear DequantizeLinear ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 "
    "ReduceSumSquare ReduceLogSum ReduceLogSumExp Trilu CenterCropPad"
)
_PARAMETERS: Mapping[str, tuple[int, ...]] = {
    **dict.fromkeys(_FIRST.split(), (0,)),
    **dict.fromkeys(("Clip", "OneHot", "Range", "ConstantOfShape", "NonMaxSuppression"), ()),
    "BatchNormalization": (0, 1, 2),
    "QLinearConv": (0, 3, 8),
    "QLinearMatMul": (0, 3),
    "ConvInteger": (0, 1),
    "MatMulInteger": (0, 1),
}
# Elsewhere a single number is a factor or an exponent; here it can be the bias of a single channel.
_LAYERS = ("Conv", "ConvTranspose", "Gemm", "MatMul", "BatchNormalization", "QLinearConv", "PRelu")
_LONGEST_REASON = 200
# They read of their first input what they write.
_PARTIAL = ("Gather", "GatherElements", "GatherND", "Slice", "Split")
# Made of constants by these, a value is a constant still. Few are left to be seen here: those that come after
# DequantizeLinear, and those too large to be folded.
_FORMS = VIEWS | {"QuantizeLinear", "DequantizeLinear", "Transpose", "Cast"}


@dataclass(frozen=True, slots=True)
class NodeCost:
    """One node. Activations read and written, and constants read, are in bytes; what is not known is None, and why.

    A constant's parameters count at the first node that uses it. `output_bytes` is the size of what comes out, also
    where nothing is written because it is only looked at in another shape.
    """

    name: str
    operator: str
    shape: Shape | None
    parameters: int
    multiply_adds: int | None
    flops: int | None
    weight_bytes: int
    read_bytes: int | None
    written_bytes: int | None
    output_bytes: int | None
    reason: str = ""

    @property
    def moved_bytes(self) -> int | None:
        if self.read_bytes is None or self.written_bytes is None:
            return None
        return self.weight_bytes + self.read_bytes + self.written_bytes


@dataclass(frozen=True, slots=True)
class Cost:
    """All nodes in the order they run, and what only the whole can tell; outputs have their sizes.

    `peak_bytes`: the most activations alive at once in this order, with nothing done in place. `declared_parameters`:
    what the file says it had before normalization was folded into its weights. Sums leave out what is not known.
    """

    nodes: tuple[NodeCost, ...]
    outputs: tuple[Tensor, ...]
    opset: int
    parameters: int
    weight_bytes: int
    peak_bytes: int
    declared_parameters: int | None = None

    @property
    def multiply_adds(self) -> int:
        return sum(node.multiply_adds or 0 for node in self.nodes)

    @property
    def flops(self) -> int:
        return sum(node.flops or 0 for node in self.nodes)

    @property
    def activation_bytes(self) -> int:
        """All that is written, added up."""
        return sum(node.written_bytes or 0 for node in self.nodes)

    @property
    def moved_bytes(self) -> int:
        return sum(node.moved_bytes or 0 for node in self.nodes)

    @property
    def flops_per_byte(self) -> float | None:
        return self.flops / self.moved_bytes if self.moved_bytes else None

    @property
    def unknown(self) -> tuple[NodeCost, ...]:
        return tuple(node for node in self.nodes if node.reason)


def cost_of(model: Mapping[str, Any]) -> Any:
    """For a worker: a Model whose input sizes are known, and its Cost, both as JSON."""
    described = from_json(Model, model)
    try:
        return to_json(cost(described))
    except (ValueError, TypeError, RuntimeError) as error:
        # Weights that do not have the bytes their shape wants, names that are none: what no checker looked at.
        reason = " ".join(str(error).split())[:_LONGEST_REASON]
        raise InputError(f"{described.label} is damaged where nothing has looked so far: {reason}") from None


def cost(model: Model) -> Cost:
    """The cost of one run of `model`, whose input sizes must be known."""
    found = graph(model)
    values = _Values(found)
    nodes = tuple(_costs(found, values))
    return Cost(
        nodes=nodes,
        outputs=tuple(replace(t, shape=values.sizes.get(t.name, t.shape)) for t in model.outputs),
        opset=found.opset,
        parameters=sum(node.parameters for node in nodes),
        weight_bytes=sum(values.stored_bytes(name) or 0 for name in values.kept()),
        peak_bytes=_peak_bytes(found, values),
        declared_parameters=_declared(model),
    )


def _declared(model: Model) -> int | None:
    import onnx

    proto = onnx.load(model.path, load_external_data=False)
    said = next((prop.value for prop in proto.metadata_props if prop.key == "parameters"), "")
    return int(said) if said.isascii() and said.isdigit() and len(said) < 16 else None


class _Values:
    """Sizes of all values, what they take where they are kept, and which of them are the same memory."""

    def __init__(self, found: Graph) -> None:
        self.constants = found.constants
        self.sizes: dict[str, Shape] = {name: tuple(array.shape) for name, array in found.constants.items()}
        self._types = {name: array.dtype.name for name, array in found.constants.items()}
        for name, value in found.values.items():
            self._types[name] = value.dtype
            if value.shape is not None and all(isinstance(size, int) for size in value.shape):
                self.sizes[name] = tuple(size for size in value.shape if isinstance(size, int))
        # The constant a value is made of, and the form of it that is kept.
        self.origin: dict[str, str] = {name: name for name in found.constants}
        self.form: dict[str, str] = dict(self.origin)
        self._cast: set[str] = set()
        # The value it is another look at; and the one that all of these are looks at, whose memory it is.
        self._seen: dict[str, str] = {}
        self.root: dict[str, str] = {}
        self.free: set[str] = set()
        self._alias(found)

    def _alias(self, found: Graph) -> None:
        users: dict[str, list[Node]] = {}
        for node in found.nodes:
            for name in node.inputs:
                users.setdefault(name, []).append(node)
        ends = {*found.inputs, *found.outputs}
        for node in found.nodes:
            given = [name for name in node.inputs if name]
            if not given or not node.outputs[0]:
                continue
            if node.operator in _FORMS and all(name in self.origin for name in given):
                self.origin[node.outputs[0]] = self.origin[given[0]]
                self.form[node.outputs[0]] = node.outputs[0] if node.operator == "Cast" else self.form[given[0]]
                if node.operator == "Cast":
                    self._cast.add(self.form[given[0]])
                self.free.add(node.name)
            elif node.operator in VIEWS or (node.operator == "DequantizeLinear" and node.outputs[0] not in ends):
                self._share(node, given[0], self._types[given[0]])
            elif node.operator == "QuantizeLinear":
                stored = self._types[node.outputs[0]]
                # Whoever makes the value can round it as it writes it, where nobody wants it unrounded.
                alone = all(name not in ends and len(users[name]) == 1 for name in self._looks(given[0]))
                if alone or self._types[given[0]] == stored:
                    self._share(node, given[0], stored)

    def _looks(self, name: str) -> list[str]:
        """The value, and those it is another look at; the last is the one in memory."""
        found = [name]
        while found[-1] in self._seen:
            found.append(self._seen[found[-1]])
        return found

    def _share(self, node: Node, one: str, stored: str) -> None:
        self._seen[node.outputs[0]] = one
        looks = self._looks(node.outputs[0])
        self._types.update(dict.fromkeys(looks, stored))
        self.root[node.outputs[0]] = looks[-1]
        self.free.add(node.name)

    def made(self, node: Node) -> list[str]:
        """Outputs that somebody reads; the others (a mask, the places of the largest) need not be written."""
        return [name for name in node.outputs if name in self._types]

    def stored_bytes(self, name: str) -> int | None:
        bits = _BITS.get(self._types.get(name, ""))
        return None if bits is None or name not in self.sizes else (math.prod(self.sizes[name]) * bits + 7) // 8

    def kept(self) -> set[str]:
        """All constants, each in one form."""
        return {*self.form.values()} - self._cast

    def constant_bytes(self, name: str) -> int | None:
        return self.stored_bytes(self.form[name])


def _costs(found: Graph, values: _Values) -> Iterator[NodeCost]:
    counted: set[str] = set()
    for node in found.nodes:
        done: Work | None = Work(0, 0)
        reason = ""
        if node.outputs[0] not in values.origin:
            try:
                done = work(node, values.sizes)
            except Uncountable as error:
                done, reason = None, str(error)
        weights, read, written = _moved(node, values)
        made = values.made(node)
        output = _sum(values.stored_bytes(name) for name in made)
        if not reason and (read is None or written is None):
            reason = "the size of its values is not known"
        yield NodeCost(
            node.name,
            node.operator if not node.domain else f"{node.domain}.{node.operator}",
            values.sizes.get(made[0]) if made else None,
            _parameters(node, values, counted),
            done.multiply_adds if done else None,
            done.flops if done else None,
            weights,
            read,
            written,
            output,
            reason,
        )


def _moved(node: Node, values: _Values) -> tuple[int, int | None, int | None]:
    """Bytes of constants read, of activations read, and of activations written."""
    if node.name in values.free:
        return 0, 0, 0
    written = _sum(values.stored_bytes(name) for name in values.made(node))
    weights, activations = 0, []
    for index, name in enumerate(node.inputs):
        if not name or name in node.inputs[:index]:
            continue
        constant = name in values.origin
        size = values.constant_bytes(name) if constant else values.stored_bytes(name)
        if index == 0 and node.operator in _PARTIAL and size is not None and written is not None:
            size = min(size, written)
        if constant:
            weights += size or 0
        else:
            activations.append(size)
    return weights, _sum(activations), written


def _sum(sizes: Any) -> int | None:
    total = 0
    for size in sizes:
        if size is None:
            return None
        total += size
    return total


def _parameters(node: Node, values: _Values, counted: set[str]) -> int:
    """Of the constants this node is the first to use as data."""
    if node.outputs[0] in values.origin:
        return 0
    total = 0
    for index, name in enumerate(node.inputs):
        if name not in values.origin or index not in _PARAMETERS.get(node.operator, (index,)):
            continue
        origin = values.origin[name]
        elements = math.prod(values.sizes[origin])
        if origin not in counted and (elements > 1 or node.operator in _LAYERS):
            counted.add(origin)
            total += elements
    return total


def _peak_bytes(found: Graph, values: _Values) -> int:
    """Alive is what is made, and still to be read or returned; inputs from the beginning on."""

    def root(name: str) -> str:
        return values.root.get(name, name)

    last: dict[str, int] = {}
    for index, node in enumerate(found.nodes):
        for name in (*node.inputs, *node.outputs):
            last[root(name)] = index
    for name in found.outputs:
        last[root(name)] = len(found.nodes)
    alive = {name: values.stored_bytes(name) or 0 for name in found.inputs}
    total = peak = sum(alive.values())
    for index, node in enumerate(found.nodes):
        for name in values.made(node):
            if root(name) not in alive and name not in values.origin:
                alive[root(name)] = values.stored_bytes(name) or 0
                total += alive[root(name)]
        peak = max(peak, total)
        for name in {root(name) for name in (*node.inputs, *node.outputs)}:
            if last.get(name) == index:
                total -= alive.pop(name, 0)
    return peak
