"""What only a run can show: the precisions that ncnn really has on a device, and that a conversion runs."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ...core.errors import EdgewiseError
from ...core.protocols import Array
from ...core.types import Model
from . import convert as conversion
from .param import MAGIC
from .run import Network, open_net

_STORAGE = ("use_fp16_packed", "use_fp16_storage", "use_fp16_arithmetic", "use_bf16_storage")
_STORED = {
    "fp32": (),
    "fp16": ("use_fp16_packed", "use_fp16_storage", "use_fp16_arithmetic"),
    "bf16": ("use_bf16_storage",),
}
# Of the largest answer: what rounding changes stays far below.
_WRONG = 0.1
_CHANNELS, _SIZE = 16, 12


def storage(precision: str) -> dict[str, Any]:
    """ncnn's switches for a precision, all of them: those not named keep a default that depends on the processor."""
    return {name: name in _STORED[precision] for name in _STORAGE}


def convert(model: Model, folder: str) -> str:
    """By pnnx; then one run with zeros, because what it makes may not run, or have other sizes than it should."""
    made = conversion.convert(model, folder)
    net = open_net(Path(made), storage("fp32") | {"num_threads": 1})
    trial = Network(replace(model, path=made), conversion.read_plan(Path(made)), net, "cpu", "fp32")
    trial.run({t.name: np.zeros([int(str(size)) for size in t.shape or ()], t.dtype) for t in model.inputs})
    trial.close()
    return made


@cache
def precisions(gpu: int | None) -> tuple[str, ...]:
    """Those that change the outcome of one convolution: ncnn takes every setting, and ignores what it cannot do."""
    offered = ("fp32", "fp16") if gpu is not None else ("fp32", "fp16", "bf16")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trial.param"
        count = _CHANNELS * _CHANNELS * 9
        layer = f"Convolution c 1 1 x y 0={_CHANNELS} 1=3 4=1 5=1 6={count}"
        path.write_text(f"{MAGIC}\n2 2\nInput x 0 1 x\n{layer}\n")
        noise = np.random.default_rng(0)
        weights = noise.standard_normal(count + _CHANNELS, dtype=np.float32)
        # Four bytes of zero before the weights: they are plain floats.
        path.with_suffix(".bin").write_bytes(bytes(4) + weights.tobytes())
        x = noise.standard_normal((_CHANNELS, _SIZE, _SIZE), dtype=np.float32)
        answers = {precision: _answer(path, x, precision, gpu) for precision in offered}
    return ("fp32", *(name for name in offered[1:] if rounded(answers[name], answers["fp32"])))


def _answer(path: Path, x: Array, precision: str, gpu: int | None) -> Array | None:
    """Nothing where it does not run."""
    import ncnn

    try:
        extractor = open_net(path, storage(precision) | {"num_threads": 1}, gpu).create_extractor()
    except EdgewiseError:
        return None
    if extractor.input("x", ncnn.Mat(x)) != 0:
        return None
    code, answer = extractor.extract("y")
    return np.array(answer.numpy()) if code == 0 else None


def rounded(found: Array | None, right: Array | None) -> bool:
    """Another answer than the right one, and one that rounding explains."""
    if found is None or right is None or not found.size or found.shape != right.shape:
        return False
    if not (np.isfinite(found).all() and np.isfinite(right).all()):
        return False
    return bool(0 < np.abs(found - right).max() < _WRONG * np.abs(right).max())
