"""A convolution or a product with constant weights as the matrix it is: from rows of features to rows of outputs."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from ...model.graph import Array, Graph, Node


@dataclass(frozen=True, slots=True)
class Linear:
    """A row per output, a column per feature; the features of one input channel lie side by side, `places` of them."""

    node: Node
    weights: Array
    bias: Array
    places: int

    @property
    def biased(self) -> bool:
        """Whether a bias can be given to it."""
        return self.node.operator != "MatMul"


def linear(graph: Graph, node: Node) -> Linear | None:
    """What `node` does, where it is a convolution of all channels or a product with constants."""
    if node.domain or len(node.inputs) < 2 or node.inputs[1] not in graph.constants:
        return None
    bias = node.inputs[2] if len(node.inputs) > 2 else ""
    if bias and bias not in graph.constants:
        return None
    weights = graph.constants[node.inputs[1]]
    if node.operator == "Conv":
        if int(node.attributes.get("group", 1)) != 1:
            return None
        places = math.prod(weights.shape[2:])
    elif node.operator in ("Gemm", "MatMul"):
        scaled = any(node.attributes.get(name, 1.0) != 1.0 for name in ("alpha", "beta"))
        shape = graph.values[node.inputs[0]].shape if node.inputs[0] in graph.values else None
        if scaled or node.attributes.get("transA", 0) or weights.ndim != 2 or shape is None or len(shape) != 2:
            return None
        places = 1
        if not node.attributes.get("transB", 0):
            weights = weights.T
    else:
        return None
    weights = weights.reshape(len(weights), -1).astype(np.float64)
    found = np.broadcast_to(graph.constants[bias], (1, len(weights)))[0] if bias else np.zeros(len(weights))
    return Linear(node, weights, found.astype(np.float64), places)


def rewritten(graph: Graph, layer: Linear, weights: Array, bias: Array) -> Graph:
    """The graph with other weights in one layer, of the sizes they have there."""
    node = layer.node
    old = graph.constants[node.inputs[1]]
    made = weights.astype(old.dtype)
    flipped = node.operator != "Conv" and not node.attributes.get("transB", 0)
    constants = {**graph.constants, node.inputs[1]: made.T.copy() if flipped else made.reshape(old.shape)}
    if not layer.biased:
        return replace(graph, constants=constants)
    if len(node.inputs) > 2 and node.inputs[2]:
        constants[node.inputs[2]] = bias.astype(old.dtype)
        return replace(graph, constants=constants)
    name = f"{node.inputs[1]}.bias"
    constants[name] = bias.astype(old.dtype)
    biased = replace(node, inputs=(*node.inputs[:2], name))
    nodes = tuple(biased if each.name == node.name else each for each in graph.nodes)
    return replace(graph, constants=constants, nodes=nodes)


def patches(layer: Linear, x: Array, at: Array) -> Array:
    """Rows of features: what `layer` sees of `x` at each place `at` of its output (sample, then where in it)."""
    if layer.node.operator != "Conv":
        return np.ascontiguousarray(x[at[:, 0]], np.float32)
    attributes = layer.node.attributes
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
