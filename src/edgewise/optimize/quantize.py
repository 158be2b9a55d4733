"""Static 8-bit quantization as QDQ: unsigned activations, signed weights per channel, ranges from calibration inputs.

ONNX Runtime's and OpenVINO's int8 kernels both fuse this form. On x86 without VNNI, products of 8-bit numbers
saturate in 16 bits, so weights are held to 7 bits there.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..core.errors import InputError, Unsupported
from ..core.types import Model, Tensor
from ..data import arrays
from ..model.feeds import feeds
from ..model.load import inspect

RECIPE = "quantize(precision=int8)"
# QDQ per channel needs 13; 17 is what every engine here reads.
_OPSET = 17
_CALIBRATION_RUNS = 8
_FORM = "numpy.savez(path, INPUT=array[n, ...])"


def quantize(model: Model, calibration: Mapping[str, np.ndarray[Any, Any]], path: str, *, vnni: bool) -> Model:
    """Write the quantized `model` to `path`. Each calibration array holds one input's values, run by run."""
    import onnxruntime
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

    if model.precision == "int8":
        raise InputError(f"{model.label} is quantized already")
    if not any(tensor.dtype == "float32" for tensor in model.inputs):
        raise Unsupported(f"{model.label} has no float32 input, so there is nothing to quantize from")

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            runs = min(len(values) for values in calibration.values())
            self._feeds = iter([{name: calibration[name][i] for name in calibration} for i in range(runs)])

        def get_next(self) -> dict[str, Any] | None:
            return next(self._feeds, None)

    onnxruntime.set_default_logger_severity(3)
    target = Path(path)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        prepared, quantized = Path(folder) / "prepared.onnx", Path(folder) / "quantized.onnx"
        prepare(model, prepared)
        quantize_static(
            str(prepared),
            str(quantized),
            Reader(),
            quant_format=QuantFormat.QDQ,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
            per_channel=True,
            reduce_range=not vnni,
        )
        quantized.replace(target)
    made = inspect(path)
    if made.precision != "int8":
        raise Unsupported(f"{model.label} has no operator that could be quantized")
    return Model(made.digest, made.path, made.inputs, made.outputs, "int8", RECIPE, model.digest, model.label)


def prepare(model: Model, path: Path) -> None:
    """Fold constants and batch normalization, then raise the opset: what quantization needs, nothing engine-bound. The
    names of values are those that the quantized file has too."""
    import onnx
    import onnxruntime
    from onnx import version_converter

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(path)
    onnxruntime.InferenceSession(model.path, options, providers=["CPUExecutionProvider"])
    proto = onnx.load(str(path))
    # Old models list their weights as inputs too; folding takes the weights away and leaves the inputs.
    names = {tensor.name for tensor in model.inputs}
    for value in [value for value in proto.graph.input if value.name not in names]:
        proto.graph.input.remove(value)
    onnx.save(proto, str(path))
    opset = next((entry.version for entry in proto.opset_import if entry.domain in ("", "ai.onnx")), 0)
    if opset < _OPSET:
        # Only from IR 4 on may a weight not be an input as well.
        proto.ir_version = max(proto.ir_version, 8)
        try:
            proto = version_converter.convert_version(proto, _OPSET)
        except Exception as error:
            reason = str(error).strip().splitlines()[0]
            raise Unsupported(f"{model.label} is written for opset {opset} and cannot be raised: {reason}") from error
        onnx.save(proto, str(path))


def quantize_file(
    model: Mapping[str, Any],
    shapes: Mapping[str, list[int]],
    path: str,
    vnni: bool,
    calibration: str | None = None,
    seed: int = 0,
) -> Model:
    """`quantize` with JSON arguments: calibration inputs from an .npz file, or seeded noise where there is none."""
    from ..core.records import from_json

    subject = from_json(Model, model)
    sizes = {name: tuple(shape) for name, shape in shapes.items()}
    runs = _stored(subject, calibration) if calibration else _seeded(subject, sizes, seed)
    return quantize(subject, runs, path, vnni=vnni)


def _seeded(model: Model, sizes: Mapping[str, tuple[int, ...]], seed: int) -> dict[str, np.ndarray[Any, Any]]:
    # Other seeds than the one measured with: what is measured must not have been calibrated on.
    runs = [feeds(model, sizes, seed + 1 + i) for i in range(_CALIBRATION_RUNS)]
    return {name: np.stack([run[name] for run in runs]) for name in runs[0]}


def _stored(model: Model, path: str) -> dict[str, np.ndarray[Any, Any]]:
    """One array per input, its first axis the samples; they are fed one by one, or as many as a fixed batch takes."""
    there = arrays.names(path, _FORM)
    missing = [tensor.name for tensor in model.inputs if tensor.name not in there]
    if missing:
        raise InputError(f"{path} has {', '.join(sorted(there)) or 'no arrays'}, and lacks the input {missing[0]!r}")
    return {tensor.name: _batches(tensor, arrays.member(path, tensor.name, _FORM), path) for tensor in model.inputs}


def _batches(tensor: Tensor, samples: np.ndarray[Any, Any], path: str) -> np.ndarray[Any, Any]:
    """Runs of whole batches. The last is filled up from the first samples: what was seen twice widens no range."""
    found = " x ".join(map(str, samples.shape)) or "a single value"
    if not samples.size or samples.dtype.kind not in "biuf":
        raise InputError(f"{tensor.name!r} of {path} is {samples.dtype} {found}, expected numbers", _FORM)
    batch, *sample = tensor.shape or (None, *samples.shape[1:])
    fits = len(sample) == samples.ndim - 1 and all(
        not isinstance(size, int) or size == given for size, given in zip(sample, samples.shape[1:], strict=True)
    )
    if not fits:
        wanted = " x ".join(("n", *(str(size) for size in sample)))
        raise InputError(f"{tensor.name!r} of {path} is {found}, expected {wanted}", _FORM)
    each = batch if isinstance(batch, int) else 1
    runs = -(-len(samples) // each)
    if runs * each > len(samples):
        samples = samples[np.arange(runs * each) % len(samples)]
    return samples.reshape(runs, each, *samples.shape[1:]).astype(tensor.dtype)
