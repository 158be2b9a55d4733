"""ncnn: the processor, and every Vulkan device it sees.

Its networks have no batch: a batch is run row by row, and refused where rows are not independent. fp16 and bf16 are
offered where a trial shows that they change the numbers; where no layer of a network has them, it is refused.

Options: winograd, sgemm, packing, lightmode=on|off (kernels and memory), arithmetic=on|off (fp16 on Vulkan: compute
in it, or only store), subgroup=on|off (Vulkan), powersave=all|little|big (the cores ncnn's threads go to), and
copy=on|off: with copy=off a contiguous input is lent where the first layers only read it, and outputs are views of
ncnn's blobs, which live as long as they do.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from ..core.errors import InputError, Unavailable, Unsupported
from ..core.protocols import Executable, Profiled
from ..core.types import Device, Model, Target, Tensor, Verdict
from ._ncnn.convert import Plan, Result, Source, converter, read_plan
from ._ncnn.param import parse, results
from ._ncnn.run import Network, Timed, open_net
from ._ncnn.support import verdicts
from ._ncnn.trial import convert, precisions, storage
from ._target import ON_OFF, check_options, choose, pick

__all__ = ("convert", "converter")

PACKAGE = EXTRA = "ncnn"
READS = (".param",)
_SWITCHES = {
    "winograd": "use_winograd_convolution",
    "sgemm": "use_sgemm_convolution",
    "packing": "use_packing_layout",
    "lightmode": "lightmode",
    "subgroup": "use_subgroup_ops",
}
_POWERSAVE = {"all": 0, "little": 1, "big": 2}
OPTIONS = (*_SWITCHES, "arithmetic", "powersave", "copy")
_VULKAN_ONLY = ("subgroup", "arithmetic")
# How ncnn numbers a Vulkan device that is a program on the CPU.
_SOFTWARE = 3
_Kind = TypeVar("_Kind", bound=Network)


def version() -> str:
    import ncnn

    return str(ncnn.__version__)


def devices() -> Sequence[Device]:
    return (_cpu(trial=True), *_vulkan(trial=True))


def _cpu(trial: bool) -> Device:
    return Device("cpu", "cpu", "ncnn", precisions=precisions(None) if trial else ("fp32",))


def _vulkan(trial: bool) -> Sequence[Device]:
    import ncnn

    found = []
    for number in range(_gpus()):
        info = ncnn.get_gpu_info(number)
        software = info.type() == _SOFTWARE
        label = str(info.device_name()) + (" (software: the CPU imitates a GPU)" if software else "")
        tried = precisions(number) if trial else ("fp32",)
        found.append(Device(f"vulkan.{number}", "gpu", label, precisions=tried, emulated=software))
    return tuple(found)


def _pick(target: Target) -> Device:
    """Starting Vulkan and trying precisions take time: no part of loading a network that needs none of it."""
    trial = target.precision not in (None, "fp32")
    if (target.device or "cpu").partition(".")[0] == "cpu":
        return pick("ncnn", (_cpu(trial),), target)
    return pick("ncnn", (_cpu(trial=False), *_vulkan(trial)), target)


def _gpus() -> int:
    """None without a Vulkan driver, and in builds without Vulkan."""
    import ncnn

    return int(ncnn.get_gpu_count()) if hasattr(ncnn, "get_gpu_count") else 0


def inspect(path: str) -> Model:
    """A network in ncnn's text format, its weights beside it. It has no batch, and rarely tells its sizes."""
    file = Path(path)
    layers = parse(file)
    weights = file.with_suffix(".bin")
    if not weights.is_file():
        raise InputError(f"{file.name} comes with its weights in {weights.name}, which is missing")
    readers = {blob: layer.kind for layer in layers for blob in layer.takes}
    inputs = tuple(
        Tensor(blob, "int32" if readers.get(blob) == "Embed" else "float32", layer.shape())
        for layer in layers
        if layer.kind == "Input"
        for blob in layer.makes
    )
    outputs = tuple(Tensor(blob, "float32", None) for blob in results(layers))
    digest = hashlib.sha256(file.read_bytes())
    with weights.open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    precision = "int8" if any(layer.quantized() for layer in layers) else "fp32"
    return Model(digest.hexdigest()[:32], str(file.resolve()), inputs, outputs, precision, label=file.stem)


def load(model: Model, target: Target) -> Executable:
    return _open(Network, model, target, {})


def profile(model: Model, target: Target) -> Profiled:
    """Blob by blob: ncnn has no profiler of its own, and computes what is asked for.

    Blobs go as soon as the next layer has them, as in a plain run, so that layers compute in place where they can.
    Asking costs most on networks of many small layers, and on Vulkan, where each layer is submitted by itself and its
    blob brought back.
    """
    return _open(Timed, model, target, {})


def support(model: Model, target: Target) -> Sequence[Verdict]:
    """What pnnx leaves over is rejected; on Vulkan, what has no kernel there falls back to the CPU."""
    return verdicts(model, _pick(target), target.precision or "fp32")


def _open(kind: type[_Kind], model: Model, target: Target, settings: dict[str, Any]) -> _Kind:
    check_options("ncnn", target, OPTIONS)
    if model.precision == "int8":
        raise Unsupported(
            f"{model.label} is quantized, as ncnn's own tools do it, and edgewise runs ncnn's floats only"
        )
    device = _pick(target)
    gpu = int(device.name.partition(".")[2]) if device.kind == "gpu" else None
    precision = target.precision or "fp32"
    for key in _VULKAN_ONLY:
        if gpu is None and target.option(key):
            raise InputError(f"{key} is an option for Vulkan, not for {device.name}")
    options = storage(precision)
    for key, name in _SWITCHES.items():
        if target.option(key):
            options[name] = choose(target, key, ON_OFF, "on")
    if precision == "fp16" and not choose(target, "arithmetic", ON_OFF, "on"):
        options["use_fp16_arithmetic"] = False
    if target.threads:
        options["num_threads"] = target.threads
    _powersave(target)
    path = Path(model.path)
    if path.suffix not in READS or not path.is_file():
        raise InputError(f"ncnn reads {READS[0]} files, and {path.name} is none")
    plan = read_plan(path) if model.parent else _own_plan(model)
    net = open_net(path, options | settings, gpu)
    if gpu is not None and net.vulkan_device() is None:
        raise Unavailable(f"ncnn did not open {device.name}, and would run on the CPU")
    copy = bool(choose(target, "copy", ON_OFF, "on"))
    notes = (f"emulated: {device.label}",) if device.emulated else ()
    return kind(model, plan, net, device.name, precision, copy, notes)


def _powersave(target: Target) -> None:
    import ncnn

    wanted = target.option("powersave")
    if wanted is None:
        return
    number = choose(target, "powersave", _POWERSAVE, "all")
    if target.cores:
        raise InputError("powersave picks the cores, and so does #: name one of them")
    if ncnn.set_cpu_powersave(number) != 0:
        raise Unsupported(f"ncnn cannot put its threads on the {wanted} cores here")


def _own_plan(model: Model) -> Plan:
    """For a file in ncnn's own format: names are blobs, and shapes ncnn's."""
    sources = []
    for tensor in model.inputs:
        if tensor.shape is None or not all(isinstance(size, int) for size in tensor.shape):
            raise InputError(
                f"{model.label} does not say the size of {tensor.name!r}", f"--shape {tensor.name}=3x224x224"
            )
        shape = tuple(int(str(size)) for size in tensor.shape)
        if not 1 <= len(shape) <= 4:
            raise InputError(f"ncnn takes 1 to 4 dimensions and no batch, found {len(shape)} for {tensor.name!r}")
        # Whatever index it holds is the network's own business.
        sources.append(Source(tensor.name, tensor.name, shape, limit=1 << 31 if tensor.dtype == "int32" else None))
    return Plan(tuple(sources), tuple(Result(t.name, t.dtype, None, t.name) for t in model.outputs))
