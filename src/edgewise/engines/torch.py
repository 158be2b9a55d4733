"""PyTorch: the ONNX graph becomes a `torch.fx` module, which runs as it is, compiled, or as a CUDA graph.

Sizes are fixed when the network is built: at load where the model knows them, else at the first run, and once more
for each new set of sizes (the last few are kept). Lower precisions hold weights and activations in that type;
inputs and outputs keep the types of the model. Quantized models are refused: torch would imitate them in floats.

Options: mode=eager|compile (inductor; needs a C++ compiler on the CPU)|graph (a CUDA graph)|compile-graph,
freeze=on|off (compiled: weights are constants, packed once; on by default on the CPU), layout=contiguous|channels_last,
onednn=on|off (CPU: its kernels, or torch's own), isa=avx512_core_bf16 and the like (CPU: a ceiling for oneDNN),
cudnn_benchmark=on|off (CUDA: try the convolutions of cuDNN at the first run), copy=on|off.

On the CPU arrays are lent to torch and outputs are torch's own, new in each run, so nothing is copied but an output
that is also an input; `copy=off` lends that too. Elsewhere feeds travel to the device in every run, and `copy=off`
gives outputs as views of the host's buffers, valid until the next run.

Threads, TF32, oneDNN and cuDNN's search are settings of the process: an executable sets its own before it runs.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from ..core.errors import Unavailable, Unsupported
from ..core.protocols import Executable, Profiled
from ..core.roofs import Roof
from ..core.types import Device, Model, Target, Verdict
from ..model.graph import graph
from ._target import ON_OFF, check_options, choose, pick
from ._torch.run import Torch, TorchProfile, Wants

PACKAGE = EXTRA = "torch"
OPTIONS = ("mode", "freeze", "layout", "onednn", "isa", "cudnn_benchmark", "copy")

_MODES = {name: name for name in ("eager", "compile", "graph", "compile-graph")}
_LAYOUTS = {"contiguous": False, "channels_last": True}
_TYPES = {"fp32": "float32", "tf32": "float32", "fp16": "float16", "bf16": "bfloat16"}
# What is worth asking only of one kind of device.
_ONLY_ON = {"onednn": "cpu", "isa": "cpu", "cudnn_benchmark": "cuda"}
_WITHOUT_AMX = "avx512_core_fp16"
# One convolution and one product, large enough for AMX.
_TRIAL = """
import torch
x, w, a = (torch.ones(shape, dtype=torch.bfloat16) for shape in ((1, 64, 16, 16), (64, 64, 3, 3), (128, 128)))
torch.nn.functional.conv2d(x, w), a @ a
"""


def version() -> str:
    import torch

    return str(torch.__version__)


def devices() -> Sequence[Device]:
    import torch

    # The CPU has kernels for both halves everywhere; where the processor lacks the instructions they are slow.
    found = [Device("cpu", "cpu", torch.backends.cpu.get_cpu_capability(), precisions=("fp32", "bf16", "fp16"))]
    for index in range(torch.cuda.device_count() if torch.cuda.is_available() else 0):
        facts = torch.cuda.get_device_properties(index)
        precisions = ("fp32", "tf32", "fp16", "bf16") if facts.major >= 8 else ("fp32", "fp16")
        found.append(Device(f"cuda.{index}", "gpu", facts.name, (), facts.total_memory, precisions))
    if torch.backends.mps.is_available():
        found.append(Device("mps", "gpu", "Metal", precisions=("fp32", "fp16")))
    return tuple(found)


def variants(device: Device) -> Sequence[tuple[tuple[str, str], ...]]:
    """On CUDA, without the cost of launching each kernel. Compiling takes a minute or two, so only who asks gets it."""
    return ((("mode", "graph"),),) if device.name.startswith("cuda") else ()


def environment(target: Target) -> Mapping[str, str]:
    """What must be in the environment before the library is imported: oneDNN reads its ceiling only then."""
    isa = target.option("isa")
    return {"ONEDNN_MAX_CPU_ISA": isa.upper()} if isa else {}


def defaults() -> Mapping[str, tuple[tuple[str, str], ...]]:
    """Options that a precision needs here: some virtual machines advertise AMX and then die of it (SIGILL)."""
    if platform.machine() != "x86_64" or "amx_tile" not in Path("/proc/cpuinfo").read_text():
        return {}
    trial = subprocess.run([sys.executable, "-P", "-c", _TRIAL], capture_output=True, check=False, timeout=60)
    return dict.fromkeys(("bf16", "fp16"), (("isa", _WITHOUT_AMX),)) if trial.returncode == -signal.SIGILL else {}


def load(model: Model, target: Target) -> Executable:
    return Torch(model, *_understood(model, target))


def support(model: Model, target: Target) -> Sequence[Verdict]:
    """Node by node, by translating each."""
    from ._torch.net import Net

    device, wants = _understood(model, target, quantized=True)
    return Net(graph(model), wants.floats, wants.device).verdicts(device.name)


def profile(model: Model, target: Target) -> Profiled:
    """Operator by operator, in eager mode: a clock is read, or a CUDA event recorded, in the code between them.

    Nothing else changes, so the parts add up to the run (`spans` leaves out the copies in and out). A trial with small
    networks on the CPU cost 3 to 5 %; on an H200 at batch 1, where launching is all, ResNet-50 took 1.54 times as
    long. Devices other than CUDA wait for each operator, so there nothing overlaps.
    """
    device, wants = _understood(model, target)
    if wants.mode != "eager":
        raise Unsupported(f"torch has no operators left to time with mode={wants.mode}: they are fused or recorded")
    return TorchProfile(model, device, wants)


def peaks(device: str) -> tuple[Sequence[Roof], Sequence[tuple[str, str]]]:
    """The roofs of a CUDA device, by large products and copies."""
    from ._torch.peaks import measure

    found = pick("torch", devices(), Target("torch", device))
    if not found.name.startswith("cuda"):
        raise Unsupported(f"torch measures the roofs of CUDA devices, not of {found.name}")
    return measure(found)


def _understood(model: Model, target: Target, quantized: bool = False) -> tuple[Device, Wants]:
    import torch

    check_options("torch", target, OPTIONS)
    if model.precision == "int8" and not quantized:
        raise Unsupported(
            f"torch would only imitate {model.label}, which is quantized, in floats (QuantizeLinear, DequantizeLinear)"
        )
    device = pick("torch", devices(), target)
    kind = device.name.partition(".")[0]
    for key, on in _ONLY_ON.items():
        if target.option(key) and kind != on:
            raise Unsupported(f"{key} is an option on {on}, not on {device.name}")
    for name, value in environment(target).items():
        if os.environ.get(name) != value:
            raise Unsupported(f"{target} needs {name}={value} in the environment before torch is imported")
    precision = target.precision or (model.precision if model.precision in device.precisions else "fp32")
    mode = str(choose(target, "mode", _MODES, "eager"))
    compiled = mode.startswith("compile")
    if mode.endswith("graph") and kind != "cuda":
        raise Unsupported(f"mode={mode} replays a CUDA graph, and {device.name} has none")
    if target.option("freeze") and not compiled:
        raise Unsupported("freeze is an option of mode=compile")
    if compiled:
        _need_compiler(kind)
    return device, Wants(
        torch.device(device.name.replace(".", ":")),
        precision,
        getattr(torch, _TYPES[precision]),
        mode,
        bool(choose(target, "freeze", ON_OFF, "on" if kind == "cpu" else "off")),
        bool(choose(target, "layout", _LAYOUTS, "contiguous")),
        bool(choose(target, "copy", ON_OFF, "on")),
        target.threads or _usual_threads(),
        bool(choose(target, "onednn", ON_OFF, "on")),
        bool(choose(target, "cudnn_benchmark", ON_OFF, "off")),
    )


def _compiler() -> str | None:
    return shutil.which(os.environ.get("CXX") or ("clang++" if sys.platform == "darwin" else "g++"))


def _need_compiler(kind: str) -> None:
    if kind == "cpu" and not _compiler():
        raise Unavailable(
            "mode=compile writes C++ for the CPU, and there is no compiler", "apt install g++, or set CXX"
        )
    if kind == "cuda" and not importlib.util.find_spec("triton"):
        raise Unavailable("mode=compile writes Triton for CUDA, and the package is missing", "pip install triton")


@cache
def _usual_threads() -> int:
    """Before anything changed it."""
    import torch

    return int(torch.get_num_threads())
