"""A session of ONNX Runtime: set up, run, lent arrays, timed, and asked what it did. `ort` and `coreml` run on it.

What ONNX Runtime calls an execution provider is an `ep` here, and known by ONNX Runtime's name for it.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ...core.errors import EngineFailure, InputError, Unavailable, Unsupported
from ...core.profile import OpTime, Spans
from ...core.protocols import Array, Feeds, Outputs
from ...core.types import Model, Ran, Target
from .._target import ON_OFF, check_feeds, choose

CPU = "CPUExecutionProvider"
XNNPACK = "XnnpackExecutionProvider"
OPTIONS = ("optimize", "spin", "arena", "inter")
# What becomes of threads without work: configuration entries of a session.
_SPIN: dict[str, tuple[tuple[str, str], ...]] = {
    "on": (),
    "run": (("session.force_spinning_stop", "1"),),
    "off": (("session.intra_op.allow_spinning", "0"),),
}
_LEVELS = {
    "none": "ORT_DISABLE_ALL",
    "basic": "ORT_ENABLE_BASIC",
    "extended": "ORT_ENABLE_EXTENDED",
    "all": "ORT_ENABLE_ALL",
}
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
# How ONNX Runtime says that an operator stops it, and which node if it says so.
_STOPPED = [
    re.compile(r"implementation for (?P<operator>\w+)\(-?\d+\) node with name '(?P<node>[^']*)'"),
    re.compile(r"of operator \((?P<operator>\w+)\) in node \((?P<node>[^)]*)\) is invalid"),
    re.compile(r"Fatal error: (?:[\w.]*:)?(?P<operator>\w+)\(-?\d+\) is not a registered"),
    re.compile(r"No Op registered for (?P<operator>\w+)"),
]
# These hold graphs whose operators are timed too: to count both would be to count twice.
_CONTAINERS = ("If", "Loop", "Scan")
_TIMED = "_kernel_time"
_RUN = "model_run"
_EXECUTOR = "Executor::Execute"


def version() -> str:
    import onnxruntime

    return str(onnxruntime.__version__)


def offered() -> Sequence[str]:
    import onnxruntime

    return tuple(onnxruntime.get_available_providers())


def stopped_by(message: str) -> tuple[str, str | None] | None:
    """The operator an error of ONNX Runtime is about, and the node where it names one."""
    for pattern in _STOPPED:
        if match := pattern.search(message):
            return match["operator"], match.groupdict().get("node")
    return None


def reason(error: Exception) -> str:
    """What ONNX Runtime says, without its own preamble."""
    return re.sub(r"^\[ONNXRuntimeError\] : \d+ : \w+ : ", "", " ".join(str(error).split()))


def settled(target: Target, ep: str, sizes: Mapping[str, int] | None = None) -> Any:
    """What a target asks of a session. `sizes` gives the model's symbolic dimensions their numbers."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    level = str(choose(target, "optimize", _LEVELS, "all"))
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    # XNNPACK brings its own pool: the session's would only fight with it.
    options.intra_op_num_threads = 1 if ep == XNNPACK else target.threads or 0
    inter = int(target.option("inter") or 1)
    options.inter_op_num_threads = inter
    if inter > 1:
        options.execution_mode = onnxruntime.ExecutionMode.ORT_PARALLEL
    options.enable_cpu_mem_arena = bool(choose(target, "arena", ON_OFF, "on"))
    for entry in _SPIN[str(choose(target, "spin", {each: each for each in _SPIN}, "on"))]:
        options.add_session_config_entry(*entry)
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    for name, size in (sizes or {}).items():
        options.add_free_dimension_override_by_name(name, size)
    for key, value in target.options:
        if "." in key and not key.startswith("ep."):
            options.add_session_config_entry(key, value)
    return options


def opened(source: str | bytes, options: Any, ep: str, settings: Mapping[str, str]) -> Any:
    import onnxruntime

    session = onnxruntime.InferenceSession(source, options, providers=[(ep, dict(settings))])
    if ep not in session.get_providers():
        raise Unavailable(f"onnxruntime could not start {ep} and fell back to the CPU by itself")
    return session


def placed(session: Any) -> list[tuple[str, Any]]:
    """Each node with the ep that runs it, in ONNX Runtime's own word."""
    found = session.get_provider_graph_assignment_info()
    return [(str(part.ep_name), node) for part in found for node in part.get_nodes()]


class Session:
    def __init__(
        self,
        model: Model,
        target: Target,
        ep: str,
        settings: Mapping[str, str],
        sizes: Mapping[str, int] | None = None,
        *,
        write_to: str | None = None,
        time_to: str | None = None,
    ) -> None:
        self._model = model
        self._remake = (target, ep, settings, sizes)
        options = settled(target, ep, sizes)
        if write_to:
            options.optimized_model_filepath = write_to
        if time_to:
            options.enable_profiling = True
            options.profile_file_prefix = time_to
        try:
            self._session: Any = opened(model.path, options, ep, settings)
        except Exception as error:
            if (stop := stopped_by(str(error))) is None:
                raise
            said = f"{target.engine} has no operator {stop[0]} as {model.label} uses it: {reason(error)}"
            raise Unsupported(said) from None
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

    def bind(self, inputs: Feeds, outputs: Mapping[str, Array]) -> Callable[[], object]:
        binding = self._session.io_binding()
        for name, array in inputs.items():
            binding.bind_input(name, "cpu", 0, array.dtype.type, array.shape, array.ctypes.data)
        for name, array in outputs.items():
            binding.bind_output(name, "cpu", 0, array.dtype.type, array.shape, array.ctypes.data)
        # The arrays live as long as the run does.
        return partial(_run_bound, self._session, binding, (inputs, outputs))

    def ran(self) -> Ran:
        nodes = Counter(ep for ep, _ in placed(self._session))
        notes = tuple(f"{count} operators on {name}" for name, count in sorted(nodes.items()))
        int8 = self._model.precision == "int8"
        precisions = self._int8_share() if int8 else ((self._model.precision, nodes.total()),)
        return Ran(devices=tuple(sorted(nodes)), precisions=precisions, notes=notes)

    def _int8_share(self) -> tuple[tuple[str, int], ...]:
        """The optimized graph is the only place where it shows what became of QDQ pairs, so it is made once more."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "optimized.onnx"
            Session(self._model, *self._remake, write_to=str(path)).close()
            graph = path.read_bytes()

        def count(operators: list[str]) -> int:
            # NodeProto.op_type is field 4, length-delimited: tag 0x22, length, name.
            return sum(graph.count(bytes((0x22, len(name))) + name.encode()) for name in operators)

        return tuple((name, n) for name, n in (("fp32", count(_FLOAT)), ("int8", count(_INT8))) if n)

    def close(self) -> None:
        self._session = None


def _run_bound(session: Any, binding: Any, _arrays: object) -> None:
    session.run_with_iobinding(binding)


class Lent(Session):
    """copy=off: inputs are read where the caller has them, outputs are written into the same arrays each time."""

    def __init__(self, model: Model, target: Target, ep: str, settings: Mapping[str, str]) -> None:
        super().__init__(model, target, ep, settings)
        if texts := [tensor.name for tensor in (*model.inputs, *model.outputs) if tensor.dtype == "string"]:
            raise Unsupported(f"copy=off lends numbers, and {texts[0]!r} holds text")
        self._binding: Any = self._session.io_binding()
        self._inputs = [tensor.name for tensor in model.inputs]
        self._lent: list[Array | None] = [None] * len(self._inputs)
        self._copies: dict[str, Array] = {}
        self._outputs: dict[str, Array] = {}

    def run(self, feeds: Feeds) -> Outputs:
        if self._session is None:
            raise InputError("this executable is closed")
        if len(feeds) != len(self._lent) or any(
            feeds.get(name) is not array for name, array in zip(self._inputs, self._lent, strict=True)
        ):
            same_sizes = self._lend(feeds)
            if not same_sizes:
                return self._fit(feeds)
        try:
            self._session.run_with_iobinding(self._binding)
        except RuntimeError:
            # Where the sizes of outputs follow from values (NonZero), the arrays no longer fit: new ones.
            return self._fit(feeds)
        return dict(self._outputs)

    def _lend(self, feeds: Feeds) -> bool:
        """Bind the arrays; whether all have the sizes of those before, so that the outputs fit too."""
        check_feeds(self._model.inputs, feeds)
        before = {name: array.shape for name, array in self._copies.items()}
        for position, name in enumerate(self._inputs):
            ready = np.asarray(feeds[name], order="C")
            self._binding.bind_input(name, "cpu", 0, ready.dtype.type, ready.shape, ready.ctypes.data)
            # A copy must live as long as it is lent, and is stale once its owner changes the original.
            self._copies[name] = ready
            self._lent[position] = feeds[name] if ready is feeds[name] else None
        return before == {name: array.shape for name, array in self._copies.items()}

    def _fit(self, feeds: Feeds) -> Outputs:
        """Run with copies; what comes back has the right sizes, so it is what later runs write into."""
        self._outputs = dict(super().run(feeds))
        for name, array in self._outputs.items():
            self._binding.bind_output(name, "cpu", 0, array.dtype.type, array.shape, array.ctypes.data)
        return dict(self._outputs)

    def close(self) -> None:
        super().close()
        self._binding = None
        self._lent, self._copies, self._outputs = [], {}, {}


class Timed(Session):
    """ONNX Runtime's own profile, which `ops` ends: later runs are not in it. Runs took 6.6 % longer in a trial."""

    def __init__(
        self, model: Model, target: Target, ep: str, settings: Mapping[str, str], devices: Mapping[str, str]
    ) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="edgewise-")
        super().__init__(model, target, ep, settings, time_to=str(Path(self._folder.name) / "ops"))
        self._devices = devices
        self._read: tuple[tuple[OpTime, ...], Spans] | None = None

    def ops(self) -> Sequence[OpTime]:
        return self._ended()[0]

    def spans(self) -> Spans:
        return self._ended()[1]

    def _ended(self) -> tuple[tuple[OpTime, ...], Spans]:
        if self._read is None:
            if self._session is None:
                raise InputError("this executable is closed")
            events = json.loads(Path(self._session.end_profiling()).read_bytes())
            self._read = times(events, self._devices), whole(events)
        return self._read

    def close(self) -> None:
        if self._session is not None and self._read is None:
            self._session.end_profiling()
        super().close()
        self._folder.cleanup()


def times(events: Iterable[Mapping[str, Any]], devices: Mapping[str, str]) -> tuple[OpTime, ...]:
    """A profile's events by node and run. `devices` says which device an ep stands for."""
    runs: list[Counter[tuple[str, str, str, str]]] = []
    now: Counter[tuple[str, str, str, str]] = Counter()
    for event in events:
        facts = event.get("args", {})
        if event["name"] == _RUN:  # written when a run is over
            runs.append(now)
            now = Counter()
        elif event["name"].endswith(_TIMED) and facts["op_name"] not in _CONTAINERS:
            ep = facts["provider"]
            name, index = event["name"].removesuffix(_TIMED), str(facts.get("node_index"))
            # The index tells nodes without a name apart; in a loop, one node runs several times.
            now[name, facts["op_name"], devices.get(ep, ep), index] += event["dur"] * 1000
    nodes = dict.fromkeys(node for run in runs for node in run)
    return tuple(OpTime(node[0], node[1], tuple(run[node] for run in runs), node[2]) for node in nodes)


def whole(events: Iterable[Mapping[str, Any]]) -> Spans:
    """A profile's runs. Graphs inside operators have executors too; that of the whole is the last to finish."""
    runs, executors, last = [], [], 0
    for event in events:
        if event["name"].endswith(_EXECUTOR):
            last = event["dur"]
        elif event["name"] == _RUN:
            runs.append(event["dur"] * 1000)
            executors.append(last * 1000)
    return Spans(tuple(runs), tuple(executors))
