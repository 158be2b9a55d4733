"""Writes the ONNX file that pnnx is given: plain names, every size known, floats throughout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from ...core.errors import Unsupported
from ...core.protocols import Array
from ...model.graph import Graph, Node

# The last in which reductions have their axes as an attribute, as pnnx expects them.
OPSET = 17
# Of a copy, slice by slice: more would be a network of its own.
MOST_PIECES = 64
WHOLE = frozenset(("int64", "int32", "int16", "int8", "uint8", "bool"))


@dataclass(frozen=True, slots=True)
class Feed:
    """An input of the rewritten graph: the model's input `name` in this shape; indices are below `limit`."""

    name: str
    shape: tuple[int, ...]
    limit: int | None = None


class Writer:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.nodes: list[Any] = []
        self.weights: dict[str, Array] = {}
        self.feeds: dict[Feed, str] = {}
        self.names: dict[str, str] = {}  # a value of the graph -> its name here
        self.shapes: dict[str, tuple[int, ...]] = {}  # of values here
        self.count = 0

    def proto(self, outputs: Sequence[str]) -> Any:
        from onnx import TensorProto, helper, numpy_helper

        inputs = [
            helper.make_tensor_value_info(
                name, TensorProto.FLOAT if feed.limit is None else TensorProto.INT64, feed.shape
            )
            for feed, name in self.feeds.items()
        ]
        made = [helper.make_tensor_value_info(name, TensorProto.FLOAT, self.shapes[name]) for name in outputs]
        weights = [numpy_helper.from_array(array, name) for name, array in self.weights.items()]
        graph = helper.make_graph(self.nodes, "lowered", inputs, made, weights)
        opsets = [helper.make_opsetid("", min(self.graph.opset, OPSET))]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8)

    def shape(self, name: str) -> tuple[int, ...]:
        if name in self.graph.constants:
            return tuple(self.graph.constants[name].shape)
        shape = self.graph.values[name].shape
        if shape is None or not all(isinstance(size, int) for size in shape):
            raise Unsupported(f"ncnn needs known sizes, and that of {name!r} is not")
        return tuple(size for size in shape if isinstance(size, int))

    def whole(self, name: str) -> bool:
        if name in self.graph.constants:
            return self.graph.constants[name].dtype.kind in "iub"
        return self.graph.values[name].dtype in WHOLE

    def ints(self, node: Node, position: int, attribute: str) -> list[int] | None:
        """What newer opsets give as an input and older ones as an attribute."""
        if attribute in node.attributes:
            return [int(value) for value in node.attributes[attribute]]
        if len(node.inputs) <= position or not node.inputs[position]:
            return None
        array = self.graph.constants.get(node.inputs[position])
        if array is None:
            raise Unsupported(f"ncnn has no {node.operator} whose {attribute} are computed")
        return [int(value) for value in array.ravel()]

    def value(self, name: str) -> str:
        """The float that stands for a value or constant of the graph."""
        if name in self.graph.constants:
            array = self.graph.constants[name]
            return self.weight(array.astype(np.float32) if array.dtype.kind in "iub" else array)
        if name not in self.names:
            # The only values nothing has made are inputs.
            self.names[name] = self.feed(Feed(name, self.shape(name) or (1,)))
        return self.names[name]

    def feed(self, feed: Feed) -> str:
        if feed not in self.feeds:
            self.feeds[feed] = f"in{len(self.feeds)}"
            self.shapes[self.feeds[feed]] = feed.shape
        return self.feeds[feed]

    def weight(self, array: Array) -> str:
        if array.dtype.name not in ("float32", "int64", "bool"):
            raise Unsupported(f"ncnn computes in float32, and a weight is {array.dtype.name}")
        name = f"w{len(self.weights)}"
        self.weights[name] = np.ascontiguousarray(array)
        self.shapes[name] = array.shape
        return name

    def scalar(self, value: float) -> str:
        return self.weight(np.array(value, np.float32))

    def op(self, kind: str, inputs: Sequence[str], shape: tuple[int, ...], **attributes: Any) -> str:
        return self.ops(kind, inputs, [shape], attributes)[0]

    def ops(self, kind: str, inputs: Sequence[str], shapes: Sequence[tuple[int, ...]], attributes: Any) -> list[str]:
        from onnx import helper, numpy_helper

        plain = {k: numpy_helper.from_array(v) if isinstance(v, np.ndarray) else v for k, v in attributes.items()}
        names = [f"v{self.count + i}" for i in range(len(shapes))]
        self.count += len(shapes)
        self.nodes.append(helper.make_node(kind, inputs, names, f"n{len(self.nodes)}", **plain))
        self.shapes.update(zip(names, shapes, strict=True))
        return names

    def reshape(self, x: str, shape: tuple[int, ...]) -> str:
        if self.shapes[x] == shape:
            return x
        return self.op("Reshape", (x, self.weight(np.array(shape, np.int64))), shape)

    def concat(self, parts: Sequence[str], axis: int) -> str:
        if len(parts) == 1:
            return parts[0]
        shape = list(self.shapes[parts[0]])
        shape[axis] = sum(self.shapes[part][axis] for part in parts)
        return self.op("Concat", parts, tuple(shape), axis=axis)

    def cut(self, x: str, axis: int, start: int, stop: int) -> str:
        shape = self.shapes[x]
        if (start, stop) == (0, shape[axis]):
            return x
        made = (*shape[:axis], stop - start, *shape[axis + 1 :])
        if self.graph.opset < 10:
            return self.op("Slice", (x,), made, axes=[axis], starts=[start], ends=[stop])
        ends = [self.weight(np.array([number], np.int64)) for number in (start, stop, axis)]
        return self.op("Slice", (x, *ends), made)

    def pick(self, x: str, axis: int, indices: Sequence[int], operator: str) -> str:
        """The entries `indices` along `axis`, put together from slices of neighbours."""
        runs: list[list[int]] = []
        for index in indices:
            if runs and index == runs[-1][1]:
                runs[-1][1] += 1
            else:
                runs.append([index, index + 1])
        if len(runs) > MOST_PIECES:
            raise Unsupported(
                f"ncnn has no {operator} of {len(runs)} scattered pieces; edgewise spells out {MOST_PIECES}"
            )
        return self.concat([self.cut(x, axis, start, stop) for start, stop in runs], axis)

    def every(self, x: str, axis: int, start: int, count: int, step: int) -> str:
        """Each `step`-th of `count` entries: the first column of a view as a table of `step` columns."""
        shape = self.shapes[x]
        before, after = shape[:axis], shape[axis + 1 :]
        full = count if start + count * step <= shape[axis] else count - 1
        parts = []
        if full:
            rows = self.cut(x, axis, start, start + full * step)
            table = self.reshape(rows, (1, prod(before), full, step * prod(after)))
            parts.append(self.reshape(self.cut(table, 3, 0, prod(after)), (*before, full, *after)))
        if full < count:
            last = start + full * step
            parts.append(self.cut(x, axis, last, last + 1))
        return self.concat(parts, axis)

    def generic(self, node: Node) -> list[str]:
        inputs = []
        for name in node.inputs:
            # Sizes and axes stay what they are; what is computed with becomes a float.
            keep = name in self.graph.constants and self.whole(name)
            inputs.append("" if not name else self.weight(self.graph.constants[name]) if keep else self.value(name))
        shapes = [self.shape(name) if name in self.graph.values else () for name in node.outputs]
        return self.ops(node.operator, inputs, shapes, node.attributes)

    def binary(self, kind: str, a: str, b: str) -> str:
        return self.op(kind, (a, b), np.broadcast_shapes(self.shapes[a], self.shapes[b]))
