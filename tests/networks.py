"""Random networks, and what they answer: shared by the tests of what cuts a model, and of what rewrites it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from edgewise.core.types import Model
from edgewise.model.load import inspect


class Network:
    """A random network, layer by layer."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.nodes: list[Any] = []
        self.weights: list[Any] = []
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.count = 0

    def constant(self, *shape: int) -> str:
        from onnx import numpy_helper

        self.count += 1
        values = self.random.standard_normal(shape).astype(np.float32) / max(1.0, math.sqrt(math.prod(shape[1:])))
        self.weights.append(numpy_helper.from_array(values, f"w{self.count}"))
        return f"w{self.count}"

    def integers(self, *values: int) -> str:
        from onnx import numpy_helper

        self.count += 1
        self.weights.append(numpy_helper.from_array(np.array(values, np.int64), f"w{self.count}"))
        return f"w{self.count}"

    def add(self, operator: str, inputs: Sequence[str], shape: tuple[int, ...], **attributes: Any) -> str:
        from onnx import helper

        self.count += 1
        name = f"v{self.count}"
        self.nodes.append(helper.make_node(operator, list(inputs), [name], name=f"n{self.count}", **attributes))
        self.shapes[name] = shape
        return name

    def conv(
        self, x: str, channels: int, *, kernel: int = 3, stride: int = 1, dilation: int = 1, group: int = 1
    ) -> str:
        _, c, h, w = self.shapes[x]
        reach = dilation * (kernel - 1)
        pad = reach // 2
        size = [(s + 2 * pad - reach - 1) // stride + 1 for s in (h, w)]
        return self.add(
            "Conv",
            [x, self.constant(channels, c // group, kernel, kernel), self.constant(channels)],
            (1, channels, *size),
            kernel_shape=[kernel] * 2,
            pads=[pad] * 4,
            strides=[stride] * 2,
            dilations=[dilation] * 2,
            group=group,
        )

    def norm(self, x: str) -> str:
        from onnx import numpy_helper

        c = self.shapes[x][1]
        scale, bias, mean = (self.constant(c) for _ in range(3))
        self.count += 1
        self.weights.append(numpy_helper.from_array(np.full(c, 0.5, np.float32), f"w{self.count}"))
        return self.add("BatchNormalization", [x, scale, bias, mean, f"w{self.count}"], self.shapes[x])

    def grow(self, x: str) -> str:
        """One more layer, of a random kind."""
        _, c, h, w = self.shapes[x]
        kind = self.random.choice(
            [
                "conv",
                "depthwise",
                "grouped",
                "relu",
                "norm",
                "max",
                "average",
                "residual",
                "branches",
                "scale",
                "split",
                "squeeze",
                "resize",
                "pad",
                "softmax",
            ]
        )
        channels = int(self.random.choice([8, 16, 24, 32, 48, 64]))
        if kind == "conv":
            kernel, stride = int(self.random.choice([1, 3, 5])), int(self.random.choice([1, 1, 2]))
            dilation = int(self.random.choice([1, 2])) if kernel == 3 and stride == 1 else 1
            return self.conv(x, channels, kernel=kernel, stride=stride if h > 4 else 1, dilation=dilation)
        if kind == "depthwise":
            return self.conv(x, c * int(self.random.choice([1, 2])), group=c)
        if kind == "grouped" and c % 4 == 0:
            return self.conv(x, channels, group=4)
        if kind == "relu":
            return self.add(str(self.random.choice(["Relu", "Sigmoid", "HardSwish"])), [x], self.shapes[x])
        if kind == "norm":
            return self.norm(x)
        if kind in ("max", "average") and h > 4:
            size = [(s + 2 - 3) // 2 + 1 for s in (h, w)]
            operator = "MaxPool" if kind == "max" else "AveragePool"
            settings = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1] * 4}
            return self.add(operator, [x], (1, c, *size), **settings)
        if kind == "residual":
            y = self.add("Relu", [self.conv(x, channels)], (1, channels, h, w))
            return self.add("Add", [self.conv(y, c, kernel=1), x], self.shapes[x])
        if kind == "branches":
            parts = [self.conv(x, int(n), kernel=int(k)) for n, k in zip((16, 32, 8), (1, 3, 5), strict=True)]
            return self.add("Concat", [*parts, x], (1, 56 + c, h, w), axis=1)
        if kind == "scale":
            pooled = self.add("GlobalAveragePool", [x], (1, c, 1, 1))
            gate = self.add("Sigmoid", [self.conv(pooled, c, kernel=1)], (1, c, 1, 1))
            return self.add("Mul", [x, gate], self.shapes[x])
        if kind == "split" and c % 2 == 0:
            from onnx import helper

            names = [f"v{self.count}a", f"v{self.count}b"]
            self.nodes.append(
                helper.make_node("Split", [x, self.integers(c // 2, c // 2)], names, name=f"s{self.count}", axis=1)
            )
            self.shapes |= dict.fromkeys(names, (1, c // 2, h, w))
            return self.add("Concat", [self.conv(names[0], channels), names[1]], (1, channels + c // 2, h, w), axis=1)
        if kind == "squeeze":
            return self.add("Mul", [x, self.constant(1, c, 1, 1)], self.shapes[x])
        if kind == "resize" and h < 32:
            from onnx import numpy_helper

            self.count += 1
            self.weights.append(numpy_helper.from_array(np.array([1, 1, 2, 2], np.float32), f"w{self.count}"))
            return self.add("Resize", [x, "", f"w{self.count}"], (1, c, 2 * h, 2 * w), mode="nearest")
        if kind == "pad":
            return self.add("Pad", [x, self.integers(0, 0, 1, 1, 0, 0, 1, 1)], (1, c, h + 2, w + 2))
        if kind == "softmax":
            return self.add("Softmax", [x], self.shapes[x], axis=1)
        return self.add("Relu", [x], self.shapes[x])

    def save(self, path: Path, layers: int, size: int = 20) -> Model:
        self.shapes["x"] = (1, 3, size, size)
        y = self.conv("x", 32)
        for _ in range(layers):
            y = self.grow(y)
        c = self.shapes[y][1]
        flat = self.add("Flatten", [self.add("GlobalAveragePool", [y], (1, c, 1, 1))], (1, c))
        y = self.add("Gemm", [flat, self.constant(40, c), self.constant(40)], (1, 40), transB=1)
        return self.saved(path, size, y)

    def saved(self, path: Path, size: int, y: str) -> Model:
        import onnx
        from onnx import TensorProto, helper

        made = helper.make_graph(
            self.nodes,
            "random",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, size, size])],
            [helper.make_tensor_value_info(y, TensorProto.FLOAT, list(self.shapes[y]))],
            self.weights,
        )
        model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
        onnx.checker.check_model(model)
        onnx.save(model, path)
        return inspect(str(path))


def whole(model: Model, feeds: dict[str, Any]) -> dict[str, Any]:
    import onnxruntime as ort

    session = ort.InferenceSession(model.path, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, feeds), strict=True))
