"""A model file to a `Model` record, refusing what is not one.

Parsing and checking run native code on bytes nobody vouches for, so callers do this in a worker.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..core.errors import InputError
from ..core.preprocess import parse_preprocess
from ..core.types import Model, Preprocess, Tensor

_QUANTIZED = (
    "QuantizeLinear",
    "DequantizeLinear",
    "QLinearConv",
    "QLinearMatMul",
    "ConvInteger",
    "MatMulInteger",
)
_FLOATS = {1: "fp32", 10: "fp16", 16: "bf16", 11: "fp64"}  # onnx.TensorProto.DataType
_EXPORT_HINT = "export the model again, or check it with: python -m onnx.checker FILE"


def inspect(path: str) -> Model:
    """Parse, check and describe the ONNX file at `path`."""
    file = Path(path)
    try:
        return _described(file)
    except (ValueError, OSError, RecursionError) as error:
        # Names no file system takes, types no enumeration has: what a hostile file can still make Python say.
        raise InputError(f"{file.name} is not a valid model: {error}", _EXPORT_HINT) from None


def _described(file: Path) -> Model:
    proto = _parse(file)
    external = tuple(external_files(proto, file))
    _check(file)
    initializers = {tensor.name for tensor in proto.graph.initializer}
    initializers |= {tensor.values.name for tensor in proto.graph.sparse_initializer}
    inputs = tuple(_tensor(value) for value in proto.graph.input if value.name not in initializers)
    outputs = tuple(_tensor(value) for value in proto.graph.output)
    for tensor in inputs:
        if tensor.shape is not None and any(isinstance(d, int) and d <= 0 for d in tensor.shape):
            shown = "x".join(str(d) for d in tensor.shape)
            raise InputError(f"input {tensor.name!r} of {file.name} has an empty or negative dimension: {shown}")
    if not outputs:
        raise InputError(f"{file.name} has no outputs, so there is nothing to run")
    said = {prop.key: prop.value for prop in proto.metadata_props}
    return Model(
        digest=_digest(file, external),
        path=str(file.resolve()),
        inputs=inputs,
        outputs=outputs,
        precision=_precision(proto),
        label=file.stem,
        preprocess=_preprocess(said.get("preprocess")),
        data=said.get("data"),
    )


def _preprocess(text: str | None) -> Preprocess | None:
    """What the file says of its images; other programs may use the same key for something else."""
    try:
        return parse_preprocess(text) if text else None
    except InputError:
        return None


def _parse(file: Path) -> Any:
    import onnx
    from google.protobuf.message import DecodeError

    if not file.exists():
        raise InputError(f"there is no file {file}")
    if not file.is_file():
        raise InputError(f"{file} is not a file")
    if file.stat().st_size == 0:
        raise InputError(f"{file} is empty", _EXPORT_HINT)
    try:
        proto = onnx.load(str(file), load_external_data=False)
    except DecodeError as error:
        raise InputError(f"{file} is not an ONNX file, or is cut short ({error})", _EXPORT_HINT) from None
    except PermissionError:
        raise InputError(f"{file} may not be read: permission denied") from None
    if not proto.graph.node and not proto.graph.output:
        raise InputError(f"{file} is not an ONNX file: it holds no graph", _EXPORT_HINT)
    return proto


def _tensors(graph: Any) -> Iterator[Any]:
    """Every constant tensor of a graph and of the graphs inside its nodes."""
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
            if attribute.HasField("g"):
                yield from _tensors(attribute.g)
            for inner in attribute.graphs:
                yield from _tensors(inner)


def external_files(proto: Any, file: Path) -> Iterator[Path]:
    """Files that hold the model's external data: inside its folder, there, and long enough."""
    folder = file.resolve().parent
    seen: set[Path] = set()
    for tensor in _tensors(proto.graph):
        if tensor.data_location != tensor.EXTERNAL:
            continue
        entries = {entry.key: entry.value for entry in tensor.external_data}
        location = entries.get("location", "")
        data = (folder / location).resolve()
        if not location or Path(location).is_absolute() or not data.is_relative_to(folder):
            raise InputError(
                f"tensor {tensor.name!r} of {file.name} wants its data from {location!r}, outside the model's folder",
                "keep external data beside the model, under a relative path",
            )
        if not data.is_file():
            raise InputError(
                f"the external data {location!r} of {file.name} is missing", f"copy {location} to {folder}"
            )
        try:
            offset, length = int(entries.get("offset", "0")), int(entries.get("length", "0"))
        except ValueError:
            raise InputError(f"tensor {tensor.name!r} of {file.name} has a malformed offset or length") from None
        size = data.stat().st_size
        if offset < 0 or length < 0 or offset + length > size:
            raise InputError(
                f"tensor {tensor.name!r} of {file.name} wants bytes {offset} to {offset + length} of {location!r}, "
                f"which has {size}"
            )
        if data not in seen:
            seen.add(data)
            yield data


def _check(file: Path) -> None:
    import onnx

    try:
        onnx.checker.check_model(str(file))
    except (onnx.checker.ValidationError, ValueError, RuntimeError, UnicodeDecodeError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise InputError(f"{file.name} is not a valid model: {reason}", _EXPORT_HINT) from None


def _tensor(value: Any) -> Tensor:
    import onnx

    kind = value.type.tensor_type
    if any(isinstance(name, bytes) for name in (value.name, *(dim.dim_param for dim in kind.shape.dim))):
        raise InputError(f"a name in {value.name!r} is not UTF-8, so it is damaged or was never a name")
    if not value.type.HasField("tensor_type"):
        raise InputError(f"{value.name!r} is not a tensor, and only tensors can be fed and compared")
    dtype = onnx.TensorProto.DataType.Name(kind.elem_type).lower() if kind.elem_type else "unknown"
    shape = None
    if kind.HasField("shape"):
        shape = tuple(dim.dim_value if dim.HasField("dim_value") else (dim.dim_param or None) for dim in kind.shape.dim)
    return Tensor(value.name, {"float": "float32", "double": "float64"}.get(dtype, dtype), shape)


def _precision(proto: Any) -> str:
    """The precision the model asks for by itself: int8 where it is quantized, else that of most of its weights."""
    if any(node.op_type in _QUANTIZED for node in proto.graph.node):
        return "int8"
    sizes: Counter[str] = Counter()
    for tensor in proto.graph.initializer:
        if tensor.data_type in _FLOATS:
            size = 1
            for dim in tensor.dims:
                size *= max(dim, 0)
            sizes[_FLOATS[tensor.data_type]] += size
    precision = sizes.most_common(1)[0][0] if sizes else "fp32"
    return "fp32" if precision == "fp64" else precision


def _digest(file: Path, external: tuple[Path, ...]) -> str:
    digest = hashlib.sha256()
    for part in (file, *external):
        with part.open("rb") as stream:
            while block := stream.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()[:32]
