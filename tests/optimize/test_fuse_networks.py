"""Fewer nodes, the same answers: random networks, the built-in ones, and engines that run what is left."""

from __future__ import annotations

import importlib
from pathlib import Path

import numpy as np
import pytest
from fuse_networks import Layers, answers, fused, noise, same
from hypothesis import given, settings
from hypothesis import strategies as st

from edgewise import zoo
from edgewise.core.text import parse_target
from edgewise.engines import ONNX, converted, reads
from edgewise.model import feeds
from edgewise.model.emit import emit
from edgewise.model.graph import Graph, fixed, graph
from edgewise.model.load import inspect
from edgewise.optimize.fuse import applied, fuse
from edgewise.zoo import pocket


class Mixed(Layers):
    """Layers with something to fuse among others."""

    def grow(self, x: str) -> str:
        n, c, h, w = self.shapes[x]
        kind = int(self.random.integers(0, 20))
        if kind == 0:
            return self.then("Identity", x)
        if kind == 1:
            return self.transposed(self.then("Sigmoid", self.transposed(x, 0, 2, 3, 1)), 0, 3, 1, 2)
        if kind == 2 and h > 4:
            return self.window("Conv", self.padded(x, float(self.random.integers(0, 2))))
        if kind == 3 and h > 4:
            return self.window("MaxPool", self.padded(self.then("Relu", x)))
        if kind == 4 and h > 4:
            return self.window("Conv", self.norm(x))
        if kind == 5:
            return self.conv(self.conv(x, 64), 8, kernel=1)
        if kind == 6:
            six = self.then("Clip", self.then("Add", x, self.number(3)), self.number(0), self.number(6))
            return self.then("Mul", x, self.then("Div", six, self.number(6)))
        if kind == 7:
            return self.add("Mul", [x, self.add("ReduceMean", [x], (n, c, 1, 1), axes=[2, 3])], self.shapes[x])
        if kind == 8:
            a, b = (self.then("Tanh", x) for _ in range(2))
            return self.then("Add", a, b)
        if kind == 9:
            ends = [self.then("Relu", self.conv(x, channels)) for channels in (8, 4)]
            return self.add("Concat", [*ends, x], (n, 12 + c, h, w), axis=1)
        if kind == 10:
            ends = [self.conv(x, 8) for _ in range(2)]
            return self.then("Add", self.then("Softmax", ends[0], axis=1), self.then("Softmax", ends[1], axis=1))
        if kind == 11:
            y = self.reshaped(self.reshaped(x, 0, c, h * w), 0, c, h, w)
            self.shapes[y] = self.shapes[x]
            return y
        if kind == 12:
            return self.norm(self.conv(x, c))
        if kind == 13:
            return self.then("Mul", self.conv(x, c), self.constant(c, 1, 1))
        if kind == 14 and h > 4:
            return self.window("AveragePool", self.conv(x, 16, kernel=1))
        return super().grow(x)


@given(st.integers(0, 10**6), st.integers(1, 8))
@settings(max_examples=25, deadline=None)
def test_whatever_network_answers_the_same_fused(
    tmp_path_factory: pytest.TempPathFactory, seed: int, layers: int
) -> None:
    net = Mixed(seed, 12)
    model = net.save(tmp_path_factory.mktemp("fused") / "m.onnx", layers, 12)
    found = graph(model)
    made, counts = fused(found)
    assert len(made.nodes) <= len(found.nodes) + counts.get("siblings merged", 0) + counts.get("global average", 0)
    fused(found, pays=None)


class Rows(Layers):
    """Layers over rows of numbers: products, and what stands around them in pieces."""

    opset = 17

    def rows(self) -> str:
        y = self.transposed("x", 0, 2, 3, 1)
        return self.viewed(y, "Reshape", (1, self.size**2, 3), 0, self.size**2, 3)

    def viewed(self, x: str, operator: str, shape: tuple[int, ...], *settings: int) -> str:
        return self.add(operator, [x, self.integers(*settings)], shape)

    def dense(self, x: str, out: int) -> str:
        n, rows, width = self.shapes[x]
        y = self.add("MatMul", [x, self.constant(width, out)], (n, rows, out))
        return self.then("Add", y, self.constant(out)) if self.random.integers(2) else y

    def reduced(self, operator: str, x: str, axis: int) -> str:
        shape = tuple(1 if place == axis % 3 else size for place, size in enumerate(self.shapes[x]))
        # Of the first it was an attribute before 13, of the others before 18.
        if operator == "ReduceSum" or self.opset >= 18:
            return self.add(operator, [x, self.integers(axis)], shape)
        return self.add(operator, [x], shape, axes=[axis])

    def grow(self, x: str) -> str:
        n, rows, width = self.shapes[x]
        kind = int(self.random.integers(0, 10))
        if kind == 0:
            return self.dense(x, int(self.random.integers(2, 12)))
        if kind == 1:
            return self.then("Mul", self.dense(x, width), self.constant(width))
        if kind == 2:
            return self.dense(self.then("Mul", x, self.constant(width)), width)
        if kind == 3:
            y = self.viewed(x, "Unsqueeze", (n, 1, rows, width), 1)
            y = self.viewed(y, "Reshape", (n, width, rows), 0, width, -1)
            return self.viewed(y, "Reshape", (n, rows, width), -1, rows, width)
        if kind == 4:
            return self.transposed(self.then("Tanh", self.transposed(x, 0, 2, 1)), 0, 2, 1)
        if kind == 5:
            less = self.then("Sub", x, self.reduced("ReduceMean", x, -1))
            spread = self.reduced("ReduceMean", self.then("Mul", less, less), 2)
            y = self.then("Div", less, self.then("Sqrt", self.then("Add", spread, self.number(1e-3))))
            return self.then("Add", self.then("Mul", y, self.constant(width)), self.constant(width))
        if kind == 6:
            axis = int(self.random.choice([1, 2, -1]))
            y = self.then("Exp", self.then("Sub", x, self.reduced("ReduceMax", x, axis)))
            return self.then("Div", y, self.reduced("ReduceSum", y, axis))
        if kind == 7:
            y = self.then("Add", self.then("Erf", self.then("Div", x, self.number(2**0.5))), self.number(1))
            return self.dense(self.then("Mul", self.then("Mul", x, y), self.number(0.5)), width)
        if kind == 8:
            y = self.viewed(self.transposed(x, 0, 2, 1), "Unsqueeze", (n, width, rows, 1), 3)
            y = self.transposed(self.transposed(y, 0, 1, 3, 2), 0, 3, 1, 2)
            return self.viewed(y, "Reshape", (n, rows, width), 0, rows, -1)
        return self.then("Add", x, self.dense(self.dense(x, 4), width))


@given(st.integers(0, 10**6), st.integers(1, 8), st.sampled_from([17, 20]))
@settings(max_examples=25, deadline=None)
def test_whatever_is_done_to_rows_answers_the_same_fused(
    tmp_path_factory: pytest.TempPathFactory, seed: int, layers: int, opset: int
) -> None:
    net = Rows(seed, 6)
    net.opset = opset
    y = net.rows()
    for _ in range(layers):
        y = net.grow(y)
    # Answers of two kinds, so that a value is read by others too.
    found = net.graph(tmp_path_factory.mktemp("fused"), y, net.then("Sigmoid", y), opset=opset)
    fused(found)


def _zoo(name: str, folder: Path) -> Graph:
    path = pocket.path(name) if name in pocket.names() else zoo.export(name, str(folder / "model.onnx"))
    model = inspect(path)
    return graph(fixed(model, feeds.shapes(model, 1, {})))


SMALL = ("tiny", "pocket/nano", "shufflenet_v2_x0_5", "mobilenet_v3_small")
LIBRARIES = {"ort": "onnxruntime", "litert": "ai_edge_litert", "mnn": "MNN"}


@pytest.mark.parametrize("engine", ["ort", "openvino", "litert", "ncnn", "mnn", "torch"])
@pytest.mark.parametrize("name", SMALL)
def test_engines_take_what_is_fused(name: str, engine: str, tmp_path: Path) -> None:
    pytest.importorskip(LIBRARIES.get(engine, engine), reason=f"{engine} is not installed")
    pytest.importorskip("pnnx" if engine == "ncnn" else "numpy", reason="ncnn's converter is not installed")
    found = _zoo(name, tmp_path)
    made, _ = applied(found, pays=lambda _: True)
    x = noise(found)
    inputs, outputs = ([made.values[each] for each in names] for names in (made.inputs, made.outputs))
    path = tmp_path / "fused.onnx"
    path.write_bytes(emit(made.nodes, made.constants, inputs, outputs, made.opset).SerializeToString())
    loaded = importlib.import_module(f"edgewise.engines.{engine}")
    model, target = inspect(str(path)), parse_target(f"{engine}:cpu:fp32@1")
    if ONNX not in reads(loaded):
        (tmp_path / "own").mkdir()
        model = converted(engine, model, target, str(tmp_path / "own"))
    executable = loaded.load(model, target)
    ours = executable.run(x)
    executable.close()
    for each, theirs in zip(outputs, answers(found, x), strict=True):
        np.testing.assert_allclose(ours[each.name], theirs, rtol=1e-3, atol=1e-3 * float(np.abs(theirs).max()))


@pytest.mark.slow
@pytest.mark.parametrize("name", [*pocket.names(), *zoo.names()])
def test_the_zoo_answers_the_same_fused(name: str, tmp_path: Path) -> None:
    found = _zoo(name, tmp_path)
    made, _ = applied(found)
    same(made, found, noise(found))
    assert fuse(made) is made
