"""MNN, through sessions: they let go of the interpreter lock while they run (MNN's modules hold it), and cost little.

A session's input and output may lie in the same memory, so inputs are written anew for every run. With `copy=off`
outputs are views of MNN's memory: good until the next run or close(), whichever comes first.

Options:

    weights=int8          convert with 8-bit weights; they are widened again at load, unless memory=low
    memory=low            keep 8-bit weights as they are, and compute with them in 8-bit integers: inputs of such
                          layers are quantized anew in each run
    dynamic=0|1|2         ... how their scales are taken (MNN's DYNAMIC_QUANT_OPTIONS)
    winograd=large|off    all of MNN's Winograd tiles, as it comes, or none. By default only the small ones: with the
                          large ones fp32 was off by 0.02 to 0.4 % in networks of 3x3 convolutions
    power=low|high        which cores to bind to, where they differ (Arm)
    copy=off              see above
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ..core.errors import EdgewiseError, EngineFailure, InputError, Unsupported
from ..core.protocols import Executable, Profiled
from ..core.types import Device, Model, Target, Tensor, Verdict
from ..model.graph import Graph, graph
from ._convert import run_converter
from ._mnn.int8 import parameters, unquantized
from ._mnn.prepare import prepared, write
from ._mnn.session import CPU_KINDS, FORWARD, INFO_RESIZE, INT8, Mnn, Profile, open_file, operators
from ._target import check_options, pick, refuse_conversion

PACKAGE = "MNN"
EXTRA = "mnn"
READS = (".mnn",)
OPTIONS = ("weights", "memory", "dynamic", "winograd", "power", "copy")

_LABELS = {"cpu": "CPU", "cuda": "CUDA", "opencl": "OpenCL", "nn": "NNAPI or Core ML"}
_KINDS = {"cpu": "cpu", "nn": "npu"}
# The command-line tools of the package are not used: importing them installs other packages.
_CONVERTER = (sys.executable, "-P", "-c", "import sys,_tools;_tools.mnnconvert(sys.argv)")
# Recurrent layers as operators: the loops they would become are nothing a session runs.
_FLAGS = ("--bizCode", "edgewise", "--useOriginRNNImpl")
_TRIAL = (sys.executable, "-P", "-m", f"{__package__}._mnn.trial")
# What the converter writes above the list of its operators.
_LIST = "support Ops"
_MISSING = re.compile(r"These Op Not Support: (.+)")
_MISSING_LATER = re.compile(r"Don't support type \[(\w+)\]")
# Kernels every build has, on every processor.
_EVERYWHERE = ("fp32", "int8")
_WEIGHTS = ("float", "int8")
# A size that networks of images take, for one that a file leaves open.
_SOME = 224


def version() -> str:
    import MNN

    return str(MNN.version())


def devices() -> Sequence[Device]:
    """Those a trial has shown: asked for a device or a precision it lacks, MNN takes another and goes on."""
    return tuple(
        Device(name, _KINDS.get(name, "gpu"), _LABELS.get(name, name.capitalize()), precisions=precisions)
        for name, precisions in _tried().items()
    )


@cache
def _tried() -> dict[str, tuple[str, ...]]:
    """Device -> the precisions it computes in, from one convolution each in a process of its own: drivers crash."""
    trials = {
        name: subprocess.Popen(
            [*_TRIAL, "device", str(number)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            errors="replace",
        )
        for name, number in FORWARD.items()
    }
    found: dict[str, tuple[str, ...]] = {"cpu": _EVERYWHERE}
    for name, trial in trials.items():
        ran, lower = _told(trial.communicate()[0])
        if trial.returncode == 0 and ran in (CPU_KINDS if name == "cpu" else (FORWARD[name],)):
            found[name] = (*(_EVERYWHERE if name == "cpu" else ("fp32",)), *lower)
    return found


def _told(said: str) -> tuple[int | None, tuple[str, ...]]:
    """The device and the lower precisions in the last line of a trial; neither where a driver talked into it."""
    try:
        answer = json.loads(said.splitlines()[-1])
        return answer["device"], tuple(answer["precisions"])
    except (ValueError, LookupError, TypeError):
        return None, ()


def load(model: Model, target: Target) -> Executable:
    return Mnn(model, target, _device(model, target))


def profile(model: Model, target: Target) -> Profiled:
    """Times from before to after each operator; asking costs some microseconds per operator."""
    return Profile(model, target, _device(model, target))


def _device(model: Model, target: Target) -> str:
    check_options("mnn", target, OPTIONS)
    refuse_conversion("mnn", model, target)
    plain = (target.device or "cpu").split(".")[0] == "cpu" and target.precision in (None, "fp32", "int8")
    # What every build of MNN has needs no trial.
    return "cpu" if plain else pick("mnn", devices(), target).name


def convert(model: Model, folder: str, *, weights: str = "float") -> str:
    if weights not in _WEIGHTS:
        raise InputError(f"weights={weights} is not an option of mnn; choose from {', '.join(_WEIGHTS)}")
    made = Path(folder) / "model.mnn"
    source, scales = made.with_name("prepared.onnx"), made.with_name("scales.bin")
    plain = _graph(model)
    more: tuple[str, ...] = ("--weightQuantBits", "8") if weights == "int8" else ()
    if model.precision == "int8":
        if more:
            raise Unsupported(f"{model.label} is quantized already, so mnn cannot convert it with weights=int8")
        plain, layers = unquantized(plain)
        scales.write_bytes(parameters(layers))
        more = ("--compressionParamsFile", str(scales))
    write(prepared(plain), source)
    files = ("--modelFile", str(source), "--MNNModel", str(made))
    try:
        run_converter("MNN's converter", [*_CONVERTER, "-f", "ONNX", *files, *_FLAGS, *more], made)
    except EngineFailure as failure:
        if missing := _MISSING.search(failure.message):
            names = [name.removeprefix("ONNX::").strip() for name in missing[1].split(" / ")[0].split("|")]
            raise Unsupported(f"mnn has no operator {', '.join(names)}") from None
        raise
    finally:
        source.unlink(missing_ok=True)
        scales.unlink(missing_ok=True)
    _try(model, made)
    return str(made)


def _graph(model: Model) -> Graph:
    try:
        return graph(model)
    except EdgewiseError:
        raise
    except Exception as error:  # whatever a parser makes of what is no model
        raise InputError(f"{model.label} is not an ONNX model that can be read: {error}") from error


def _try(model: Model, made: Path) -> None:
    """One run, in a process of its own: the converter passes operators on that nothing can run."""
    sizes = {tensor.name: tensor.shape for tensor in model.inputs}
    trial = subprocess.run(
        [*_TRIAL, "file", str(made), json.dumps(sizes)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    said = trial.stdout.decode(errors="replace")
    if trial.returncode == 0 and (model.precision != "int8" or INT8 in said):
        return
    made.unlink()
    if trial.returncode == 0:
        raise Unsupported(f"mnn runs no layer of {model.label} in 8 bits")
    if missing := _MISSING_LATER.search(said):
        raise Unsupported(f"mnn has no operator {missing[1]}")
    last = " / ".join(line.strip() for line in said.splitlines()[-4:])
    raise EngineFailure(f"MNN converted {model.label} and cannot run it ({trial.returncode}): {last}")


def support(model: Model, target: Target) -> Sequence[Verdict]:
    """The converter's own list, and where that has no objection, a trial conversion."""
    device = _device(model, target)
    nodes = _graph(model).nodes
    known = _operators()
    rejected = {node.operator: "mnn has no such operator" for node in nodes if node.operator not in known}
    if not rejected:
        try:
            with TemporaryDirectory() as folder:
                convert(model, folder)
        except Unsupported as refusal:
            named = [node.operator for node in nodes if re.search(rf"\b{node.operator}\b", refusal.message)]
            if not named:
                raise
            rejected = dict.fromkeys(named, refusal.message)
    return tuple(
        Verdict(node.name, node.operator, "rejected", device, rejected[node.operator])
        if node.operator in rejected
        else Verdict(node.name, node.operator, "supported", device)
        for node in nodes
    )


@cache
def _operators() -> frozenset[str]:
    """By the converter's word. Without it nothing can be said: an empty list would reject every model."""
    asked = [*_CONVERTER, "-f", "ONNX", "--OP"]
    done = subprocess.run(asked, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    said = done.stdout.decode(errors="replace")
    _, listed, names = said.partition(_LIST)
    if done.returncode != 0 or not listed or not names.split():
        last = " / ".join(line.strip() for line in said.splitlines()[-4:])
        raise EngineFailure(f"MNN's converter does not list its operators ({done.returncode}): {last}")
    # Some it knows under names of its own, in the same list: harmless here.
    return frozenset(names.split()) | {"Dropout", "Identity"}


def inspect(path: str) -> Model:
    """A file of MNN's own: names, types and sizes as a session has them."""
    import MNN

    types = {
        MNN.Halide_Type_Float: "float32",
        MNN.Halide_Type_Int: "int32",
        MNN.Halide_Type_Uint8: "uint8",
    }
    file = Path(path)
    net = open_file(path)
    session = net.createSession({"backend": 0})

    def described(tensors: dict[str, Any]) -> tuple[Tensor, ...]:
        return tuple(
            Tensor(
                name,
                types.get(tensor.getDataType(), "unknown"),
                tuple(size if size > 0 else None for size in tensor.getShape()),
            )
            for name, tensor in tensors.items()
        )

    inputs, outputs = (described(all_of(session)) for all_of in (net.getSessionInputAll, net.getSessionOutputAll))
    if net.getSessionInfo(session, INFO_RESIZE) != 0:
        # Sizes are open: any will do, to see what operators become.
        for tensor in inputs:
            sizes = tuple(size or (_SOME if axis else 1) for axis, size in enumerate(tensor.shape or ()))
            net.resizeTensor(net.getSessionInput(session, tensor.name), sizes)
        net.resizeSession(session)
    sized = net.getSessionInfo(session, INFO_RESIZE) == 0
    kinds = operators(net, session) if sized else ()
    return Model(
        digest=hashlib.sha256(file.read_bytes()).hexdigest()[:32],
        path=str(file.resolve()),
        inputs=inputs,
        outputs=outputs,
        precision="int8" if any(INT8 in kind for kind in kinds) else "fp32",
        label=file.stem,
    )
