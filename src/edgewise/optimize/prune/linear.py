"""A convolution or a product with constant weights as the matrix it is: from rows of features to rows of outputs."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from ...model.graph import Array, Graph, Node
from .coupling import groups_go


@dataclass(frozen=True, slots=True)
class Linear:
    """A row per output, a column per feature; the features of one input channel lie side by side, `places` of them.
    Of a convolution in groups, each is a matrix of its own: `part` of `parts`."""

    node: Node
    weights: Array
    bias: Array
    places: int
    part: int = 0
    parts: int = 1

    @property
    def name(self) -> str:
        return self.node.name if self.parts == 1 else f"{self.node.name}[{self.part}]"

    def share(self, channels: int) -> slice:
        """Which channels are its own, of those that the whole node takes or makes."""
        each = channels // self.parts
        return slice(self.part * each, (self.part + 1) * each)

    @property
    def biased(self) -> bool:
        """Whether a bias can be given to it."""
        return self.node.operator != "MatMul"


def linear(graph: Graph, node: Node) -> tuple[Linear, ...]:
    """What `node` does, where it is a convolution or a product with constants; none where channels go by groups."""
    if node.domain or len(node.inputs) < 2 or node.inputs[1] not in graph.constants:
        return ()
    bias = node.inputs[2] if len(node.inputs) > 2 else ""
    if bias and bias not in graph.constants:
        return ()
    weights, parts = graph.constants[node.inputs[1]], 1
    if node.operator == "Conv":
        parts = int(node.attributes.get("group", 1))
        if groups_go(parts, parts * weights.shape[1], len(weights)):
            return ()
        places = math.prod(weights.shape[2:])
    elif node.operator in ("Gemm", "MatMul"):
        scaled = any(node.attributes.get(name, 1.0) != 1.0 for name in ("alpha", "beta"))
        shape = graph.values[node.inputs[0]].shape if node.inputs[0] in graph.values else None
        if scaled or node.attributes.get("transA", 0) or weights.ndim != 2 or shape is None or len(shape) != 2:
            return ()
        places = 1
        if not node.attributes.get("transB", 0):
            weights = weights.T
    else:
        return ()
    weights = weights.reshape(len(weights), -1).astype(np.float64)
    found = np.broadcast_to(graph.constants[bias], (1, len(weights)))[0] if bias else np.zeros(len(weights))
    each = zip(np.split(weights, parts), np.split(found.astype(np.float64), parts), strict=True)
    return tuple(Linear(node, *those, places, part, parts) for part, those in enumerate(each))


def rewritten(graph: Graph, layer: Linear, weights: Array, bias: Array) -> Graph:
    """The graph with other weights in one layer, of the sizes they have there."""
    # Another part of it may have been given a bias since.
    node = next(each for each in graph.nodes if each.name == layer.node.name)
    old = graph.constants[node.inputs[1]]
    made = weights.astype(old.dtype)
    if node.operator != "Conv" and not node.attributes.get("transB", 0):
        constants = {**graph.constants, node.inputs[1]: made.T.copy()}
    else:
        constants = {**graph.constants, node.inputs[1]: _put(old, made.reshape(-1, *old.shape[1:]), layer)}
    if not layer.biased:
        return replace(graph, constants=constants)
    if len(node.inputs) > 2 and node.inputs[2]:
        constants[node.inputs[2]] = _put(constants[node.inputs[2]], bias, layer)
        return replace(graph, constants=constants)
    name = f"{node.inputs[1]}.bias"
    constants[name] = _put(np.zeros(len(bias) * layer.parts, old.dtype), bias, layer)
    biased = replace(node, inputs=(*node.inputs[:2], name))
    nodes = tuple(biased if each.name == node.name else each for each in graph.nodes)
    return replace(graph, constants=constants, nodes=nodes)


def _put(whole: Array, those: Array, layer: Linear) -> Array:
    """`whole`, with a row for each channel the node makes, with `those` in the place of the layer's own."""
    if layer.parts == 1:
        return those.astype(whole.dtype)
    found = whole.copy()
    found[layer.share(len(whole))] = those
    return found


def patches(layer: Linear, x: Array, at: Array) -> Array:
    """Rows of features: what `layer` sees of `x` at each place `at` of its output (sample, then where in it)."""
    if layer.node.operator != "Conv":
        return np.ascontiguousarray(x[at[:, 0]], np.float32)
    attributes = layer.node.attributes
    x = x[:, layer.share(x.shape[1])]
    spatial = x.shape[2:]
    kernel = _kernel(layer, x.shape[1])
    strides = attributes.get("strides") or [1] * len(spatial)
    dilations = attributes.get("dilations") or [1] * len(spatial)
    x = np.pad(x, [(0, 0), (0, 0), *_pads(layer.node, spatial, kernel, strides, dilations)])
    index = [at[:, :1]]
    for axis, offsets in enumerate(np.indices(kernel).reshape(len(kernel), -1)):
        index.append(at[:, 1 + axis, None] * strides[axis] + offsets * dilations[axis])
    found = np.moveaxis(x, 1, -1)[tuple(index)]
    return np.ascontiguousarray(found.transpose(0, 2, 1)).reshape(len(at), -1)


def rows(y: Array, at: Array) -> Array:
    """Rows of outputs at the places `at`."""
    return np.ascontiguousarray(np.moveaxis(y, 1, -1)[tuple(at.T)])


def _kernel(layer: Linear, channels: int) -> tuple[int, ...]:
    given = layer.node.attributes.get("kernel_shape")
    if given:
        return tuple(given)
    side = layer.weights.shape[1] // channels
    return (math.isqrt(side),) * 2


def _pads(
    node: Node, spatial: tuple[int, ...], kernel: tuple[int, ...], strides: list[int], dilations: list[int]
) -> list[tuple[int, int]]:
    """Before and after, along each axis."""
    way = node.attributes.get("auto_pad", "NOTSET")
    way = way.decode() if isinstance(way, bytes) else way
    if not way.startswith("SAME"):
        pads = node.attributes.get("pads") or [0] * (2 * len(spatial))
        return list(zip(pads[: len(spatial)], pads[len(spatial) :], strict=True))
    found = []
    for size, side, stride, dilation in zip(spatial, kernel, strides, dilations, strict=True):
        whole = max(0, (math.ceil(size / stride) - 1) * stride + (side - 1) * dilation + 1 - size)
        less, more = whole // 2, whole - whole // 2
        found.append((less, more) if way == "SAME_UPPER" else (more, less))
    return found
