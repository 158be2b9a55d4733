"""LiteRT (TensorFlow Lite): .tflite files, and ONNX models written as such.

A written file keeps the interface of its ONNX model: names, types, and NCHW where that was the order; inside, feature
maps lie as NHWC. QDQ models become quantized tensors: unsigned numbers are shifted by 128, which changes none of them.

Options: xnnpack=on|off (off: LiteRT's own kernels), kernels=optimized|reference (reference: its plain, slow ones,
without XNNPACK), copy=on|off (off: outputs are views of the engine's buffers, valid until the next run; inputs are
copied all the same, since LiteRT borrows no memory), requantize=exact|direct (direct: a change of scale between two
quantized operators stays in integers, where XNNPACK rounds coarsely; of QDQ models only).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..core.errors import EdgewiseError, EngineFailure, InputError, Unsupported
from ..core.protocols import Array, Executable, Feeds, Outputs
from ..core.types import Device, Model, Ran, Target, Tensor, Verdict
from ..model.graph import graph
from ._litert.plan import account, integer_operators
from ._target import ON_OFF, check_feeds, check_options, choose, pick, refuse_conversion

PACKAGE = "ai-edge-litert"
EXTRA = "litert"
READS = (".tflite",)
OPTIONS = ("xnnpack", "kernels", "copy", "requantize")
_KERNELS = {"optimized": False, "reference": True}
_REQUANTIZE = {"exact": True, "direct": False}
_ALWAYS = ("fp32", "int8")
# How it names an operator that it cannot prepare, has no kernel for, or does not know.
_STOPPED = (
    r"Node number \d+ \((\w+)\) failed to prepare|op for builtin opcode '(\w+)'|unresolved custom op: (\S+?)\.(?:\s|$)"
)


def version() -> str:
    from importlib.metadata import version as installed

    import ai_edge_litert  # noqa: F401  what is asked for is whether it can be imported

    return installed(PACKAGE)


def devices() -> Sequence[Device]:
    from ._litert.fp16 import runs_fp16

    return _devices(*(("fp16",) if runs_fp16() else ()))


def _devices(*more: str) -> Sequence[Device]:
    return (Device("cpu", "cpu", "LiteRT on the CPU, through XNNPACK", precisions=(*_ALWAYS, *more)),)


def convert(model: Model, folder: str, *, requantize: str = "exact") -> str:
    from ._litert.ops import write

    exact = choose(Target("litert", options=(("requantize", requantize),)), "requantize", _REQUANTIZE, "exact")
    path = Path(folder) / "model.tflite"
    write(graph(model), path, exact=bool(exact))
    return str(path)


def support(model: Model, target: Target) -> Sequence[Verdict]:
    from ._litert.ops import verdicts

    _check(target)
    return verdicts(graph(model), exact=bool(choose(target, "requantize", _REQUANTIZE, "exact")))


def inspect(path: str) -> Model:
    """Names, types and sizes as the file has them; a size that the file leaves open is unknown."""
    file = Path(path)
    interpreter = _interpreter(path)
    inputs, outputs = (
        tuple(_tensor(details) for details in part)
        for part in (interpreter.get_input_details(), interpreter.get_output_details())
    )
    if not outputs:
        raise InputError(f"{file.name} has no outputs, so there is nothing to run")
    with file.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()[:32]
    precision = "int8" if integer_operators(interpreter) else "fp32"
    return Model(digest, str(file.resolve()), inputs, outputs, precision, label=file.stem)


def load(model: Model, target: Target) -> Executable:
    _check(target)
    refuse_conversion("litert", model, target)
    if target.precision != "fp16":
        return LiteRt(model, target)
    from ._litert.fp16 import Half

    if target.options:
        raise InputError(f"litert has no options in fp16, found {target.options[0][0]!r}")
    whole = LiteRt(model, target)
    plan = account(whole.interpreter, delegated="fp16")
    whole.close()
    return Half(model, target, plan)


def _check(target: Target) -> None:
    check_options("litert", target, OPTIONS)
    # Trying fp16 loads far more of LiteRT than the other precisions need.
    pick("litert", _devices() if target.precision in (None, *_ALWAYS) else devices(), target)


def _interpreter(path: str, threads: int | None = None, resolver: str = "BUILTIN") -> Any:
    """LiteRT checks a file before it uses it, and raises ValueError for one that is not sound."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    if not Path(path).is_file():
        raise InputError(f"there is no file {path}")
    kind = getattr(OpResolverType, resolver)
    try:
        return Interpreter(model_path=path, num_threads=threads, experimental_op_resolver_type=kind)
    except (ValueError, RuntimeError) as error:
        refusal = InputError(f"{Path(path).name} is not a .tflite file that LiteRT can read: {_said(error)}")
        raise _stopped(error, Path(path).name) or refusal from None


def _said(error: Exception) -> str:
    return " ".join(str(error).split())[:300]


def _stopped(error: Exception, label: str) -> EdgewiseError | None:
    """The operator that LiteRT stumbled over, where it names one."""
    found = re.search(_STOPPED, str(error))
    if not found or not found.lastindex:
        return None
    return Unsupported(f"litert cannot run the operator {found[found.lastindex]} of {label}: {_said(error)}")


def _tensor(details: dict[str, Any]) -> Tensor:
    sizes = details["shape_signature"] if len(details["shape_signature"]) else details["shape"]
    shape = tuple(int(size) if size >= 0 else None for size in sizes)
    return Tensor(str(details["name"]), np.dtype(details["dtype"]).name, shape)


class LiteRt:
    def __init__(self, model: Model, target: Target) -> None:
        self._model = model
        reference = bool(choose(target, "kernels", _KERNELS, "optimized"))
        delegated = bool(choose(target, "xnnpack", ON_OFF, "off" if reference else "on"))
        if reference and delegated:
            raise InputError("kernels=reference is LiteRT without XNNPACK, so xnnpack=on does not go with it")
        self._copies = bool(choose(target, "copy", ON_OFF, "on"))
        own = "BUILTIN_REF" if reference else "BUILTIN_WITHOUT_DEFAULT_DELEGATES"
        self.interpreter: Any = _interpreter(model.path, target.threads, "BUILTIN" if delegated else own)
        inputs = _placed(self.interpreter.get_input_details(), model.inputs, "inputs", model.label)
        outputs = _placed(self.interpreter.get_output_details(), model.outputs, "outputs", model.label)
        self._inputs = [(t.name, int(details["index"])) for t, details in zip(model.inputs, inputs, strict=True)]
        self._outputs = [(t.name, int(details["index"])) for t, details in zip(model.outputs, outputs, strict=True)]
        try:
            for tensor, details in zip(model.inputs, inputs, strict=True):
                _resize(self.interpreter, tensor, details)
            self.interpreter.allocate_tensors()
        except (ValueError, RuntimeError) as error:
            failure = EngineFailure(f"litert failed to prepare {model.label}: {_said(error)}")
            raise _stopped(error, model.label) or failure from None
        # The inner object: the outer one refuses to run while anyone holds a view.
        self._native: Any = self.interpreter._interpreter
        self._fed: list[Array | None] = [None] * len(self._inputs)

    def run(self, feeds: Feeds) -> Outputs:
        native = self._native
        if native is None:
            raise InputError("this executable is closed")
        # Arrays that were checked before are only copied again.
        if len(feeds) != len(self._inputs) or any(
            feeds.get(name) is not array for (name, _), array in zip(self._inputs, self._fed, strict=True)
        ):
            check_feeds(self._model.inputs, feeds)
            self._fed = [feeds[name] for name, _ in self._inputs]
        try:
            for name, index in self._inputs:
                native.SetTensor(index, feeds[name])
            native.Invoke()
        except (ValueError, RuntimeError) as error:
            raise EngineFailure(f"litert failed to run {self._model.label}: {_said(error)}") from error
        if self._copies:
            return {name: native.GetTensor(index, 0) for name, index in self._outputs}
        return {name: native.tensor(native, index) for name, index in self._outputs}

    def ran(self) -> Ran:
        return account(self.interpreter)

    def close(self) -> None:
        self._native = self.interpreter = None
        self._fed = []


def _resize(interpreter: Any, tensor: Tensor, details: dict[str, Any]) -> None:
    """Sets the sizes that a file leaves open; those it fixes are fixed."""
    sizes = [size if isinstance(size, int) else 1 for size in tensor.shape or ()]
    if sizes == list(details["shape"]):
        return
    allowed = _tensor(details).shape or ()
    if len(allowed) != len(sizes) or any(a not in (None, b) for a, b in zip(allowed, sizes, strict=True)):
        shown = ["x".join("?" if size is None else str(size) for size in each) for each in (allowed, sizes)]
        raise InputError(f"input {tensor.name!r} is {shown[0]} in its file, found {shown[1]}")
    interpreter.resize_tensor_input(details["index"], sizes)


def _placed(found: Sequence[Any], wanted: Sequence[Tensor], what: str, label: str) -> list[Any]:
    """The file's tensors in the order of the record: by name where the names are there, else by position."""
    if len(found) != len(wanted):
        raise InputError(f"{label} has {len(found)} {what} in its .tflite file, expected {len(wanted)}")
    by_name = {str(details["name"]): details for details in found}
    if all(tensor.name in by_name for tensor in wanted) and len(by_name) == len(found):
        return [by_name[tensor.name] for tensor in wanted]
    return list(found)
