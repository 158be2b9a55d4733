"""OpenVINO: CPU, GPU, NPU, and the composites AUTO, MULTI and HETERO.

`fp32` is asked for by name, because the default is bf16 on processors that have it. Thread pinning is left off:
two pinned models side by side would sit on the same cores; to pin, name cores in the target.

Options: isa=avx512_core_bf16 and the like (a ceiling for oneDNN's kernels), streams=N, copy=on|off, and any OpenVINO
property in capitals (PERFORMANCE_HINT=LATENCY).

Inputs are lent to the engine anyway. With copy=off its outputs are lent too: they are good until the next run.
"""

from __future__ import annotations

import os
import platform
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from ..core.errors import InputError, Unavailable, Unsupported
from ..core.profile import OpTime, Spans
from ..core.protocols import Array, Executable, Feeds, Outputs, Profiled
from ..core.types import Device, Model, Ran, Target, Verdict
from ._openvino.model import inspect, read, verdicts
from ._target import ON_OFF, check_feeds, check_options, choose, pick, refuse_conversion

__all__ = ["defaults", "devices", "environment", "inspect", "load", "profile", "support", "version"]

PACKAGE = EXTRA = "openvino"
READS = (".onnx", ".xml")

_COMPOSITES = ("auto", "multi", "hetero")
_HINTS = {"fp32": "f32", "fp16": "f16", "bf16": "bf16", "int8": "f32"}
_NAMES = {"f32": "fp32", "f16": "fp16", "bf16": "bf16", "i8": "int8", "u8": "int8"}
OPTIONS = ("isa", "streams", "copy")
_WITHOUT_AMX = "avx512_core_fp16"
# One convolution in bf16, large enough for AMX.
_TRIAL = """
import numpy as np, openvino as ov
from openvino import opset13 as ops
x = ops.parameter([1, 64, 16, 16], np.float32)
w = ops.constant(np.ones((64, 64, 3, 3), np.float32))
network = ov.Model([ops.convolution(x, w, [1, 1], [1, 1], [1, 1], [1, 1])], [x], "trial")
compiled = ov.Core().compile_model(network, "CPU", {"INFERENCE_PRECISION_HINT": "bf16", "INFERENCE_NUM_THREADS": 1})
compiled.create_infer_request().infer({0: np.ones((1, 64, 16, 16), np.float32)})
"""


def version() -> str:
    import openvino

    return str(openvino.__version__).partition("-")[0]


def devices() -> Sequence[Device]:
    import openvino

    core = openvino.Core()
    found = []
    for name in core.available_devices:
        capabilities = set(core.get_property(name, "OPTIMIZATION_CAPABILITIES"))
        precisions = [p for p in ("fp32", "fp16", "bf16", "int8") if p.upper() in capabilities]
        kind = name.partition(".")[0].lower()
        label = str(core.get_property(name, "FULL_DEVICE_NAME"))
        found.append(Device(name.lower(), kind, label, precisions=tuple(precisions)))
    real = "+".join(device.name for device in found)
    shared = tuple(p for p in ("fp32", "fp16", "bf16", "int8") if all(p in d.precisions for d in found))
    found += [
        Device(name, "composite", f"{name.upper()} over {real}", precisions=shared, composite=True)
        for name in _COMPOSITES
        if found
    ]
    return tuple(found)


def environment(target: Target) -> Mapping[str, str]:
    """What must be in the environment before the library is imported: oneDNN reads its ceiling only then."""
    isa = target.option("isa")
    return {"ONEDNN_MAX_CPU_ISA": isa.upper()} if isa else {}


def defaults() -> Mapping[str, tuple[tuple[str, str], ...]]:
    """Options that a precision needs on this machine to run at all.

    Some virtual machines advertise AMX and then die of it (SIGILL), which OpenVINO, trusting the processor's word,
    turns into a crash of every bf16 and int8 model. So it is tried, in a process of its own.
    """
    if platform.machine() != "x86_64" or "amx_tile" not in Path("/proc/cpuinfo").read_text():
        return {}
    trial = subprocess.run([sys.executable, "-P", "-c", _TRIAL], capture_output=True, check=False, timeout=60)
    return dict.fromkeys(("bf16", "int8"), (("isa", _WITHOUT_AMX),)) if trial.returncode == -signal.SIGILL else {}


def load(model: Model, target: Target) -> Executable:
    return OpenVino(model, target, _chosen(model, target))


def profile(model: Model, target: Target) -> Profiled:
    """Timed by OpenVINO itself; in a trial runs took 0.6 % longer."""
    device = _chosen(model, target)
    if ":" in device:
        raise Unsupported(f"openvino times operators on one device, and {device} may be several")
    return Timed(model, target, device)


def support(model: Model, target: Target) -> Sequence[Verdict]:
    return verdicts(model, _chosen(model, target))


def _chosen(model: Model, target: Target) -> str:
    """The device a target asks for, in OpenVINO's words, or the reason why not."""
    others = [key for key, _ in target.options if not re.fullmatch(r"[A-Z][A-Z_]+", key)]
    check_options("openvino", Target("openvino", options=tuple((key, "") for key in others)), OPTIONS)
    for name, value in environment(target).items():
        if os.environ.get(name) != value:
            raise Unsupported(f"{target} needs {name}={value} in the environment before openvino is imported")
    known = devices()
    match = re.fullmatch(r"([a-z]+)\((.+)\)", target.device or "")
    base = match[1] if match else target.device
    pick("openvino", known, Target("openvino", base, target.precision))
    refuse_conversion("openvino", model, target)
    real = [device.name for device in known if not device.composite]
    if match:
        for part in match[2].split("+"):
            if part not in real:
                raise Unavailable(f"openvino has no device {part!r} here; it has {', '.join(real)}")
        return f"{match[1].upper()}:{match[2].upper().replace('+', ',')}"
    name = "CPU" if not base or base.startswith("cpu") else base.upper()
    return f"{name}:{','.join(real).upper()}" if name.lower() in _COMPOSITES else name


class OpenVino:
    def __init__(self, model: Model, target: Target, device: str, **properties: Any) -> None:
        import openvino

        self._inputs = model.inputs
        self._device = device
        self._copy = bool(choose(target, "copy", ON_OFF, "on"))
        core = openvino.Core()
        network = read(core, model)
        self._compiled: Any = core.compile_model(network, device, self._properties(target, device) | properties)
        self._request: Any = self._compiled.create_infer_request()
        self._tensor = openvino.Tensor
        self._names = [tensor.name for tensor in model.inputs]
        self._lent: list[Array | None] = [None] * len(model.inputs)
        self._copies: list[Array | None] = [None] * len(model.inputs)
        self._outputs = [model.outputs[i].name for i in range(len(self._compiled.outputs))]

    @staticmethod
    def _properties(target: Target, device: str) -> dict[str, Any]:
        properties: dict[str, Any] = {"INFERENCE_PRECISION_HINT": _HINTS[target.precision or "fp32"]}
        if device == "CPU":
            properties["ENABLE_CPU_PINNING"] = False
            properties["NUM_STREAMS"] = int(target.option("streams") or 1)
            if target.threads:
                properties["INFERENCE_NUM_THREADS"] = target.threads
        elif target.option("streams"):
            properties["NUM_STREAMS"] = int(target.option("streams") or 1)
        return properties | {key: value for key, value in target.options if key.isupper()}

    def run(self, feeds: Feeds) -> Outputs:
        if self._request is None:
            raise InputError("this executable is closed")
        # Arrays are lent to the engine, not copied; those it already has were checked when they were lent.
        if len(feeds) != len(self._names) or any(
            feeds.get(name) is not array for name, array in zip(self._names, self._lent, strict=True)
        ):
            self._lend(feeds)
        self._infer()
        # By position: looking each up by its port in the answer of `infer` costs some microseconds a run.
        tensor = self._request.get_output_tensor
        if self._copy:  # so that a later run leaves them alone
            return {name: tensor(i).data.copy() for i, name in enumerate(self._outputs)}
        return {name: tensor(i).data for i, name in enumerate(self._outputs)}

    def bind(self, inputs: Feeds, outputs: Mapping[str, Array]) -> Callable[[], object]:
        request = self._compiled.create_infer_request()
        lent = [self._tensor(array, shared_memory=True) for array in (*inputs.values(), *outputs.values())]
        for name, tensor in zip((*inputs, *outputs), lent, strict=True):
            if name in inputs:
                request.set_input_tensor(self._names.index(name), tensor)
            else:
                request.set_output_tensor(self._outputs.index(name), tensor)
        # The arrays live as long as the run does.
        return partial(_run_bound, request, (lent, inputs, outputs))

    def _infer(self) -> None:
        self._request.infer(share_outputs=True)

    def _lend(self, feeds: Feeds) -> None:
        """Ports go by position: a tensor that is both input and output has lost its name."""
        check_feeds(self._inputs, feeds)
        for position, name in enumerate(self._names):
            ready = np.asarray(feeds[name], order="C")
            self._request.set_input_tensor(position, self._tensor(ready, shared_memory=True))
            # A copy must live as long as it is lent, and is stale once its owner changes the original.
            self._copies[position] = ready
            self._lent[position] = feeds[name] if ready is feeds[name] else None

    def ran(self) -> Ran:
        devices = tuple(str(name) for name in self._compiled.get_property("EXECUTION_DEVICES"))
        precisions: Counter[str] = Counter()
        kernels: Counter[str] = Counter()
        for node in self._compiled.get_runtime_model().get_ops():
            facts = node.get_rt_info()
            kind = facts["layerType"].astype(str) if "layerType" in facts else ""
            if kind in ("Input", "Output", "Const", "Constant", "Parameter", "Result"):
                continue
            if "runtimePrecision" in facts:
                precision = facts["runtimePrecision"].astype(str)
                precisions[_NAMES.get(precision, precision)] += 1
            if "primitiveType" in facts and kind in ("Convolution", "FullyConnected", "MatMul"):
                kernels[facts["primitiveType"].astype(str)] += 1
        return Ran(
            devices=devices,
            precisions=tuple(sorted(precisions.items())),
            notes=tuple(f"{count} × {name}" for name, count in kernels.most_common(4)),
        )

    def close(self) -> None:
        self._request = None
        self._compiled = None
        self._lent, self._copies = [], []


def _run_bound(request: Any, _arrays: object) -> None:
    request.infer(share_outputs=True)


class Timed(OpenVino):
    """OpenVINO's own counters, in whole microseconds, rounded down; operators merged into others have none.

    The CPU tells only the mean over all runs so far. It is read after 1, 2, 4, 8, ... runs, and each run gets the mean
    of those since the reading before: the first ones, which are like no others, stay among themselves.
    """

    def __init__(self, model: Model, target: Target, device: str) -> None:
        super().__init__(model, target, device, PERF_COUNT=True)
        self._whole: list[int] = []
        # What was read, and after how many runs.
        self._readings: list[tuple[int, dict[tuple[str, str], int]]] = []

    def run(self, feeds: Feeds) -> Outputs:
        outputs = super().run(feeds)
        runs = len(self._whole)
        if self._device != "CPU" or runs & (runs - 1) == 0:
            self._readings.append((runs, self._counters()))
        return outputs

    def _infer(self) -> None:
        begin = time.perf_counter_ns()
        super()._infer()
        self._whole.append(time.perf_counter_ns() - begin)

    def _counters(self) -> dict[tuple[str, str], int]:
        return {
            (info.node_name, info.node_type): info.real_time // timedelta(microseconds=1) * 1000
            for info in self._request.get_profiling_info()
            if info.status.name == "EXECUTED"
        }

    def ops(self) -> Sequence[OpTime]:
        if self._request is None:
            raise InputError("this executable is closed")
        runs, readings = len(self._whole), list(self._readings)
        if runs and readings[-1][0] != runs:
            readings.append((runs, self._counters()))
        samples: dict[tuple[str, str], list[int]] = {node: [] for _, told in readings for node in told}
        for (before, earlier), (now, told) in pairwise([(0, {}), *readings]):
            for node, found in samples.items():
                mean = told.get(node, 0)
                if self._device == "CPU":
                    mean = max(0, (mean * now - earlier.get(node, 0) * before) // (now - before))
                found.extend([mean] * (now - before))
        device = self._device.lower()
        return tuple(OpTime(name, kind, tuple(ns), device) for (name, kind), ns in samples.items())

    def spans(self) -> Spans:
        """Between operators is also what the plugin does with inputs and outputs."""
        return Spans(tuple(self._whole), tuple(self._whole), averaged=self._device == "CPU")
