"""One MNN session as an executable, plain or instrumented."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from time import perf_counter_ns
from typing import Any

import numpy as np

from ...core.errors import EngineFailure, InputError, Unavailable, Unsupported
from ...core.profile import OpTime, Spans
from ...core.protocols import Array, Feeds, Outputs
from ...core.types import Model, Ran, Target, Tensor
from .._target import ON_OFF, check_feeds, choose

# MNN's own numbers: it takes strings for some of these, and silently ignores them for others.
FORWARD = {"cpu": 0, "metal": 1, "cuda": 2, "opencl": 3, "nn": 5, "vulkan": 7}
# 13 is a processor's own extension of the plain kernels (AVX, Arm's fp16), which MNN counts as a device.
CPU_KINDS = (0, 13)
_PRECISION = {"fp32": 1, "int8": 1, "fp16": 2, "bf16": 3}
_MEMORY = {"normal": 0, "low": 2}
_POWER = {"normal": 0, "high": 1, "low": 2}
_WINOGRAD = {"small": 1, "large": 3, "off": 0}
_DYNAMIC = {"0": 0, "1": 1, "2": 2}
_HINT_WINOGRAD, _HINT_DYNAMIC = 3, 5
_DEBUG, _RELEASE, _RESIZE_LATER = 0, 1, 7
_INFO_DEVICE, INFO_RESIZE = 2, 3
_PACKED = 2  # the layout NC4HW4
_LIMITS = np.iinfo(np.int32)
# How MNN marks an operator that computes in 8-bit integers.
INT8 = "[ DT_INT8 ]"
# Layers that memory=low computes in 8-bit integers, where their weights are; of depthwise ones it changes nothing.
_WEIGHTED = "Convolution"


def open_file(path: str) -> Any:
    import MNN

    try:
        return MNN.Interpreter(path)
    except Exception as error:
        raise EngineFailure(f"MNN cannot read {path}: {error}") from error


def operators(net: Any, session: Any) -> list[str]:
    """The kinds of operators of a session that can be watched, as it would run them; nothing is computed."""
    kinds: list[str] = []

    def skip(tensors: Any, operator: Any) -> bool:
        kinds.append(operator.getType().strip())
        return False

    net.runSessionWithCallBackInfo(session, skip, lambda tensors, operator: True)
    return kinds


class Mnn:
    """`debug` lets each operator be watched, which costs even where nobody watches."""

    def __init__(self, model: Model, target: Target, device: str, debug: bool = False) -> None:
        self._model, self._target, self._device = model, target, device
        net = open_file(model.path)
        net.setSessionMode(_DEBUG if debug else _RELEASE)
        # Sizes are set below; sized by the file alone, open dimensions would be made up first.
        net.setSessionMode(_RESIZE_LATER)
        net.setSessionHint(_HINT_WINOGRAD, choose(target, "winograd", _WINOGRAD, "small"))
        net.setSessionHint(_HINT_DYNAMIC, choose(target, "dynamic", _DYNAMIC, "0"))
        self._copies = bool(choose(target, "copy", ON_OFF, "on"))
        config: dict[str, object] = {
            "backend": FORWARD[device],
            "precision": _PRECISION[target.precision or "fp32"],
            "memory": choose(target, "memory", _MEMORY, "normal"),
            "power": choose(target, "power", _POWER, "normal"),
        }
        if target.threads:
            config["numThread"] = target.threads
        try:
            session = net.createSession(config)
        except Exception as error:
            raise EngineFailure(f"MNN cannot make a session of {model.label}: {error}") from error
        ran = net.getSessionInfo(session, _INFO_DEVICE)
        if ran not in (CPU_KINDS if device == "cpu" else (FORWARD[device],)):
            raise Unavailable(f"MNN could not start {device} and fell back to the CPU by itself")
        self._net, self._session = net, session
        # An input that nothing depends on is not in the file any more.
        present = net.getSessionInputAll(session)
        for tensor in model.inputs:
            if tensor.name in present:
                net.resizeTensor(present[tensor.name], _sizes(tensor))
        net.resizeSession(session)
        if net.getSessionInfo(session, INFO_RESIZE) != 0:
            raise EngineFailure(f"MNN cannot lay out {model.label} for inputs of the sizes given")
        here = net.getSessionInputAll(session)
        self._inputs = [(t.name, *self._host(here[t.name]), t.dtype == "int64") for t in model.inputs if t.name in here]
        there = net.getSessionOutputAll(session)
        if missing := [t.name for t in model.outputs if t.name not in there]:
            raise EngineFailure(f"MNN's file of {model.label} has no output {missing[0]!r}; it has {', '.join(there)}")
        self._outputs = [(t, *self._host(there[t.name])) for t in model.outputs]
        self._seen: list[Array | None] = [None] * len(model.inputs)

    def _host(self, tensor: Any) -> tuple[Array, Any, Any]:
        """A tensor's memory as an array, if it holds plain numbers; else there is a tensor on this side to copy to.

        What is packed, in 8 bits or on another device does not; and of a file that was not converted here, who knows.
        """
        import MNN

        known = self._model.parent is not None and self._model.precision != "int8"
        if self._device == "cpu" and known and tensor.getDimensionType() != _PACKED:
            try:
                return tensor.getNumpyData(), None, None
            except SystemError as error:
                raise Unsupported(
                    f"MNN gives no access to a tensor of {self._model.label}: {error.__cause__}"
                ) from None
        kind = tensor.getDataType()
        zeros = np.zeros(tensor.getShape(), np.int32 if kind == MNN.Halide_Type_Int else np.float32)
        host = MNN.Tensor(zeros.shape, kind, zeros, MNN.Tensor_DimensionType_Caffe)
        return host.getNumpyData(), host, tensor

    def run(self, feeds: Feeds) -> Outputs:
        if self._session is None:
            raise InputError("this executable is closed")
        if len(feeds) != len(self._seen) or any(
            feeds.get(tensor.name) is not array for tensor, array in zip(self._model.inputs, self._seen, strict=True)
        ):
            check_feeds(self._model.inputs, feeds)
            self._seen = [feeds[tensor.name] for tensor in self._model.inputs]
        for name, memory, host, tensor, wide in self._inputs:
            if wide:
                _check_range(name, feeds[name])
            np.copyto(memory, feeds[name], casting="unsafe")
            if host is not None:
                tensor.copyFrom(host)
        if code := self._compute():
            raise EngineFailure(f"MNN failed to run {self._model.label}, with its code {code}")
        return {each.name: self._answer(each, *rest) for each, *rest in self._outputs}

    def _compute(self) -> int:
        return int(self._net.runSession(self._session))

    def _answer(self, wanted: Tensor, memory: Array, host: Any, tensor: Any) -> Array:
        if host is not None:
            tensor.copyToHostTensor(host)
        if wanted.shape is not None and memory.ndim > len(wanted.shape):
            # A convolution in one dimension is one in two for MNN, and as an output keeps the other.
            memory = memory.reshape(memory.shape[: len(wanted.shape)])
        if self._copies or memory.dtype.name != wanted.dtype:
            return memory.astype(wanted.dtype)
        return memory

    def ran(self) -> Ran:
        """Operators are counted on an instrumented copy, run once: nothing else tells what became of them."""
        watched = Profile(self._model, self._target, self._device)
        # Ones: zeros would stop an integer division, and the process with it.
        watched.run({t.name: np.ones(_sizes(t), t.dtype) for t in self._model.inputs})
        kinds = Counter(op.operator for op in watched.ops())
        watched.close()
        integers = sum(count for kind, count in kinds.items() if INT8 in kind)
        single = self._target.precision if self._target.precision in ("fp16", "bf16") else "fp32"
        notes = []
        if self._target.option("weights") == "int8":
            low = self._target.option("memory") == "low"
            integers += kinds[_WEIGHTED] if low else 0
            notes.append(f"8-bit weights, {'inputs quantized in each run' if low else 'widened at load'}")
        notes += [f"{count} × {kind}" for kind, count in kinds.most_common(4)]
        counts = ((single, kinds.total() - integers), ("int8", integers))
        return Ran((self._device,), tuple(count for count in counts if count[1]), tuple(notes))

    def close(self) -> None:
        # Arrays first: they point into the session's memory.
        self._inputs, self._outputs, self._seen = [], [], []
        self._session = self._net = None


class Profile(Mnn):
    """Two calls into Python around every operator: some microseconds each, so that small networks look slower."""

    def __init__(self, model: Model, target: Target, device: str) -> None:
        super().__init__(model, target, device, debug=True)
        self._begun = 0
        self._turn: list[int] = []
        self._runs: list[list[int]] = []
        self._whole: list[int] = []
        # Operators run in the same order each time: asked for their names once, later runs are less disturbed.
        self._names: list[tuple[str, str]] = []
        self._asking = True

    def _compute(self) -> int:
        self._turn = []
        begin = perf_counter_ns()
        code = int(self._net.runSessionWithCallBackInfo(self._session, self._before, self._after))
        taken = perf_counter_ns() - begin
        if not code:
            self._runs.append(self._turn)
            self._whole.append(taken)
            self._asking = False
        return code

    def _before(self, tensors: Any, operator: Any) -> bool:
        self._begun = perf_counter_ns()
        return True

    def _after(self, tensors: Any, operator: Any) -> bool:
        self._turn.append(perf_counter_ns() - self._begun)
        if self._asking:
            self._names.append((operator.getName(), operator.getType().strip()))
        return True

    def ops(self) -> Sequence[OpTime]:
        """In the order they run, which is the same in every run."""
        times = zip(*self._runs, strict=True)
        return tuple(
            OpTime(name, kind, taken, self._device)
            for (name, kind), taken in zip(self._names, times, strict=bool(self._runs))
        )

    def spans(self) -> Spans:
        """Between operators is MNN's own time and that of the calls into Python."""
        return Spans(tuple(self._whole), tuple(self._whole))


def _sizes(tensor: Tensor) -> tuple[int, ...]:
    sizes = tuple(size for size in tensor.shape or () if isinstance(size, int))
    if tensor.shape is None or len(sizes) != len(tensor.shape):
        raise InputError(f"the size of input {tensor.name!r} is open, and MNN needs it: {tensor.shape}")
    return sizes


def _check_range(name: str, array: Array) -> None:
    if array.size and (array.min() < _LIMITS.min or array.max() > _LIMITS.max):
        raise InputError(f"input {name!r} holds numbers that do not fit in 32 bits, which is all MNN has")
