"""Run as a program, in a process that may die: does MNN really have a device, does a converted file really run.

python -m edgewise.engines._mnn.trial device 3           one convolution on MNN's device number 3, in each precision
python -m edgewise.engines._mnn.trial file m.mnn SIZES   one run on ones; SIZES is JSON, input -> shape
"""

from __future__ import annotations

import json
import math
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...core.protocols import Array

# Of the largest answer: single precision stays far below, half precisions far above.
_ROUNDED = 5e-5
_WRONG = 0.1
_LOWER = {"fp16": 2, "bf16": 3}
_HIGH = 1


def device(number: int) -> dict[str, Any]:
    """The number of the device that really ran, and the precisions below single that rounded the answer."""
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "trial.mnn")
        _convolution(path)
        _, right = _answer(path, 0, _HIGH)
        ran, single = _answer(path, number, _HIGH)
        lower = [
            name for name, mode in _LOWER.items() if _ROUNDED < error(_answer(path, number, mode)[1], right) < _WRONG
        ]
        sound = error(single, right) < _WRONG
    return {"device": ran if sound else None, "precisions": lower}


def error(found: Array | None, right: Array | None) -> float:
    """Of the largest right answer; infinite for what is no answer to the same question."""
    if found is None or right is None or not right.size or found.shape != right.shape or not np.isfinite(found).all():
        return math.inf
    return float(np.abs(found - right).max() / np.abs(right).max())


def _convolution(path: str) -> None:
    from MNN import expr

    random = np.random.default_rng(0)
    x = expr.placeholder([1, 16, 12, 12], expr.NCHW)
    weights = expr.const(random.standard_normal((16, 16, 3, 3)).astype(np.float32), [16, 16, 3, 3], expr.NCHW)
    bias = expr.const(np.zeros(16, np.float32), [16], expr.NCHW)
    y = expr.conv2d(expr.convert(x, expr.NC4HW4), weights, bias)
    expr.save([expr.convert(y, expr.NCHW)], path)


def _answer(path: str, number: int, precision: int) -> tuple[int, Array | None]:
    """The device that ran, and its answer where there is one."""
    import MNN

    net = MNN.Interpreter(path)
    session = net.createSession({"backend": number, "precision": precision, "numThread": 1})
    x = np.random.default_rng(1).standard_normal((1, 16, 12, 12)).astype(np.float32)
    feed = MNN.Tensor(x.shape, MNN.Halide_Type_Float, x, MNN.Tensor_DimensionType_Caffe)
    net.getSessionInput(session).copyFrom(feed)
    ran = int(net.getSessionInfo(session, 2))
    if net.runSession(session):
        return ran, None
    output = net.getSessionOutput(session)
    y = np.zeros(output.getShape(), np.float32)
    host = MNN.Tensor(y.shape, MNN.Halide_Type_Float, y, MNN.Tensor_DimensionType_Caffe)
    output.copyToHostTensor(host)
    return ran, np.array(host.getNumpyData())


def file(path: str, sizes: Mapping[str, Sequence[int]]) -> int:
    """0 where the file ran; kinds of operators go to standard output, where MNN says what stopped it as well."""
    import MNN

    net = MNN.Interpreter(path)
    net.setSessionMode(7)
    session = net.createSession({"backend": 0, "precision": _HIGH, "numThread": 1})
    inputs = net.getSessionInputAll(session)
    for name, shape in sizes.items():
        if name in inputs:
            net.resizeTensor(inputs[name], tuple(shape))
    net.resizeSession(session)
    for tensor in net.getSessionInputAll(session).values():
        tensor.getNumpyData()[...] = 1  # zeros would stop an integer division

    def told(tensors: Any, operator: Any) -> bool:
        sys.stdout.write(operator.getType() + "\n")
        return True

    return int(net.runSessionWithCallBackInfo(session, told, lambda tensors, operator: True))


def main(kind: str, first: str, *rest: str) -> int:
    if kind == "file":
        return file(first, json.loads(rest[0]))
    sys.stdout.write(json.dumps(device(int(first))) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
