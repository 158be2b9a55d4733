"""Quantization of a model's file.

`form=static`: 8 bits as QDQ, unsigned activations, signed weights per channel, ranges from calibration inputs (see
`static`). ONNX Runtime's and OpenVINO's int8 kernels both fuse this form. On x86 without VNNI, products of 8-bit
numbers saturate in 16 bits, so weights are held to 7 bits there.

`form=dynamic`: the weights of matrix products in 8 bits, what they are multiplied with quantized as it comes
(DynamicQuantizeLinear, MatMulInteger); for transformers, whose activations no fixed range fits. ONNX Runtime and
OpenVINO run it. LiteRT has no operator for it, MNN runs 8 bits only where scales are known beforehand, ncnn and torch
run no quantized file at all: they say so before they load it.

`precision=fp16`: weights and values in 16-bit floats, inputs and outputs as they were. ONNX Runtime runs it on a CPU by
widening, OpenVINO as it is; MNN and LiteRT refuse it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ...core.errors import InputError, Unsupported
from ...core.types import Model, Tensor
from ...data import arrays
from ...model.feeds import feeds
from ...model.files import files
from ...model.load import inspect
from . import static
from .options import PLAIN, Quantizing, quantizing

# QDQ per channel needs 13; 17 is what every engine here reads.
_OPSET = 17
# Made-up inputs: few for their extent, more where they are counted.
_SEEDED_RUNS, _SEEDED_SAMPLES = 8, 64
# Of given ones, no more are used: ranges have settled by then.
_MOST_SAMPLES = 256
_FORM = "numpy.savez(path, INPUT=array[n, ...])"


def quantize(
    model: Model,
    calibration: Mapping[str, np.ndarray[Any, Any]],
    path: str,
    *,
    vnni: bool,
    options: Quantizing = PLAIN,
) -> Model:
    """Write the quantized `model` to `path`. Each calibration array holds one input's values, run by run; what needs no
    ranges needs none of them."""
    import onnxruntime

    if model.precision in ("int8", options.precision):
        raise InputError(f"{model.label} is quantized already")
    if model.precision != "fp32" and not options.plain:
        raise Unsupported(f"{model.label} is {model.precision}: quantize with options starts from fp32", "quantize")
    if not any(tensor.dtype == "float32" for tensor in model.inputs):
        raise Unsupported(f"{model.label} has no float32 input, so there is nothing to quantize from")
    onnxruntime.set_default_logger_severity(3)
    target = Path(path)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        prepared, quantized = Path(folder) / "prepared.onnx", Path(folder) / "quantized.onnx"
        if options.precision == "fp16":
            _halve(model, quantized)
        else:
            prepare(model, prepared)
            _to_int8(model, prepared, quantized, calibration, vnni, options)
        quantized.replace(target)
    made = inspect(path)
    if made.precision != options.precision:
        raise Unsupported(f"{model.label} has no operator that could be quantized")
    return Model(
        made.digest, made.path, made.inputs, made.outputs, made.precision, str(options), model.digest, model.label
    )


def _to_int8(
    model: Model,
    prepared: Path,
    quantized: Path,
    calibration: Mapping[str, np.ndarray[Any, Any]],
    vnni: bool,
    options: Quantizing,
) -> None:
    if options.form == "dynamic":
        _dynamic(prepared, quantized, vnni)
        return
    if options.plain:
        count = min(len(values) for values in calibration.values())
        static.write(prepared, quantized, [{n: calibration[n][i] for n in calibration} for i in range(count)], vnni)
        return
    batches = {values.shape[1] if values.ndim > 1 else 0 for values in calibration.values()}
    if len(batches) > 1 or 0 in batches:
        raise Unsupported(
            f"not every input of {model.label} has samples along its first axis, as quantize with options needs",
            "quantize",
        )
    samples = {name: values.reshape(-1, *values.shape[2:]) for name, values in calibration.items()}
    static.refine(prepared, quantized, samples, vnni, options)


def _dynamic(prepared: Path, quantized: Path, vnni: bool) -> None:
    from onnxruntime.quantization import QuantType, quantize_dynamic

    quantize_dynamic(
        str(prepared),
        str(quantized),
        op_types_to_quantize=["MatMul", "Gemm"],
        per_channel=True,
        reduce_range=not vnni,
        weight_type=QuantType.QInt8,
    )


def _halve(model: Model, path: Path) -> None:
    import onnx
    import onnx_ir as ir
    from onnxruntime.transformers.float16 import convert_float_to_float16

    made = ir.from_proto(convert_float_to_float16(onnx.load(model.path), keep_io_types=True))
    made.graph.sort()  # casts of inputs were put last
    ir.save(made, str(path))


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
    source = model.path
    if len(files(source)) > 1:
        # The file that is written would look for the weights beside itself.
        source = str(path.with_name(f"{path.stem}-whole.onnx"))
        onnx.save(onnx.load(model.path), source)
    onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
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
    given: Mapping[str, str] | None = None,
) -> Model:
    """`quantize` with JSON arguments: calibration inputs from an .npz file, or seeded noise where there is none; of the
    options, those `given`."""
    from ...core.records import from_json

    subject, options = from_json(Model, model), quantizing(given or {})
    sizes = {name: tuple(shape) for name, shape in shapes.items()}
    runs: dict[str, np.ndarray[Any, Any]] = {}
    if options.calibrated:
        count = _SEEDED_RUNS if options.plain else _SEEDED_SAMPLES
        runs = _stored(subject, calibration) if calibration else _seeded(subject, sizes, seed, count)
    return quantize(subject, runs, path, vnni=vnni, options=options)


def _seeded(
    model: Model, sizes: Mapping[str, tuple[int, ...]], seed: int, count: int
) -> dict[str, np.ndarray[Any, Any]]:
    # Other seeds than the one measured with: what is measured must not have been calibrated on.
    runs = [feeds(model, sizes, seed + 1 + i) for i in range(count)]
    return {name: np.stack([run[name] for run in runs]) for name in runs[0]}


def _stored(model: Model, path: str) -> dict[str, np.ndarray[Any, Any]]:
    """One array per input, its first axis the samples; they are fed one by one, or as many as a fixed batch takes."""
    there = arrays.names(path, _FORM)
    missing = [tensor.name for tensor in model.inputs if tensor.name not in there]
    if missing:
        raise InputError(f"{path} has {', '.join(sorted(there)) or 'no arrays'}, and lacks the input {missing[0]!r}")
    return {tensor.name: _batches(tensor, arrays.member(path, tensor.name, _FORM), path) for tensor in model.inputs}


def _batches(tensor: Tensor, samples: np.ndarray[Any, Any], path: str) -> np.ndarray[Any, Any]:
    """Runs of whole batches. The last is filled up from the first samples: what was seen twice widens no range. Of very
    many samples, some from all over."""
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
    if len(samples) > _MOST_SAMPLES:
        samples = samples[np.linspace(0, len(samples) - 1, _MOST_SAMPLES).round().astype(int)]
    each = batch if isinstance(batch, int) else 1
    runs = -(-len(samples) // each)
    if runs * each > len(samples):
        samples = samples[np.arange(runs * each) % len(samples)]
    return samples.reshape(runs, each, *samples.shape[1:]).astype(tensor.dtype)
