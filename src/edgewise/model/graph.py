"""An ONNX file as a plain graph of known sizes: what engines without an ONNX reader of their own are fed from.

With the sizes of the inputs fixed, much of an exported graph is arithmetic on shapes; it is done here, once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.errors import InputError, Unsupported
from ..core.types import Model, Tensor

Array = NDArray[Any]

# Folding these would turn a quantized model back into a float one.
_NEVER_FOLDED = ("QuantizeLinear", "DequantizeLinear")
# Their answers are not a matter of their inputs.
_RANDOM = ("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli")
# Operators defined by others, whose sizes ONNX does not infer; they keep those of their first input.
_LIKE_FIRST = ("GroupNormalization", "MeanVarianceNormalization")
# A folded constant larger than this was meant to be computed, not stored.
_LARGEST_FOLDED = 1 << 24
# Small constants are what shapes depend on (Reshape's target, Slice's ends); larger ones only slow inference down.
_TELLING_ELEMENTS = 1024


@dataclass(frozen=True, slots=True)
class Node:
    """An operator. Attributes are plain values or arrays; an optional input that is absent is ''."""

    name: str
    operator: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    domain: str = ""


@dataclass(frozen=True, slots=True)
class Graph:
    """Nodes in the order they can run, constants apart; `values` has type and size of everything else."""

    nodes: tuple[Node, ...]
    constants: Mapping[str, Array]
    values: Mapping[str, Tensor]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    opset: int


def graph(model: Model) -> Graph:
    """The graph of `model`, whose input sizes must be known."""
    import onnx_ir as ir

    for tensor in model.inputs:
        if tensor.shape is None or not all(isinstance(size, int) for size in tensor.shape):
            raise InputError(f"the size of input {tensor.name!r} of {model.label} is open: {tensor.shape}")
    loaded = ir.load(model.path)
    source = loaded.graph
    source.sort()
    constants: dict[str, Array] = {}
    for name, value in source.initializers.items():
        if value.const_value is not None:
            constants[name] = value.const_value.numpy()
    values = {tensor.name: tensor for tensor in model.inputs}
    opset = int(loaded.opset_imports.get("", 1))
    folder = _Folder(constants, values, dict(loaded.opset_imports), int(loaded.ir_version))
    nodes = [node for each in source for node in folder.take(each)]
    outputs = tuple(str(value.name) for value in source.outputs)
    nodes = _needed(nodes, outputs)
    used = {name for node in nodes for name in node.inputs} | set(outputs)
    inputs = tuple(tensor.name for tensor in model.inputs)
    return Graph(
        tuple(nodes),
        {name: array for name, array in constants.items() if name in used},
        {name: value for name, value in values.items() if name in used or name in inputs},
        inputs,
        outputs,
        opset,
    )


def written(path: str, values: Mapping[str, Tensor], inputs: Sequence[str]) -> Graph:
    """A file as it is, nothing folded; `values` has types and sizes, which its operators may not tell."""
    import onnx_ir as ir

    loaded = ir.load(path)
    loaded.graph.sort()
    constants = {
        name: v.const_value.numpy() for name, v in loaded.graph.initializers.items() if v.const_value is not None
    }
    names: set[str] = set()
    nodes = []
    for each in loaded.graph:
        outputs = tuple(str(value.name or "") for value in each.outputs)
        name = str(each.name or outputs[0])
        name = outputs[0] if name in names else name
        names.add(name)
        taken = tuple("" if value is None else str(value.name) for value in each.inputs)
        nodes.append(Node(name, each.op_type, taken, outputs, _attributes(each), str(each.domain)))
    outputs = tuple(str(value.name) for value in loaded.graph.outputs)
    return Graph(tuple(nodes), constants, values, tuple(inputs), outputs, int(loaded.opset_imports.get("", 1)))


class _Folder:
    """Takes nodes one by one: computes those that are constant, infers the sizes of the rest."""

    def __init__(
        self, constants: dict[str, Array], values: dict[str, Tensor], opsets: Mapping[str, int], ir_version: int
    ) -> None:
        self.constants = constants
        self.values = values
        self.opsets = opsets
        self.ir_version = ir_version
        self.names: set[str] = set()

    def take(self, source: Any) -> Iterator[Node]:
        import onnx_ir as ir

        inputs = tuple("" if value is None else str(value.name) for value in source.inputs)
        outputs = tuple(str(value.name or "") for value in source.outputs)
        # Names are for people, and files may leave them out or use one twice; the names of values are unique.
        name = str(source.name or outputs[0])
        name = outputs[0] if name in self.names else name
        self.names.add(name)
        node = Node(name, source.op_type, inputs, outputs, _attributes(source), str(source.domain))
        if node.operator == "Identity" and inputs[0] in self.constants:
            self.constants[outputs[0]] = self.constants[inputs[0]]
            return
        if node.operator == "Shape" and (shape := self._shape_of(inputs[0])) is not None:
            start, end = node.attributes.get("start", 0), node.attributes.get("end")
            self.constants[outputs[0]] = np.array(shape, np.int64)[slice(start, end)]
            return
        proto = ir.to_proto(source)
        if self._foldable(node, proto):
            self._fold(node, proto)
            return
        self._infer(node, proto)
        yield node

    def _shape_of(self, name: str) -> tuple[int, ...] | None:
        if name in self.constants:
            return tuple(self.constants[name].shape)
        shape = self.values[name].shape if name in self.values else None
        if shape is None or not all(isinstance(size, int) for size in shape):
            return None
        return tuple(size for size in shape if isinstance(size, int))

    def _foldable(self, node: Node, proto: Any) -> bool:
        if node.domain or node.operator in _NEVER_FOLDED or node.operator in _RANDOM:
            return False
        if nested(node):
            return False
        if not all(name in self.constants for name in node.inputs if name):
            return False
        # Something small can ask for something huge: ConstantOfShape, Expand, Tile, Range.
        if node.operator == "Range":
            start, limit, step = (float(self.constants[name]) for name in node.inputs)
            return step != 0 and abs(limit - start) <= _LARGEST_FOLDED * abs(step)
        self._infer(node, proto)
        made = [self.values.pop(name).shape for name in node.outputs if name]
        return all(
            math.prod(size for size in shape or () if isinstance(size, int)) <= _LARGEST_FOLDED for shape in made
        )

    def _fold(self, node: Node, proto: Any) -> None:
        from onnx.reference import ReferenceEvaluator

        one = self._one_node(node, proto, {})
        feeds = {name: self.constants[name] for name in node.inputs if name}
        try:
            answers = ReferenceEvaluator(one).run(None, feeds)
        except Exception as error:  # noqa: BLE001  the evaluator throws anything at all
            raise Unsupported(f"the constant {node.name!r} ({node.operator}) cannot be computed: {error}") from None
        for name, answer in zip((name for name in node.outputs if name), answers, strict=True):
            self.constants[name] = np.asarray(answer)

    def _infer(self, node: Node, proto: Any) -> None:
        """Types and sizes of the outputs, by ONNX's own rules for this one node."""
        import onnx

        telling = {
            name: self.constants[name]
            for name in node.inputs
            if name in self.constants and self.constants[name].size <= _TELLING_ELEMENTS
        }
        one = self._one_node(node, proto, telling)
        try:
            inferred = onnx.shape_inference.infer_shapes(one, strict_mode=True, data_prop=True)
            found = {value.name: value for value in inferred.graph.output}
        except onnx.shape_inference.InferenceError:
            found = {}
        for name in node.outputs:
            if name and node.operator in _LIKE_FIRST and node.inputs[0] in self.values:
                self.values[name] = replace(self.values[node.inputs[0]], name=name)
            elif name:
                self.values[name] = _tensor(name, found.get(name))

    def _one_node(self, node: Node, proto: Any, telling: Mapping[str, Array]) -> Any:
        from onnx import helper, numpy_helper

        inputs = []
        for name in dict.fromkeys(name for name in node.inputs if name):
            if name in self.constants:
                array = self.constants[name]
                inputs.append(helper.make_tensor_value_info(name, _code(array.dtype.name), array.shape))
            elif name in self.values:
                value = self.values[name]
                inputs.append(helper.make_tensor_value_info(name, _code(value.dtype), value.shape))
            else:
                raise InputError(f"{node.name!r} ({node.operator}) needs {name!r}, which nothing makes")
        outputs = [helper.make_empty_tensor_value_info(name) for name in node.outputs if name]
        weights = [numpy_helper.from_array(array, name) for name, array in telling.items()]
        opsets = [helper.make_opsetid(domain, version) for domain, version in self.opsets.items()]
        made = helper.make_graph([proto], "one", inputs, outputs, weights)
        return helper.make_model(made, opset_imports=opsets, ir_version=self.ir_version)


class _Subgraph:
    """Stands for a graph inside an attribute (If, Loop, Scan), which nobody here looks into."""


def nested(node: Node) -> bool:
    """Whether there are graphs inside the node."""
    return any(isinstance(value, _Subgraph) for value in node.attributes.values())


def _attributes(node: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, attribute in node.attributes.items():
        kind, value = attribute.type.name, attribute.value
        if kind == "TENSOR":
            found[name] = value.numpy()
        elif kind in ("GRAPH", "GRAPHS"):
            found[name] = _Subgraph()
        elif isinstance(value, Sequence) and not isinstance(value, str | bytes):
            found[name] = list(value)
        else:
            found[name] = value
    return found


def _code(dtype: str) -> int:
    """ONNX's number for a type; 0, which it takes for unknown, where it has none."""
    from onnx import TensorProto

    names = {"float32": "FLOAT", "float64": "DOUBLE", "str": "STRING", "object": "STRING"}
    return int(getattr(TensorProto, names.get(dtype, dtype.upper()), 0))


def _tensor(name: str, value: Any) -> Tensor:
    if value is None:
        return Tensor(name, "unknown", None)
    from onnx import TensorProto

    kind = value.type.tensor_type
    dtype = TensorProto.DataType.Name(kind.elem_type).lower() if kind.elem_type else "unknown"
    dtype = {"float": "float32", "double": "float64"}.get(dtype, dtype)
    shape = tuple(dim.dim_value if dim.HasField("dim_value") else None for dim in kind.shape.dim)
    return Tensor(name, dtype, shape if kind.HasField("shape") else None)


def _needed(nodes: Sequence[Node], outputs: Sequence[str]) -> list[Node]:
    """Those that an output depends on; what folding left without a use is gone."""
    wanted = set(outputs)
    kept: list[Node] = []
    for node in reversed(nodes):
        if wanted.intersection(node.outputs):
            kept.append(node)
            wanted.update(node.inputs)
    return kept[::-1]


def fixed(model: Model, shapes: Mapping[str, Sequence[int]]) -> Model:
    """The record with its input sizes set."""
    inputs = tuple(replace(t, shape=tuple(shapes[t.name])) if t.name in shapes else t for t in model.inputs)
    return replace(model, inputs=inputs)
