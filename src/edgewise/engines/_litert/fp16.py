"""fp16 on the CPU. XNNPACK is told so only through LiteRT's newer interface, which has no other use here."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ...core.errors import EngineFailure, InputError, Unsupported
from ...core.protocols import Array, Feeds, Outputs
from ...core.types import Model, Ran, Target
from .._target import check_feeds

# TFLITE_XNNPACK_DELEGATE_FLAG_FORCE_FP16
_FORCE_FP16 = 4
# Its interface tells nothing about operators.
_PLANNED = "through the CompiledModel interface; operators as planned, not as reported"
# Between the two fp16 numbers 1 and 1 + 2⁻¹⁰, nearer to the first.
_BETWEEN = 1 + 2**-12


def _compile(path: str, threads: int) -> Any:
    import ai_edge_litert
    from ai_edge_litert.compiled_model import CompiledModel
    from ai_edge_litert.environment import Environment
    from ai_edge_litert.hardware_accelerator import HardwareAccelerator
    from ai_edge_litert.options import CpuOptions, Options

    # A folder without vendors' plugins: not told where to look, LiteRT takes the first that came with it.
    nothing = str(Path(ai_edge_litert.__file__).parent / "tools")
    environment = Environment.create(compiler_plugin_path=nothing, dispatch_library_path=nothing)
    processor = CpuOptions(num_threads=threads, xnnpack_flags=_FORCE_FP16)
    options = Options(hardware_accelerators=HardwareAccelerator.CPU, cpu_options=processor)
    return CompiledModel.from_file(path, environment=environment, options=options)


@cache
def runs_fp16() -> bool:
    """Tried, not believed: 1 + 2⁻¹² times 1 is 1 in fp16."""
    from .flatbuffer import File

    file = File()
    x, y = (file.tensor(name, (1, 8), "float32") for name in ("x", "y"))
    file.operator("MUL", [x, file.constant("one", np.ones((1, 8), np.float32))], [y], "Mul")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trial.tflite"
        file.write(path, [("x", x)], [("y", y)])
        try:
            compiled = _compile(str(path), 1)
            given, answer = compiled.create_input_buffers(0), compiled.create_output_buffers(0)
            given[0].write(np.full((1, 8), _BETWEEN, np.float32))
            compiled.run_by_index(0, given, answer)
            return bool((answer[0].read(8, np.float32) == 1).all())
        except (ImportError, RuntimeError, ValueError):
            return False


class Half:
    """Feeds and outputs stay fp32; XNNPACK turns them into fp16 and back.

    `plan` is what the other interface would do with the same file.
    """

    def __init__(self, model: Model, target: Target, plan: Ran) -> None:
        self._model = model
        self._plan = replace(plan, notes=(*plan.notes, _PLANNED))
        wide = [t.name for t in (*model.inputs, *model.outputs) if t.dtype in ("int64", "float64")]
        if wide:
            raise Unsupported(f"litert has no 64-bit inputs and outputs in fp16, and {model.label} has {wide[0]!r}")
        if not dict(plan.precisions).get("fp16"):
            raise Unsupported(f"litert would run no operator of {model.label} in fp16: XNNPACK takes none of them")
        try:
            # Without a number, LiteRT takes one thread; so does its other interface.
            self._compiled: Any = _compile(model.path, target.threads or 1)
            names = self._compiled.get_signature_by_index(0)
            self._given = self._compiled.create_input_buffers(0)
            self._made = self._compiled.create_output_buffers(0)
        except (RuntimeError, ValueError) as error:
            raise EngineFailure(f"litert failed to prepare {model.label} in fp16: {error}") from None
        self._inputs = _positions([t.name for t in model.inputs], names["inputs"])
        self._outputs = _positions([t.name for t in model.outputs], names["outputs"])
        for tensor in model.inputs:
            sizes = tuple(self._given[self._inputs[tensor.name]].get_tensor_details()["shape"])
            if tensor.shape != sizes:
                raise Unsupported(
                    f"litert keeps the sizes of a file in fp16: input {tensor.name!r} of {model.label} is {sizes}, "
                    f"not {tensor.shape}"
                )
        self._forms = [buffer.get_tensor_details() for buffer in self._made]

    def run(self, feeds: Feeds) -> Outputs:
        if self._compiled is None:
            raise InputError("this executable is closed")
        check_feeds(self._model.inputs, feeds)
        try:
            for name, position in self._inputs.items():
                self._given[position].write(feeds[name])
            self._compiled.run_by_index(0, self._given, self._made)
            return {name: self._read(position) for name, position in self._outputs.items()}
        except (RuntimeError, ValueError) as error:
            raise EngineFailure(f"litert failed to run {self._model.label} in fp16: {error}") from error

    def _read(self, position: int) -> Array:
        shape, dtype = self._forms[position]["shape"], np.dtype(self._forms[position]["dtype"])
        found: Array = self._made[position].read(int(np.prod(shape)), dtype).reshape(shape)
        return found

    def ran(self) -> Ran:
        return self._plan

    def close(self) -> None:
        self._compiled = None
        self._given, self._made = [], []


def _positions(wanted: list[str], names: list[str]) -> dict[str, int]:
    """By name where the file's signature has it, else by position."""
    if set(wanted) <= set(names):
        return {name: names.index(name) for name in wanted}
    return {name: position for position, name in enumerate(wanted)}
