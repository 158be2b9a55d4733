"""Whether what a pass made is still the same model: its inputs and outputs, and how far its answers are off."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.errors import Unsupported
from ..core.records import from_json
from ..core.types import Model
from ..model.feeds import feeds, shapes
from .apply import inputs_of

# Enough to tell a broken network from a good one.
_RUNS = 32
# More than rounding: summing in another order moves outputs by a ten-thousandth of their size.
LARGEST_ROUNDING = 1e-3


def check_files(
    before: dict[str, Any], after: dict[str, Any], samples: str | None, exact: bool, given: dict[str, list[int]]
) -> float:
    """How far the outputs are off, beside how large they are: the root of the mean square of both."""
    import onnxruntime

    first, second = from_json(Model, before), from_json(Model, after)
    _same(first, second)
    runs = _runs(first, samples, {name: tuple(sizes) for name, sizes in given.items()})
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    sessions = [
        onnxruntime.InferenceSession(model.path, options, providers=["CPUExecutionProvider"])
        for model in (first, second)
    ]
    square = size = 0.0
    for each in runs:
        wanted, found = (session.run([tensor.name for tensor in first.outputs], each) for session in sessions)
        for a, b in zip(wanted, found, strict=True):
            if a.shape != b.shape:
                raise Unsupported(f"an output has the sizes {b.shape}, and had {a.shape}")
            if not np.isfinite(b).all() and np.isfinite(a).all():
                raise Unsupported("outputs are no numbers any more")
            square += float(np.square(a.astype(np.float64) - b).sum())
            size += float(np.square(a.astype(np.float64)).sum())
    error = float((square / max(size, 1e-30)) ** 0.5)
    if exact and error > LARGEST_ROUNDING:
        raise Unsupported(f"outputs are off by {error:.2g} of their size, more than rounding explains")
    return error


def _same(first: Model, second: Model) -> None:
    for what, a, b in (("inputs", first.inputs, second.inputs), ("outputs", first.outputs, second.outputs)):
        names = [[tensor.name for tensor in tensors] for tensors in (a, b)]
        if names[0] != names[1]:
            raise Unsupported(f"its {what} are {', '.join(names[1])}, and were {', '.join(names[0])}")


def _runs(model: Model, samples: str | None, given: dict[str, tuple[int, ...]]) -> list[dict[str, Any]]:
    sizes = shapes(model, 1, given)
    if samples is None:
        return [feeds(model, sizes, seed) for seed in range(1, 5)]
    found = {name: array[:_RUNS] for name, array in inputs_of(model, samples).items()}
    each = max(size[0] for size in sizes.values())
    count = min(len(array) for array in found.values())
    return [
        {name: array[begin : begin + each] for name, array in found.items()}
        for begin in range(0, count - each + 1, each)
    ]
