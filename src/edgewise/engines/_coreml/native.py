"""Models in Core ML's own formats, through coremltools: described anywhere, run on macOS.

An .mlpackage is a folder, an .mlmodel a file.
"""

from __future__ import annotations

import hashlib
import platform
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ...core.errors import EngineFailure, InputError
from ...core.protocols import Array, Feeds, Outputs
from ...core.types import Model, Ran, Tensor
from .._target import check_feeds

# Of ArrayFeatureType.ArrayDataType, by its names.
_DTYPES = {"FLOAT32": "float32", "FLOAT16": "float16", "DOUBLE": "float64", "INT32": "int32", "INT8": "int8"}
_FLOATS = {"FLOAT32": "fp32", "FLOAT16": "fp16"}
_UNITS = {"MLCPUComputeDevice": "CPU", "MLGPUComputeDevice": "GPU", "MLNeuralEngineComputeDevice": "Neural Engine"}
CHOICE = "Core ML chooses the unit of each operator by itself, and does not say which"
# The first macOS that says beforehand where operators will run.
_PLANS = (14, 4)


def inspect(path: str) -> Model:
    spec = _spec(path)
    about = spec.description
    # With several functions, each is described apart, and Core ML runs the default one.
    about = next((each for each in about.functions if each.name == about.defaultFunctionName), about)
    return Model(
        digest=_digest(Path(path)),
        path=str(Path(path).resolve()),
        inputs=tuple(_tensor(feature) for feature in about.input),
        outputs=tuple(_tensor(feature) for feature in about.output),
        precision=_precision(spec),
        label=Path(path).stem,
    )


def form_of(path: str) -> str:
    """mlprogram, whose operators are typed, or neuralnetwork, as everything untyped is counted."""
    return "mlprogram" if _spec(path).WhichOneof("Type") == "mlProgram" else "neuralnetwork"


def _spec(path: str) -> Any:
    import coremltools
    from google.protobuf.message import DecodeError

    if not Path(path).exists():
        raise InputError(f"there is no file {path}")
    try:
        spec = coremltools.utils.load_spec(path)
    except (DecodeError, OSError, RuntimeError) as error:
        raise InputError(f"{Path(path).name} is not a valid Core ML model: {error}") from None
    if not spec.description.output and not spec.description.functions:
        raise InputError(f"{Path(path).name} has no outputs, so there is nothing to run")
    return spec


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    files = sorted(each for each in path.rglob("*") if each.is_file()) if path.is_dir() else [path]
    for file in files:
        digest.update(str(file.relative_to(path)).encode())
        with file.open("rb") as stream:
            digest.update(hashlib.file_digest(stream, "sha256").digest())
    return digest.hexdigest()[:32]


def _tensor(feature: Any) -> Tensor:
    kind = feature.type.WhichOneof("Type")
    if kind != "multiArrayType":
        what = (kind or "nothing").removesuffix("Type")
        raise InputError(f"{feature.name!r} is of type {what}, and only arrays can be fed and compared")
    array = feature.type.multiArrayType
    dtype = _DTYPES.get(array.ArrayDataType.Name(array.dataType), "unknown")
    return Tensor(feature.name, dtype, tuple(_sizes(array)) or None)


def _sizes(array: Any) -> Iterator[int | None]:
    """A dimension that may vary, in a range or between listed shapes, is open."""
    if array.WhichOneof("ShapeFlexibility") == "shapeRange":
        for size in array.shapeRange.sizeRanges:
            yield size.lowerBound if size.lowerBound == size.upperBound else None
    elif array.WhichOneof("ShapeFlexibility") == "enumeratedShapes":
        for sizes in zip(*(each.shape for each in array.enumeratedShapes.shapes), strict=True):
            yield sizes[0] if len(set(sizes)) == 1 else None
    else:
        yield from array.shape


def _precision(spec: Any) -> str:
    """What most operators of a program are written in; the untyped formats store fp32."""
    from coremltools.proto import MIL_pb2

    kinds: Counter[str] = Counter()
    for function in spec.mlProgram.functions.values():
        for block in function.block_specializations.values():
            for operation in block.operations:
                if operation.type == "quantize":
                    return "int8"
                if operation.type not in ("const", "cast") and operation.outputs:
                    kind = MIL_pb2.DataType.Name(operation.outputs[0].type.tensorType.dataType)
                    kinds[_FLOATS.get(kind, "")] += 1
    del kinds[""]
    return kinds.most_common(1)[0][0] if kinds else "fp32"


class Native:
    def __init__(
        self, model: Model, device: str, precision: str, *, typed: bool, strategy: str, low_sums: bool
    ) -> None:
        import coremltools

        self._model, self._device, self._precision, self._typed = model, device, precision, typed
        self._units = getattr(coremltools.ComputeUnit, device.upper())
        hints = {
            "specializationStrategy": getattr(coremltools.SpecializationStrategy, strategy),
            "allowLowPrecisionAccumulationOnGPU": low_sums,
        }
        self._network: Any = coremltools.models.MLModel(model.path, compute_units=self._units, optimization_hints=hints)
        self._checked: list[Array] = []

    def run(self, feeds: Feeds) -> Outputs:
        if self._network is None:
            raise InputError("this executable is closed")
        if [id(array) for array in feeds.values()] != [id(array) for array in self._checked]:
            check_feeds(self._model.inputs, feeds)
            self._checked = list(feeds.values())
        try:
            # It writes into the dictionary it is given.
            answers = self._network.predict(dict(feeds))
        except Exception as error:
            raise EngineFailure(f"Core ML failed to run {self._model.label}: {error}") from error
        return {tensor.name: np.array(answers[tensor.name], tensor.dtype) for tensor in self._model.outputs}

    def ran(self) -> Ran:
        units = self._plan()
        if not units:
            return Ran((self._device,), ((self._precision, 1),), (CHOICE,))
        notes = tuple(f"{count} operators planned on the {unit}" for unit, count in units.most_common())
        return Ran(tuple(sorted(units)), ((self._precision, units.total()),), notes)

    def _plan(self) -> Counter[str]:
        """Core ML's own plan: how many operators on which unit; empty where it makes none."""
        here = tuple(int(part) for part in platform.mac_ver()[0].split(".")[:2])
        if here < _PLANS or not self._typed:
            return Counter()
        from coremltools.models.compute_plan import MLComputePlan

        return planned(MLComputePlan.load_from_path(self._network.get_compiled_model_path(), self._units))

    def close(self) -> None:
        self._network = None


def planned(plan: Any) -> Counter[str]:
    """Operators by unit, of a coremltools MLComputePlan; constants have no place."""
    used = (
        plan.get_compute_device_usage_for_mlprogram_operation(operation)
        for operation in plan.model_structure.program.functions["main"].block.operations
    )
    names = (type(each.preferred_compute_device).__name__ for each in used if each is not None)
    return Counter(_UNITS.get(name, name) for name in names)
