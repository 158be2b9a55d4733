"""The flatbuffer of a .tflite file: tensors, their bytes, operators. What they mean is not its business."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from copy import copy as shallow
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ...core.errors import Unsupported
from ...core.protocols import Array

# What 32-bit offsets can reach.
_LARGEST_BYTES = (1 << 31) - (1 << 20)
# Kernels load weights in vectors; the format promises them this alignment.
_ALIGNMENT = 16
# Equal constants up to this size (shapes, paddings, axes) are stored once.
_SHARED_BYTES = 1024
# A file asks for the lowest version of an operator that will do; of all but these that is 1.
_FIRST_VERSIONS = {"BROADCAST_TO": 2}
# Operators that never write over their inputs.
_OWN_MEMORY = (
    "CONV_2D", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV", "FULLY_CONNECTED", "BATCH_MATMUL", "TRANSPOSE", "CONCATENATION",
    "MAX_POOL_2D", "AVERAGE_POOL_2D", "MEAN", "PAD", "QUANTIZE", "DEQUANTIZE",
)  # fmt: skip
_DTYPES = ("float32", "float64", "int8", "uint8", "int16", "int32", "int64", "uint32", "uint64", "bool")


@dataclass(frozen=True, slots=True)
class Quant:
    """real = scale × (stored − zero); several scales go along `axis`."""

    scales: tuple[float, ...]
    zeros: tuple[int, ...]
    axis: int = 0


@dataclass(frozen=True, slots=True)
class Slot:
    """A tensor of the file, in the order of axes in which it lies in memory."""

    index: int
    shape: tuple[int, ...]
    dtype: str
    quant: Quant | None = None


class File:
    """Collects tensors and operators, then writes them."""

    def __init__(self) -> None:
        from ai_edge_litert import schema_py_generated as schema

        self._schema: Any = schema
        self._tensors: list[Any] = []
        self._slots: list[Slot] = []
        self._arrays: list[Array | None] = [None]  # the first buffer is empty, by convention
        self._operators: list[tuple[str, Any]] = []
        self._codes: dict[str, int] = {}
        self._shared: dict[tuple[object, ...], Slot] = {}
        self._constants: set[int] = set()

    def tensor(self, name: str, shape: Sequence[int], dtype: str, quant: Quant | None = None) -> Slot:
        return self._add(name, tuple(int(size) for size in shape), dtype, quant, 0)

    def constant(self, name: str, array: Array, quant: Quant | None = None) -> Slot:
        key = (array.dtype.name, array.shape, quant, array.tobytes() if array.nbytes <= _SHARED_BYTES else id(array))
        if key not in self._shared:
            self._arrays.append(array)  # which also keeps the id above from being used again
            self._shared[key] = self._add(name, array.shape, array.dtype.name, quant, len(self._arrays) - 1)
            self._constants.add(self._shared[key].index)
        return self._shared[key]

    def is_constant(self, slot: Slot) -> bool:
        return slot.index in self._constants

    def rename(self, slot: Slot, name: str) -> None:
        self._tensors[slot.index].name = name

    def _add(self, name: str, shape: tuple[int, ...], dtype: str, quant: Quant | None, buffer: int) -> Slot:
        if dtype not in _DTYPES:
            raise Unsupported(f"litert has no {dtype} arithmetic, and {name!r} is {dtype}")
        tensor = self._schema.TensorT()
        tensor.name, tensor.buffer, tensor.hasRank = name, buffer, True
        tensor.shape = np.array(shape, np.int32)
        tensor.type = getattr(self._schema.TensorType, dtype.upper())
        if quant is not None:
            parameters = self._schema.QuantizationParametersT()
            parameters.scale = np.array(quant.scales, np.float32)
            parameters.zeroPoint = np.array(quant.zeros, np.int64)
            parameters.quantizedDimension = quant.axis
            tensor.quantization = parameters
        self._tensors.append(tensor)
        self._slots.append(Slot(len(self._tensors) - 1, shape, dtype, quant))
        return self._slots[-1]

    def operator(
        self, kind: str, inputs: Sequence[Slot | None], outputs: Sequence[Slot], options: str = "", **fields: object
    ) -> None:
        """`options` is the name of the table of its parameters, such as Conv2D; `fields` are what is set in it."""
        operator = self._schema.OperatorT()
        operator.opcodeIndex = self._codes.setdefault(kind, len(self._codes))
        operator.inputs = np.array([-1 if slot is None else slot.index for slot in inputs], np.int32)
        operator.outputs = np.array([slot.index for slot in outputs], np.int32)
        if options:
            table = getattr(self._schema, f"{options}OptionsT")()
            for field, value in fields.items():
                if not hasattr(table, field):
                    raise AttributeError(f"{options}Options has no field {field}")
                setattr(table, field, value)
            operator.builtinOptions = table
            operator.builtinOptionsType = getattr(self._schema.BuiltinOptions, f"{options}Options")
        self._operators.append((kind, operator))

    def _keep_views_apart(self, outputs: Sequence[tuple[str, Slot]]) -> None:
        """A copy before each RESHAPE whose input is read elsewhere too.

        RESHAPE only gives the same memory another shape. LiteRT forgets the other readers where that memory is
        also shared with what it was computed from, and lets what follows overwrite it.
        """
        makers = {int(i): kind for kind, operator in self._operators for i in operator.outputs}
        readers = Counter(int(i) for _, operator in self._operators for i in operator.inputs)
        readers.update(slot.index for _, slot in outputs)
        for kind, view in list(self._operators):
            source = int(view.inputs[0])
            if kind == "RESHAPE" and readers[source] > 1 and makers.get(source, _OWN_MEMORY[0]) not in _OWN_MEMORY:
                tensor = self._tensors[source]
                copy = replace(self._slots[source], index=len(self._tensors))
                self._tensors.append(shallow(tensor))
                self._tensors[-1].name = f"{tensor.name}/copy"
                self._slots.append(copy)
                place = next(i for i, (_, operator) in enumerate(self._operators) if operator is view)
                order = self.constant("order", np.arange(len(copy.shape), dtype=np.int32))
                self.operator("TRANSPOSE", [self._slots[source], order], [copy], "Transpose")
                self._operators.insert(place, self._operators.pop())
                view.inputs[0] = copy.index

    def type_code(self, dtype: str) -> int:
        return int(getattr(self._schema.TensorType, dtype.upper()))

    def write(self, path: Path, inputs: Sequence[tuple[str, Slot]], outputs: Sequence[tuple[str, Slot]]) -> None:
        import flatbuffers

        self._keep_views_apart(outputs)
        total = sum(array.nbytes + 64 for array in self._arrays if array is not None)
        if total > _LARGEST_BYTES:
            raise Unsupported(f"a .tflite file holds 2 GB at most, and these weights are {total / 1e9:.1f} GB")
        # Room for everything at once: growing would copy the weights again and again.
        builder = flatbuffers.Builder(total + 1024 * (len(self._tensors) + len(self._operators) + 1))
        builder.Finish(self._model(inputs, outputs).Pack(builder), b"TFL3")
        with path.open("wb") as file, memoryview(builder.Bytes) as content:
            file.write(content[builder.Head() :])

    def _model(self, inputs: Sequence[tuple[str, Slot]], outputs: Sequence[tuple[str, Slot]]) -> Any:
        schema = self._schema
        graph = schema.SubGraphT()
        graph.name, graph.tensors, graph.operators = "main", self._tensors, [each for _, each in self._operators]
        graph.inputs = np.array([slot.index for _, slot in inputs], np.int32)
        graph.outputs = np.array([slot.index for _, slot in outputs], np.int32)
        signature = schema.SignatureDefT()
        signature.signatureKey, signature.subgraphIndex = "serving_default", 0
        signature.inputs, signature.outputs = self._map(inputs), self._map(outputs)
        model = schema.ModelT()
        model.version, model.description = 3, "edgewise"
        model.subgraphs, model.signatureDefs = [graph], [signature]
        model.buffers = [_Bytes(schema, array) for array in self._arrays]
        model.operatorCodes = []
        for kind in self._codes:
            code = schema.OperatorCodeT()
            code.builtinCode = getattr(schema.BuiltinOperator, kind)
            # Old readers know only this field, which has room for 127 kinds.
            code.deprecatedBuiltinCode = min(code.builtinCode, 127)
            code.version = _FIRST_VERSIONS.get(kind, 1)
            model.operatorCodes.append(code)
        return model

    def _map(self, named: Sequence[tuple[str, Slot]]) -> list[Any]:
        found = []
        for name, slot in named:
            entry = self._schema.TensorMapT()
            entry.name, entry.tensorIndex = name, slot.index
            found.append(entry)
        return found


class _Bytes:
    """A buffer that goes into the file in one copy, aligned; the generated code does neither."""

    def __init__(self, schema: Any, array: Array | None) -> None:
        self._schema = schema
        self._array = array

    def Pack(self, builder: Any) -> Any:
        """Named by what calls it."""
        data = None
        if self._array is not None:
            size = self._array.nbytes
            builder.StartVector(1, size, _ALIGNMENT)
            builder.head -= size
            if size:
                room = np.frombuffer(builder.Bytes, np.uint8, size, builder.head)
                room.view(self._array.dtype).reshape(self._array.shape)[...] = self._array
            data = builder.EndVector()
        self._schema.BufferStart(builder)
        if data is not None:
            self._schema.BufferAddData(builder, data)
        return self._schema.BufferEnd(builder)
