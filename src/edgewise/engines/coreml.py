"""Core ML, on macOS: an .onnx file through ONNX Runtime's CoreMLExecutionProvider, its own files through coremltools.

A device is a set of units that Core ML may choose from, operator by operator. An ML program computes in the type it is
written in: fp32 on CPU and GPU, fp16 on the Neural Engine too, which has nothing else. A neural network is untyped:
fp32 where the CPU is alone, else what the unit likes, which is fp16. So that is what the two are called here, and an
fp32 ONNX model becomes a neural network when fp16 is asked for. The CPU alone is for fp32.

Options, for both: strategy=default|fast (more time to compile, less to run), accumulate=fp32|fp16 (sums on the GPU).
For .onnx: format=mlprogram|neuralnetwork, static=on|off (leave operators of unknown size to the CPU), subgraphs=on|off
(take operators inside If and Loop), cache=FOLDER (keep compiled models there).
"""

from __future__ import annotations

import platform
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed
from pathlib import Path

from ..core.errors import InputError, Unavailable, Unsupported
from ..core.protocols import Executable
from ..core.types import Device, Model, Ran, Target, Verdict
from ._coreml.native import CHOICE, Native, form_of, inspect
from ._ort import session
from ._ort.session import Session, placed
from ._ort.support import verdicts
from ._target import ON_OFF, check_options, choose, pick

__all__ = ["devices", "inspect", "load", "support", "version"]

PACKAGE, EXTRA = "coremltools", "coreml"
READS = (".onnx", ".mlpackage", ".mlmodel")
_OF_ONNX = ("format", "static", "subgraphs", "cache")
OPTIONS = ("strategy", "accumulate", *_OF_ONNX)

EP = "CoreMLExecutionProvider"
# device -> what ONNX Runtime calls it; coremltools has our name in capitals.
_UNITS = {
    "all": "ALL",
    "cpu_and_gpu": "CPUAndGPU",
    "cpu_only": "CPUOnly",
    "cpu_and_ne": "CPUAndNeuralEngine",
}
_FORMATS = {"mlprogram": "MLProgram", "neuralnetwork": "NeuralNetwork"}
_STRATEGIES = {"default": "Default", "fast": "FastPrediction"}
_SUMS = {"fp32": False, "fp16": True}


def version() -> str:
    _needs_macos()
    found = f"{platform.mac_ver()[0]}, onnxruntime {session.version()}"
    try:
        return f"{found}, coremltools {installed(PACKAGE)}"
    except PackageNotFoundError:  # .onnx files do without
        return found


def devices() -> Sequence[Device]:
    _needs_macos()
    return units(neural_engine=platform.machine() == "arm64")


def units(neural_engine: bool) -> tuple[Device, ...]:
    """What Core ML may be told to use. Only Apple's own processors have a Neural Engine."""
    both = ("fp32", "fp16")
    every = "CPU, GPU and Neural Engine" if neural_engine else "CPU and GPU"
    found = [
        Device("all", "npu" if neural_engine else "gpu", f"{every}, as Core ML chooses", precisions=both),
        Device("cpu_and_gpu", "gpu", "GPU, and the CPU for the rest", precisions=both),
        # Not of the kind "cpu": Core ML takes no number of threads, and its processes sit on no cores.
        Device("cpu_only", "npu", "CPU alone", precisions=("fp32",)),
    ]
    if neural_engine:
        found.append(Device("cpu_and_ne", "npu", "Neural Engine, and the CPU for the rest", precisions=("fp16",)))
    return tuple(found)


def _needs_macos() -> None:
    if sys.platform != "darwin":
        raise Unavailable(f"Core ML exists on macOS only, and this is {platform.system()}")


def load(model: Model, target: Target) -> Executable:
    device = _device(target)
    if not _onnx(model):
        return _native(model, target, device)
    form = format_of(model, target, device)
    precision = precision_of(form, model.precision, device.name)
    return OnCoreML(model, target, ep_settings(target, device.name, form), sizes(model), precision)


def _native(model: Model, target: Target, device: Device) -> Executable:
    for key in _OF_ONNX:
        if target.option(key):
            raise InputError(f"{key}= is for .onnx files, and {model.label} is in a format of Core ML's own")
    form = form_of(model.path)
    precision = precision_of(form, model.precision, device.name)
    check_precision(precision, target, device, f"{model.label}, a {form},")
    strategy = str(choose(target, "strategy", _STRATEGIES, "default"))
    low_sums = bool(choose(target, "accumulate", _SUMS, "fp32"))
    return Native(model, device.name, precision, typed=form == "mlprogram", strategy=strategy, low_sums=low_sums)


def support(model: Model, target: Target) -> Sequence[Verdict]:
    """Falling back means that ONNX Runtime's own CPU operators run it."""
    device = _device(target)
    if not _onnx(model):
        raise Unsupported("Core ML runs all of a model in its own format, or none of it")
    settings = ep_settings(target, device.name, format_of(model, target, device))
    return verdicts(model, target, _ep(), settings, device.name, sizes(model))


def _device(target: Target) -> Device:
    _needs_macos()
    check_options("coreml", target, OPTIONS)
    # macOS pins to no cores: cpu_only.p is cpu_only.
    return pick("coreml", devices(), replace(target, device=(target.device or "all").partition(".")[0]))


def _onnx(model: Model) -> bool:
    return Path(model.path).suffix not in READS[1:]


def _ep() -> str:
    if EP not in session.offered():
        raise Unavailable(f"the installed onnxruntime has no {EP}", "pip install --force-reinstall onnxruntime")
    return EP


def format_of(model: Model, target: Target, device: Device) -> str:
    """The Core ML format an ONNX model becomes; refused where that does not run in the precision asked for."""
    if model.precision not in ("fp32", "fp16"):
        raise Unsupported(f"Core ML takes fp32 and fp16 models, and {model.label} is {model.precision}")
    half = target.precision == "fp16" or "fp32" not in device.precisions
    lowered = half and model.precision == "fp32"
    form = target.option("format") or ("neuralnetwork" if lowered else "mlprogram")
    choose(target, "format", _FORMATS, form)
    if form == "neuralnetwork" and model.precision == "fp16":
        raise Unsupported(f"a neural network has no fp16 tensors, and {model.label} has", "use {format=mlprogram}")
    check_precision(precision_of(form, model.precision, device.name), target, device, f"{model.label}, as {form},")
    return form


def precision_of(form: str, stored: str, device: str) -> str:
    """What Core ML computes in: by the type of the program, or, where there is none, by the unit."""
    if form == "mlprogram":
        return stored
    return "fp32" if device == "cpu_only" else "fp16"


def check_precision(found: str, target: Target, device: Device, what: str) -> None:
    if found == "fp32" and "fp32" not in device.precisions:
        raise Unsupported(f"the Neural Engine computes in fp16 only, so {what} would run on the CPU alone")
    if found not in device.precisions or target.precision not in (None, found):
        wanted = target.precision or " or ".join(device.precisions)
        raise Unsupported(f"Core ML runs {what} in {found} on {device.name}, not in {wanted}")


def ep_settings(target: Target, device: str, form: str) -> dict[str, str]:
    """A target in the words of ONNX Runtime's execution provider; what the target leaves open is left to it."""
    settings = {"MLComputeUnits": _UNITS[device], "ModelFormat": _FORMATS[form]}
    if target.option("strategy"):
        settings["SpecializationStrategy"] = str(choose(target, "strategy", _STRATEGIES, "default"))
    switches: tuple[tuple[str, Mapping[str, object], str], ...] = (
        ("accumulate", _SUMS, "AllowLowPrecisionAccumulationOnGPU"),
        ("static", ON_OFF, "RequireStaticInputShapes"),
        ("subgraphs", ON_OFF, "EnableOnSubgraphs"),
    )
    for option, choices, key in switches:
        if target.option(option):
            settings[key] = "1" if choose(target, option, choices, "") else "0"
    if folder := target.option("cache"):
        settings["ModelCacheDirectory"] = folder
    return settings


def sizes(model: Model) -> dict[str, int]:
    """Numbers for the symbolic dimensions of an ONNX file, from the sizes of the record: Core ML likes none open."""
    import onnx

    known = {tensor.name: tensor.shape or () for tensor in model.inputs}
    found: dict[str, int] = {}
    for value in onnx.load(model.path, load_external_data=False).graph.input:
        for dim, size in zip(value.type.tensor_type.shape.dim, known.get(value.name, ()), strict=False):
            if dim.dim_param and isinstance(size, int):
                found[dim.dim_param] = size
    return found


class OnCoreML(Session):
    """Refused where Core ML takes nothing: that would be onnxruntime's CPU under another name."""

    def __init__(
        self, model: Model, target: Target, settings: Mapping[str, str], known: Mapping[str, int], precision: str
    ) -> None:
        super().__init__(model, target, _ep(), settings, known)
        self._precision = precision
        if not self._taken():
            raise Unsupported(f"Core ML takes no operator of {model.label}: all would run on onnxruntime's CPU")

    def _taken(self) -> int:
        return sum(name == EP for name, _ in placed(self._session))

    def ran(self) -> Ran:
        told = super().ran()
        taken = self._taken()
        shares = Counter({self._precision: taken})
        shares[self._model.precision] += sum(count for _, count in told.precisions) - taken
        precisions = tuple((name, count) for name, count in sorted(shares.items()) if count)
        return replace(told, precisions=precisions, notes=(*told.notes, CHOICE))
