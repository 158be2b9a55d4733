"""A trained network of the pocket family as clean ONNX: batch normalization folded, every node named."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from edgewise.core.types import Preprocess
from edgewise.data.scenes import CLASSES, SIZE
from pocket_nets import Net

OPSET = 17
PREPROCESS = Preprocess(mean=(0.5, 0.5, 0.5), std=(0.25, 0.25, 0.25))

Arrays = dict[str, NDArray[np.float32]]


def onnx_model(name: str, net: Net, folded: Arrays, parameters: int) -> Any:
    """`folded` holds a weight and a bias for each convolution by its name, and for the linear layer `classify`."""
    nodes: list[Any] = []
    outputs: list[str] = []

    def node(op: str, inputs: list[str], name: str, output: str | None = None, **attributes: Any) -> str:
        nodes.append(helper.make_node(op, inputs, [output or name], name=name, **attributes))
        return output or name

    def activated(value: str, name: str, act: str) -> str:
        if act == "relu6":
            return node("Clip", [value, "zero", "six"], f"{name}.relu6")
        return node("Relu", [value], f"{name}.relu") if act == "relu" else value

    for layer in net.layers:
        inputs = ["input" if number < 0 else outputs[number] for number in layer.inputs]
        if layer.kind == "add":
            value = node("Add", inputs, layer.name)
        else:
            value = node(
                "Conv",
                [*inputs, f"{layer.name}.weight", f"{layer.name}.bias"],
                layer.name,
                kernel_shape=[layer.kernel] * 2,
                strides=[layer.stride] * 2,
                group=layer.groups,
                pads=[layer.kernel // 2] * 4,
            )
        outputs.append(activated(value, layer.name, layer.act))
    pooled = node("GlobalAveragePool", [outputs[-1]], "pool")
    flat = node("Flatten", [pooled], "flatten")
    node("Gemm", [flat, "classify.weight", "classify.bias"], "classify", "logits", transB=1)

    constants = [numpy_helper.from_array(value, key) for key, value in folded.items()]
    if any(layer.act == "relu6" for layer in net.layers):
        constants += [
            numpy_helper.from_array(np.array(level, np.float32), key) for key, level in (("zero", 0), ("six", 6))
        ]
    graph = helper.make_graph(
        nodes,
        name,
        [helper.make_tensor_value_info("input", TensorProto.FLOAT, ["batch", 3, SIZE, SIZE])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", len(CLASSES)])],
        constants,
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=9, producer_name="edgewise"
    )
    about = {"preprocess": str(PREPROCESS), "data": "pocket", "parameters": str(parameters)}
    helper.set_model_props(model, about)
    onnx.checker.check_model(model, full_check=True)
    return model


def classify(path: str, images: NDArray[np.uint8], batch: int = 250) -> NDArray[np.float32]:
    """The logits that ONNX Runtime computes from the file for 8-bit images."""
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    parts = []
    for start in range(0, len(images), batch):
        part = images[start : start + batch].transpose(0, 3, 1, 2).astype(np.float32)
        part = (part / PREPROCESS.divide - PREPROCESS.mean[0]) / PREPROCESS.std[0]
        parts.append(session.run(None, {"input": np.ascontiguousarray(part, np.float32)})[0])
    return np.concatenate(parts)
