"""ONNX Runtime, on every processor that the installed wheel has an execution provider (EP) for.

Options: ep=xnnpack|openvino|dnnl|acl|tensorrt, optimize=none|basic|extended|all, spin=on|run|off, arena=on|off,
inter=N (operators side by side), copy=on|off, ep.KEY=value (handed to the EP), session.* and others with a dot
(handed to the session as a configuration entry).

Threads that have nothing to do look for work for a while before they sleep, after a run too (spin=on), within runs only
(spin=run), or not at all.

copy=off, on the CPU: inputs are lent, and outputs are the arrays that the next run writes into.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..core.errors import InputError, Unavailable, Unsupported
from ..core.protocols import Executable, Profiled
from ..core.types import Device, Model, Target, Verdict
from ._ort import session
from ._ort.session import CPU, XNNPACK, Lent, Session, Timed, offered, version
from ._ort.support import verdicts
from ._target import ON_OFF, check_options, choose, pick, refuse_conversion

__all__ = ["among", "devices", "load", "optimized", "profile", "support", "variants", "version"]

PACKAGE = "onnxruntime"
OPTIONS = ("ep", *session.OPTIONS, "copy")
_HANDED_ON = ("ep.", "session.", "optimization.", "mlas.")

# EP -> (device, kind, precisions). The first found wins a device; the rest are reached by `ep=`.
_DEVICES = {
    CPU: ("cpu", "cpu", ("fp32", "int8")),
    "CUDAExecutionProvider": ("cuda.0", "gpu", ("fp32", "tf32", "int8")),
    "MIGraphXExecutionProvider": ("rocm.0", "gpu", ("fp32",)),
    "DmlExecutionProvider": ("dml.0", "gpu", ("fp32",)),
    "QNNExecutionProvider": ("qnn", "npu", ("int8",)),
}
# option -> (EP, the device it works for)
_EPS = {
    "xnnpack": (XNNPACK, "cpu"),
    "openvino": ("OpenVINOExecutionProvider", "cpu"),
    "dnnl": ("DnnlExecutionProvider", "cpu"),
    "acl": ("ACLExecutionProvider", "cpu"),
    "tensorrt": ("TensorrtExecutionProvider", "cuda.0"),
}


def devices() -> Sequence[Device]:
    here = offered()
    return tuple(
        Device(name, kind, ep, precisions=precisions) for ep, (name, kind, precisions) in _DEVICES.items() if ep in here
    )


def variants(device: Device) -> Sequence[tuple[tuple[str, str], ...]]:
    """The further EPs of the wheel that work on `device`."""
    here = offered()
    return tuple((("ep", name),) for name, (ep, on) in _EPS.items() if ep in here and on == device.name)


def load(model: Model, target: Target) -> Executable:
    device, ep, settings = _chosen(model, target)
    if choose(target, "copy", ON_OFF, "on"):
        return Session(model, target, ep, settings)
    if device.kind != "cpu":
        raise Unsupported(f"ort lends arrays (copy=off) on the CPU only, not on {device.name}")
    return Lent(model, target, ep, settings)


def support(model: Model, target: Target) -> Sequence[Verdict]:
    """What becomes of each node: falling back means that the CPU took what the chosen EP did not."""
    device, ep, settings = _chosen(model, target)
    return verdicts(model, target, ep, settings, device.name)


def profile(model: Model, target: Target) -> Profiled:
    """Timed by ONNX Runtime itself, at a cost: runs took 6.6 % longer in a trial. `ops()` ends the timing."""
    device, ep, settings = _chosen(model, target)
    return Timed(model, target, ep, settings, {CPU: "cpu", ep: device.name})


def among(target: Target) -> Target:
    """Each session has threads of its own. After a run they look for work for a while, and take the cores from the
    session that runs next: twelve of eight threads each made a frame take twelve times as long."""
    if target.threads == 1 or target.option("spin") is not None:
        return target
    return replace(target, options=tuple(sorted((*target.options, ("spin", "run")))))


def optimized(model: Model, target: Target, path: str) -> Target:
    """Writes the graph as ONNX Runtime runs it to `path`; pieces of it are loaded on what is returned, as they are."""
    _, ep, settings = _chosen(model, target)
    Session(model, target, ep, settings, write_to=path).close()
    others = tuple(pair for pair in target.options if pair[0] != "optimize")
    return replace(target, options=tuple(sorted((*others, ("optimize", "none")))))


def _chosen(model: Model, target: Target) -> tuple[Device, str, dict[str, str]]:
    """The device, the EP and its settings that a target asks for, or the reason why not."""
    check_options("ort", target, OPTIONS, prefixes=_HANDED_ON)
    device = pick("ort", devices(), target)
    refuse_conversion("ort", model, target)
    return device, *_ep(device, target)


def _ep(device: Device, target: Target) -> tuple[str, dict[str, str]]:
    settings = {key.removeprefix("ep."): value for key, value in target.options if key.startswith("ep.")}
    wanted = target.option("ep")
    if wanted is None:
        ep = next(ep for ep, (name, _, _) in _DEVICES.items() if name == device.name)
    else:
        if wanted not in _EPS:
            raise InputError(f"ort knows no ep={wanted}; it knows {', '.join(_EPS)}")
        ep, on = _EPS[wanted]
        if ep not in offered():
            raise Unavailable(
                f"the installed onnxruntime has no {ep}; it has {', '.join(offered())}",
                "install the onnxruntime wheel built with it",
            )
        if on != device.name:
            raise Unsupported(f"ep={wanted} works on {on}, not on {device.name}")
    index = device.name.partition(".")[2]
    if index:
        settings.setdefault("device_id", index)
    if ep == "CUDAExecutionProvider":
        # CUDA's default is TF32: fp32 in name, 10 bits of mantissa in fact.
        settings.setdefault("use_tf32", "1" if target.precision == "tf32" else "0")
    if ep == XNNPACK and target.threads:
        settings.setdefault("intra_op_num_threads", str(target.threads))
    if ep == "OpenVINOExecutionProvider":
        settings.setdefault("device_type", "CPU")
        settings.setdefault("precision", "FP32")
        settings.setdefault("num_of_threads", str(target.threads or 0))
    return ep, settings
