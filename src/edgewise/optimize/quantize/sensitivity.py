"""What it does to the outputs to quantize one layer, and nothing else: which layers are better left in float.

A layer is quantized in a copy of the network, its weights by the numbers they would become, what it takes by a
QuantizeLinear and a DequantizeLinear in front of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...model.graph import Array, Graph, Node
from ..observe import Observe
from .ranges import Range, ranges

_LEVELS = 255
_SMALLEST = 1e-12


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """`mse` is the squared error of the outputs beside their variance; `kl` how far the classes' probabilities move
    (Kullback-Leibler, in nats, the mean over samples), None where no output is one row of classes per sample."""

    layer: str
    mse: float
    kl: float | None


def sensitivity(
    graph: Graph, observe: Observe, known: Mapping[str, Range] | None = None, levels: int = 127
) -> list[Sensitivity]:
    """Layer by layer, in the order they run. `known` are ranges from calibration, else taken from the same samples;
    `levels`, how far weights go to either side: 127, or 64 where they have 7 bits."""
    found = list(layers(graph))
    known = ranges(graph, observe, names=dict.fromkeys(node.inputs[0] for node in found)) if known is None else known
    expected = list(observe(graph, graph.outputs))
    return [
        Sensitivity(node.name, *difference(expected, observe(alone, graph.outputs)))
        for node in found
        for alone in [quantized_alone(graph, node, known[node.inputs[0]], levels)]
    ]


def layers(graph: Graph) -> Iterable[Node]:
    """What has weights: convolutions and products with a constant."""
    for node in graph.nodes:
        weights = graph.constants.get(node.inputs[1]) if axis_of(node) is not None and len(node.inputs) > 1 else None
        if weights is not None and weights.dtype == np.float32 and weights.ndim > 1:
            yield node


def axis_of(node: Node) -> int | None:
    """Along which axis its weights have a row per output; None for what is no layer."""
    if node.domain:
        return None
    transposed = bool(node.attributes.get("transB", 0))
    return {"Conv": 0, "ConvTranspose": 1, "Gemm": 0 if transposed else 1, "MatMul": -1}.get(node.operator)


def quantized_alone(graph: Graph, node: Node, taken: Range, levels: int = 127) -> Graph:
    """With this one layer as it would be in 8 bits."""
    axis = axis_of(node)
    assert axis is not None
    x, weights = node.inputs[0], f"{node.name}/rounded"
    names = [f"{node.name}/{each}" for each in ("step", "zero", "levels", "taken")]
    step = max((taken[1] - taken[0]) / _LEVELS, _SMALLEST)
    constants = {
        **graph.constants,
        weights: rounded(graph.constants[node.inputs[1]], axis, levels),
        names[0]: np.array(step, np.float32),
        names[1]: np.array(round(-taken[0] / step), np.uint8),
    }
    pair = (
        Node(names[2], "QuantizeLinear", (x, names[0], names[1]), (names[2],), {}),
        Node(names[3], "DequantizeLinear", (names[2], names[0], names[1]), (names[3],), {}),
    )
    layer = replace(node, inputs=(names[3], weights, *node.inputs[2:]))
    nodes = tuple(one for each in graph.nodes for one in ((*pair, layer) if each.name == node.name else (each,)))
    return replace(graph, nodes=nodes, constants=constants)


def rounded(weights: Array, axis: int, levels: int) -> Array:
    """Weights as 8 bits hold them: a scale for each output."""
    others = tuple(place for place in range(weights.ndim) if place != axis % weights.ndim)
    step = np.maximum(np.abs(weights).max(others, keepdims=True) / levels, _SMALLEST)
    return np.asarray((np.rint(weights / step) * step).astype(weights.dtype))


def difference(
    expected: Sequence[Mapping[str, Array]], found: Iterable[Mapping[str, Array]]
) -> tuple[float, float | None]:
    """Of outputs from those expected: squared error beside the variance (the mean over outputs), and divergence of
    classes."""
    errors: dict[str, float] = {}
    moved: list[Array] = []
    for want, have in zip(expected, found, strict=True):
        for name, right in want.items():
            if right.dtype.kind == "f":
                wrong = have[name].astype(np.float64) - right
                errors[name] = errors.get(name, 0.0) + float(np.nan_to_num(np.square(wrong)).sum())
                if right.ndim == 2 and right.shape[1] > 1:
                    moved.append(_divergence(right.astype(np.float64), have[name].astype(np.float64)))
    relative = []
    for name, error in errors.items():
        all_of = np.concatenate([np.ravel(want[name]) for want in expected]).astype(np.float64)
        relative.append(error / max(float(np.nan_to_num(all_of).var()) * all_of.size, _SMALLEST))
    kl = float(np.concatenate(moved).mean()) if moved else None
    return float(np.mean(relative)) if relative else 0.0, kl


def _divergence(right: Array, have: Array) -> Array:
    """Of scores; of what is probabilities already, as it is."""
    already = bool(right.min() >= 0) and np.allclose(right.sum(1), 1, atol=1e-3)
    p, q = (right, np.maximum(have, 0)) if already else (_softmax(right), _softmax(have))
    return np.asarray(np.sum(p * (np.log(np.maximum(p, _SMALLEST)) - np.log(np.maximum(q, _SMALLEST))), axis=1))


def _softmax(rows: Array) -> Array:
    e = np.exp(rows - rows.max(1, keepdims=True))
    return np.asarray(e / e.sum(1, keepdims=True))
