"""Networks layer by layer, and the check that fusing them changes no answer: what the tests of fuse share."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

from edgewise.model.emit import emit
from edgewise.model.graph import Graph, graph
from edgewise.model.load import inspect
from edgewise.optimize.fuse import applied
from edgewise.optimize.observe import opened
from networks import Network

Arrays = dict[str, np.ndarray[Any, Any]]


def answers(found: Graph, x: Arrays) -> list[np.ndarray[Any, Any]]:
    """By ONNX Runtime, the graph as it is written."""
    inputs, outputs = ([found.values[name] for name in names] for names in (found.inputs, found.outputs))
    made = emit(found.nodes, found.constants, inputs, outputs, found.opset).SerializeToString()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return list(onnxruntime.InferenceSession(made, options).run(None, x))


def noise(found: Graph, batch: int = 1) -> Arrays:
    random = np.random.default_rng(0)
    return {
        name: random.standard_normal((batch, *(found.values[name].shape or ())[1:])).astype(np.float32)
        for name in found.inputs
    }


def same(ours: Graph, theirs: Graph, x: Arrays) -> None:
    for a, b in zip(answers(ours, x), answers(theirs, x), strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4 * max(1e-6, float(np.abs(b).max())))


class Layers(Network):
    """One layer after the other on an image of 8 by 8 with 3 channels, written to a file and read again."""

    def __init__(self, seed: int = 0, size: int = 8) -> None:
        super().__init__(seed)
        self.size = size
        self.shapes["x"] = (1, 3, size, size)

    def number(self, value: float | list[float]) -> str:
        from onnx import numpy_helper

        self.count += 1
        self.weights.append(numpy_helper.from_array(np.array(value, np.float32), f"w{self.count}"))
        return f"w{self.count}"

    def then(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """What comes out is as large as the first input."""
        return self.add(operator, inputs, self.shapes[inputs[0]], **attributes)

    def padded(self, x: str, value: float = 0.0, *, ends: tuple[int, int] = (1, 1)) -> str:
        n, c, h, w = self.shapes[x]
        pads = self.integers(0, 0, ends[0], ends[0], 0, 0, ends[1], ends[1])
        return self.add("Pad", [x, pads, self.number(value)], (n, c, h + sum(ends), w + sum(ends)))

    def window(self, operator: str, x: str, kernel: int = 3, **attributes: Any) -> str:
        """A pool, or a convolution of as many channels, without padding of its own."""
        n, c, h, w = self.shapes[x]
        inputs = [x, self.constant(c, c, kernel, kernel)] if operator == "Conv" else [x]
        size = (n, c, h - kernel + 1, w - kernel + 1)
        return self.add(operator, inputs, size, kernel_shape=[kernel] * 2, **attributes)

    def transposed(self, x: str, *order: int) -> str:
        return self.add("Transpose", [x], tuple(self.shapes[x][axis] for axis in order), perm=list(order))

    def reshaped(self, x: str, *shape: int) -> str:
        return self.add("Reshape", [x, self.integers(*shape)], shape)

    def graph(self, folder: Path, *outputs: str, opset: int = 17) -> Graph:
        import onnx
        from onnx import TensorProto, helper

        known = [helper.make_tensor_value_info("x", TensorProto.FLOAT, self.shapes["x"])]
        ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, self.shapes[name]) for name in outputs]
        made = helper.make_graph(self.nodes, "layers", known, ends, self.weights)
        model = helper.make_model(made, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
        onnx.checker.check_model(model)
        onnx.save(model, folder / "layers.onnx")
        return graph(inspect(str(folder / "layers.onnx")))


def operators(found: Graph) -> Counter[str]:
    return Counter(node.operator for node in found.nodes)


def fused(found: Graph, **options: Any) -> tuple[Graph, dict[str, int]]:
    """Fused, and shown to answer the same for one and for three, and to be done."""
    made, counts = applied(found, **options)
    same(made, found, noise(found))
    same(opened(made), opened(found), noise(found, 3))
    again, more = applied(made, **options)
    assert not more
    assert again is made
    names = [node.name for node in made.nodes]
    assert len(set(names)) == len(names)
    return made, counts
