"""ONNX Runtime, with every execution provider the installed wheel offers.

Options: ep=xnnpack|openvino|dnnl|acl|tensorrt, optimize=none|basic|extended|all, spin=on|off, arena=on|off,
inter=N (operators side by side), ep.KEY=value (handed to the provider), session.* and others with a dot
(handed to the session as a configuration entry).
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..core.errors import EngineFailure, InputError, Unavailable, Unsupported
from ..core.protocols import Executable, Feeds, Outputs
from ..core.types import Device, Model, Ran, Target
from ._target import check_feeds, check_options, choose, pick, refuse_conversion

PACKAGE = "onnxruntime"

# provider -> (device, kind, precisions). The first found wins a device; the rest are reached by `ep=`.
_PROVIDERS = {
    "CPUExecutionProvider": ("cpu", "cpu", ("fp32", "int8")),
    "CUDAExecutionProvider": ("cuda.0", "gpu", ("fp32", "tf32", "int8")),
    "MIGraphXExecutionProvider": ("rocm.0", "gpu", ("fp32",)),
    "CoreMLExecutionProvider": ("coreml", "npu", ("fp32",)),
    "DmlExecutionProvider": ("dml.0", "gpu", ("fp32",)),
    "QNNExecutionProvider": ("qnn", "npu", ("int8",)),
}
# option -> (provider, the device it works for)
_EPS = {
    "xnnpack": ("XnnpackExecutionProvider", "cpu"),
    "openvino": ("OpenVINOExecutionProvider", "cpu"),
    "dnnl": ("DnnlExecutionProvider", "cpu"),
    "acl": ("ACLExecutionProvider", "cpu"),
    "tensorrt": ("TensorrtExecutionProvider", "cuda.0"),
}
_LEVELS = {
    "none": "ORT_DISABLE_ALL",
    "basic": "ORT_ENABLE_BASIC",
    "extended": "ORT_ENABLE_EXTENDED",
    "all": "ORT_ENABLE_ALL",
}
OPTIONS = ("ep", "optimize", "spin", "arena", "inter")
_ON_OFF = {"on": True, "off": False}
# Operators that do their arithmetic in 8-bit integers, as they are named in an optimized graph.
_INT8 = [
    "QLinearConv",
    "QLinearMatMul",
    "QLinearAdd",
    "QLinearMul",
    "QLinearConcat",
    "QLinearSigmoid",
    "QLinearSoftmax",
    "QLinearGlobalAveragePool",
    "QLinearAveragePool",
    "QGemm",
    "QAttention",
    "ConvInteger",
    "MatMulInteger",
    "MatMulIntegerToFloat",
    "DynamicQuantizeMatMul",
]
_FLOAT = ["Conv", "FusedConv", "ConvTranspose", "MatMul", "FusedMatMul", "Gemm", "FusedGemm", "Attention"]


def version() -> str:
    import onnxruntime

    return str(onnxruntime.__version__)


def devices() -> Sequence[Device]:
    import onnxruntime

    offered = onnxruntime.get_available_providers()
    return tuple(
        Device(name, kind, provider, precisions=precisions)
        for provider, (name, kind, precisions) in _PROVIDERS.items()
        if provider in offered
    )


def variants(device: Device) -> Sequence[tuple[tuple[str, str], ...]]:
    """The further providers of the wheel that work on `device`."""
    import onnxruntime

    offered = onnxruntime.get_available_providers()
    return tuple((("ep", ep),) for ep, (provider, on) in _EPS.items() if provider in offered and on == device.name)


def load(model: Model, target: Target) -> Executable:
    check_options("ort", target, OPTIONS, prefixes=("ep.", "session.", "optimization.", "mlas."))
    device = pick("ort", devices(), target)
    refuse_conversion("ort", model, target)
    provider, settings = _provider(device, target)
    return Ort(model, target, provider, settings)


def _provider(device: Device, target: Target) -> tuple[str, dict[str, str]]:
    import onnxruntime

    settings = {key.removeprefix("ep."): value for key, value in target.options if key.startswith("ep.")}
    ep = target.option("ep")
    if ep is None:
        provider = next(p for p, (name, _, _) in _PROVIDERS.items() if name == device.name)
    else:
        if ep not in _EPS:
            raise InputError(f"ort knows no ep={ep}; it knows {', '.join(_EPS)}")
        provider, on = _EPS[ep]
        if provider not in onnxruntime.get_available_providers():
            raise Unavailable(
                f"the installed onnxruntime has no {provider}; it has "
                + ", ".join(onnxruntime.get_available_providers()),
                "install the onnxruntime wheel built with it",
            )
        if on != device.name:
            raise Unsupported(f"ep={ep} works on {on}, not on {device.name}")
    index = device.name.partition(".")[2]
    if index:
        settings.setdefault("device_id", index)
    if provider == "CUDAExecutionProvider":
        # CUDA's default is TF32: fp32 in name, 10 bits of mantissa in fact.
        settings.setdefault("use_tf32", "1" if target.precision == "tf32" else "0")
    if provider == "XnnpackExecutionProvider" and target.threads:
        settings.setdefault("intra_op_num_threads", str(target.threads))
    if provider == "OpenVINOExecutionProvider":
        settings.setdefault("device_type", "CPU")
        settings.setdefault("precision", "FP32")
        settings.setdefault("num_of_threads", str(target.threads or 0))
    return provider, settings


class Ort:
    def __init__(
        self, model: Model, target: Target, provider: str, settings: dict[str, str], write_to: str | None = None
    ) -> None:
        import onnxruntime

        self._model = model
        self._remake = (target, provider, settings)
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        level = str(choose(target, "optimize", _LEVELS, "all"))
        options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
        # XNNPACK brings its own pool: the session's would only fight with it.
        threads = 1 if provider == "XnnpackExecutionProvider" else target.threads or 0
        options.intra_op_num_threads = threads
        inter = int(target.option("inter") or 1)
        options.inter_op_num_threads = inter
        if inter > 1:
            options.execution_mode = onnxruntime.ExecutionMode.ORT_PARALLEL
        options.enable_cpu_mem_arena = bool(choose(target, "arena", _ON_OFF, "on"))
        if not choose(target, "spin", _ON_OFF, "on"):
            options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
        for key, value in target.options:
            if "." in key and not key.startswith("ep."):
                options.add_session_config_entry(key, value)
        if write_to:
            options.optimized_model_filepath = write_to
        self._session: Any = onnxruntime.InferenceSession(model.path, options, providers=[(provider, settings)])
        if provider not in self._session.get_providers():
            raise Unavailable(f"onnxruntime could not start {provider} and fell back to the CPU by itself")
        self._names = [output.name for output in self._session.get_outputs()]

    def run(self, feeds: Feeds) -> Outputs:
        try:
            return dict(zip(self._names, self._session.run(None, feeds), strict=True))
        except Exception as error:
            # Checked after the fact, so that the good path carries no check.
            if self._session is None:
                raise InputError("this executable is closed") from None
            check_feeds(self._model.inputs, feeds)
            raise EngineFailure(f"onnxruntime failed to run {self._model.label}: {error}") from error

    def ran(self) -> Ran:
        nodes: Counter[str] = Counter()
        for subgraph in self._session.get_provider_graph_assignment_info():
            nodes[subgraph.ep_name] += len(subgraph.get_nodes())
        notes = tuple(f"{count} operators on {name}" for name, count in sorted(nodes.items()))
        int8 = self._model.precision == "int8"
        precisions = self._int8_share() if int8 else ((self._model.precision, nodes.total()),)
        return Ran(devices=tuple(sorted(nodes)), precisions=precisions, notes=notes)

    def _int8_share(self) -> tuple[tuple[str, int], ...]:
        """The optimized graph is the only place where it shows what became of QDQ pairs, so it is made once more."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "optimized.onnx"
            Ort(self._model, *self._remake, write_to=str(path)).close()
            graph = path.read_bytes()

        def count(operators: list[str]) -> int:
            # NodeProto.op_type is field 4, length-delimited: tag 0x22, length, name.
            return sum(graph.count(bytes((0x22, len(name))) + name.encode()) for name in operators)

        return tuple((name, n) for name, n in (("fp32", count(_FLOAT)), ("int8", count(_INT8))) if n)

    def close(self) -> None:
        self._session = None
