"""Layers that are a product with constant weights, each as one matrix: convolutions, Gemm, MatMul."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ...model.graph import Array, Graph, Node

# Before this Gemm says in an attribute how its bias is spread.
_GEMM_OPSET = 7


@dataclass(frozen=True, slots=True)
class Window:
    """What a convolution reads for one output, along each axis of space."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    dilations: tuple[int, ...]

    def sizes(self, given: Sequence[int]) -> tuple[int, ...]:
        """Outputs along each axis."""
        return tuple(
            (size + self.before[i] + self.after[i] - self.dilations[i] * (self.kernel[i] - 1) - 1) // self.strides[i]
            + 1
            for i, size in enumerate(given)
        )

    def along(self, axes: Sequence[int]) -> Window:
        """The same along these axes, a single point along the others."""

        def only(settings: tuple[int, ...], otherwise: int) -> tuple[int, ...]:
            return tuple(each if axis in axes else otherwise for axis, each in enumerate(settings))

        return Window(
            only(self.kernel, 1),
            only(self.strides, 1),
            only(self.before, 0),
            only(self.after, 0),
            only(self.dilations, 1),
        )


@dataclass(frozen=True, slots=True)
class Layer:
    """`weight` is [made, taken, *kernel], the factors of a Gemm inside; `bias` is None where there is no room for one.
    `window` is None where it is no convolution."""

    node: Node
    weight: Array
    bias: Array | None
    window: Window | None

    @property
    def matrix(self) -> Array:
        """What one output takes from one patch."""
        return self.weight.reshape(len(self.weight), -1)


def layers(graph: Graph) -> Iterator[Layer]:
    """Those that several smaller ones can stand for: floating-point weights, one group, not the first convolution,
    whose input is thin and whose errors everything after it would see."""
    first = next((node.name for node in graph.nodes if node.operator == "Conv"), None)
    for node in graph.nodes:
        if node.name == first or node.domain or len(node.inputs) < 2 or node.inputs[0] not in graph.values:
            continue
        weight = graph.constants.get(node.inputs[1])
        shape = graph.values[node.inputs[0]].shape
        if weight is None or weight.dtype not in (np.float32, np.float16, np.float64) or not shape:
            continue
        if not all(isinstance(size, int) for size in shape[1:]):
            continue
        found = None
        if node.operator == "Conv":
            found = _conv(graph, node, weight)
        elif node.operator == "Gemm" and graph.opset >= _GEMM_OPSET:
            found = _gemm(graph, node, weight)
        elif node.operator == "MatMul" and weight.ndim == 2:
            found = Layer(node, weight.T, None, None)
        if found is not None and min(found.matrix.shape) > 1:
            yield found


def _conv(graph: Graph, node: Node, weight: Array) -> Layer | None:
    bias = _bias(graph, node, len(weight))
    if int(node.attributes.get("group", 1)) != 1 or bias is None:
        return None
    return Layer(node, weight, bias, window(graph, node))


def _gemm(graph: Graph, node: Node, weight: Array) -> Layer | None:
    if node.attributes.get("transA", 0) or weight.ndim != 2:
        return None
    weight = weight if node.attributes.get("transB", 0) else weight.T
    bias = _bias(graph, node, len(weight))
    if bias is None:
        return None
    alpha, beta = (weight.dtype.type(node.attributes.get(name, 1.0)) for name in ("alpha", "beta"))
    return Layer(node, alpha * weight, beta * bias, None)


def _bias(graph: Graph, node: Node, made: int) -> Array | None:
    """One number for each output; None where it is something else."""
    if len(node.inputs) < 3 or not node.inputs[2]:
        return np.zeros(made, graph.constants[node.inputs[1]].dtype)
    given = graph.constants.get(node.inputs[2])
    if given is None or given.size not in (1, made) or (given.ndim and given.shape[-1] != given.size):
        return None
    return np.broadcast_to(given.reshape(-1), made)


def window(graph: Graph, node: Node) -> Window:
    """The settings of a convolution, with the padding in numbers."""
    weight, shape = graph.constants[node.inputs[1]], graph.values[node.inputs[0]].shape
    assert shape is not None
    kernel = weight.shape[2:]
    axes = len(kernel)
    strides = tuple(int(each) for each in node.attributes.get("strides", (1,) * axes))
    dilations = tuple(int(each) for each in node.attributes.get("dilations", (1,) * axes))
    pads = tuple(int(each) for each in node.attributes.get("pads", (0,) * 2 * axes))
    how = node.attributes.get("auto_pad", "NOTSET")
    how = how.decode() if isinstance(how, bytes) else str(how)
    if how.startswith("SAME"):
        sizes = [size for size in shape[2:] if isinstance(size, int)]
        wanted = [
            max(0, (math.ceil(size / stride) - 1) * stride + dilation * (k - 1) + 1 - size)
            for size, stride, dilation, k in zip(sizes, strides, dilations, kernel, strict=True)
        ]
        less, more = tuple(each // 2 for each in wanted), tuple(each - each // 2 for each in wanted)
        pads = (*less, *more) if how == "SAME_UPPER" else (*more, *less)
    elif how == "VALID":
        pads = (0,) * 2 * axes
    return Window(kernel, strides, pads[:axes], pads[axes:], dilations)
