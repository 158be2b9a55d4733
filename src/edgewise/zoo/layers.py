"""A small vocabulary of layers that emits clean, named ONNX with seeded, He-scaled weights."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

OPSET = 17


class Net:
    """A graph being written. A layer takes and returns the name of a value; weights follow one seeded stream."""

    def __init__(self, name: str, channels: int, size: int, seed: int = 0) -> None:
        self.name = name
        self.random = np.random.default_rng(seed)
        self.nodes: list[Any] = []
        self.weights: list[Any] = []
        self.channels = {"input": channels}
        self.inputs = [helper.make_tensor_value_info("input", TensorProto.FLOAT, ["batch", channels, size, size])]

    def node(self, op: str, inputs: list[str], **attributes: Any) -> str:
        name = f"{op.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], name=name, **attributes))
        return name

    def weight(self, name: str, value: NDArray[Any]) -> str:
        self.weights.append(numpy_helper.from_array(value.astype(np.float32), name))
        return name

    def conv(self, x: str, out: int, kernel: int = 1, stride: int = 1, groups: int = 1) -> str:
        """Convolution with bias: the form batch normalization leaves behind after folding."""
        into = self.channels[x] // groups
        label = f"conv_{len(self.nodes)}"
        scale = np.sqrt(2.0 / (into * kernel * kernel))
        w = self.weight(f"{label}.weight", self.random.standard_normal((out, into, kernel, kernel)) * scale)
        b = self.weight(f"{label}.bias", self.random.standard_normal(out) * 0.01)
        pad = kernel // 2
        y = self.node("Conv", [x, w, b], kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[pad] * 4, group=groups)
        self.channels[y] = out
        return y

    def same(self, op: str, x: str, *more: str, **attributes: Any) -> str:
        """An operator that keeps the number of channels."""
        y = self.node(op, [x, *more], **attributes)
        self.channels[y] = self.channels[x]
        return y

    def relu6(self, x: str) -> str:
        if not any(tensor.name == "six" for tensor in self.weights):
            self.weight("zero", np.array(0.0))
            self.weight("six", np.array(6.0))
        return self.same("Clip", x, "zero", "six")

    def classifier(self, x: str, classes: int) -> Any:
        """Global pooling, one linear layer, and the finished model."""
        into = self.channels[x]
        flat = self.node("Flatten", [self.node("GlobalAveragePool", [x])])
        w = self.weight("head.weight", self.random.standard_normal((classes, into)) / np.sqrt(into))
        b = self.weight("head.bias", np.zeros(classes))
        self.nodes.append(helper.make_node("Gemm", [flat, w, b], ["logits"], name="head", transB=1))
        outputs = [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", classes])]
        graph = helper.make_graph(self.nodes, self.name, self.inputs, outputs, self.weights)
        opset = [helper.make_opsetid("", OPSET)]
        return helper.make_model(graph, opset_imports=opset, ir_version=9, producer_name="edgewise")
