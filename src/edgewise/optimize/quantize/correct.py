"""Biases moved so that each layer of a quantized network gives, in the mean, what it gave in float.

Rounding shifts the mean of every output channel a little, and the shifts add up from layer to layer. Layer by layer, in
the order they run, the mean over samples and places is compared with the float network's, and the difference taken out
of the bias; the next layer is compared with all before it corrected. The quantized network is run in pieces, from one
layer to the next, so all of it costs one run of it, whatever its depth: a bias moves the mean of its own layer by
exactly what it is moved by, and that layer need not run again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from ...model.graph import Array, Graph, Node
from ..observe import Observe, observer
from .sensitivity import layers

# The samples an observer is to run, by input.
Watch = Callable[[Mapping[str, Array]], Observe]


@dataclass(frozen=True, slots=True)
class Bias:
    """A layer with a bias of its own: the constant, and the axis of its output that has the channels."""

    layer: Node
    constant: str
    axis: int


def biases(graph: Graph) -> Iterator[Bias]:
    """Every layer whose bias can be moved: a constant nobody else uses, of the layer itself or added after it."""
    readers: dict[str, list[Node]] = {}
    for node in graph.nodes:
        for name in node.inputs:
            readers.setdefault(name, []).append(node)
    uses = Counter(name for node in graph.nodes for name in node.inputs)
    for node in layers(graph):
        name, axis = _bias(node, graph, readers)
        if name and uses[name] == 1 and name in graph.constants and node.outputs[0] in graph.values:
            yield Bias(node, name, axis)


def _bias(node: Node, graph: Graph, readers: Mapping[str, list[Node]]) -> tuple[str, int]:
    if node.operator == "MatMul":
        after = readers.get(node.outputs[0], [])
        if len(after) != 1 or after[0].operator != "Add" or node.outputs[0] in graph.outputs:
            return "", -1
        added = next((name for name in after[0].inputs if name != node.outputs[0]), "")
        shape = graph.constants[added].shape if added in graph.constants else ()
        width = graph.constants[node.inputs[1]].shape[-1]
        return (added, -1) if shape and shape[-1] == width and np.prod(shape) == width else ("", -1)
    if node.operator == "Gemm" and (node.attributes.get("beta", 1.0) != 1.0 or len(node.inputs) < 3):
        return "", 1
    return (node.inputs[2], 1) if len(node.inputs) > 2 else ("", 1)


def corrected(graph: Graph, quantized: Graph, samples: Mapping[str, Array], watch: Watch = observer) -> Graph:
    """`graph` with other biases; quantized again, it is `quantized` without the shifts of the mean. Its layers have the
    same names in both."""
    found = {bias.layer.name: bias for bias in biases(graph)}
    wanted = _means(graph, found, watch(samples))
    constants = dict(graph.constants)
    for name, shift in _shifts(quantized, found, wanted, samples, watch):
        bias = constants[found[name].constant]
        constants[found[name].constant] = (bias - shift.reshape(bias.shape)).astype(bias.dtype)
    return replace(graph, constants=constants)


def _means(graph: Graph, found: Mapping[str, Bias], observe: Observe) -> dict[str, Array]:
    """By layer, the mean of each channel of what it gives."""
    sums: dict[str, Array] = {}
    counts: dict[str, int] = {}
    outputs = {bias.layer.outputs[0]: bias for bias in found.values()}
    for values in observe(graph, list(outputs)):
        for output, array in values.items():
            name, axis = outputs[output].layer.name, outputs[output].axis
            total, count = _total(array, axis)
            sums[name] = sums.get(name, 0.0) + total
            counts[name] = counts.get(name, 0) + count
    return {name: total / counts[name] for name, total in sums.items()}


def _total(array: Array, axis: int) -> tuple[Array, int]:
    others = tuple(place for place in range(array.ndim) if place != axis % array.ndim)
    return np.asarray(array.sum(others, dtype=np.float64)), array.size // array.shape[axis]


def _shifts(
    graph: Graph, found: Mapping[str, Bias], wanted: Mapping[str, Array], samples: Mapping[str, Array], watch: Watch
) -> Iterator[tuple[str, Array]]:
    """By layer, by how much its mean is off once all before it are corrected."""
    makers = {name: node for node in graph.nodes for name in node.outputs if name}
    left = Counter(name for node in graph.nodes for name in node.inputs)
    same = _of_constants(graph)
    held = dict(samples)
    for layer in [node for node in graph.nodes if node.name in found]:
        piece = _piece(graph, layer, held, makers)
        for node in piece:
            left.subtract(node.inputs)
        made = [
            name
            for node in piece
            for name in node.outputs
            if name not in same and (left[name] > 0 or name == layer.outputs[0])
        ]
        taken = {name: held[name] for node in piece for name in node.inputs if name in held}
        part = replace(graph, nodes=tuple(piece), inputs=tuple(taken), outputs=tuple(made))
        runs = list(watch(taken)(part, made))
        for name in made:
            held[name] = np.concatenate([run[name] for run in runs])
        total, count = _total(held[layer.outputs[0]], found[layer.name].axis)
        shift = total / count - wanted[layer.name]
        yield layer.name, shift
        array, axis = held[layer.outputs[0]], found[layer.name].axis % held[layer.outputs[0]].ndim
        shape = [-1 if place == axis else 1 for place in range(array.ndim)]
        held[layer.outputs[0]] = array - shift.reshape(shape).astype(array.dtype)
        held = {name: array for name, array in held.items() if left[name] > 0}


def _of_constants(graph: Graph) -> set[str]:
    """Values that no sample changes, such as weights out of 8 bits: made anew wherever they are taken."""
    found: set[str] = set()
    for node in graph.nodes:
        if all(not name or name in graph.constants or name in found for name in node.inputs):
            found.update(node.outputs)
    return found


def _piece(graph: Graph, layer: Node, held: Mapping[str, Array], makers: Mapping[str, Node]) -> list[Node]:
    """What must run to get from the values there are to what the layer gives, in order."""
    wanted, needed = [layer], {layer.name}
    while wanted:
        for name in wanted.pop().inputs:
            maker = makers.get(name)
            if name not in held and maker is not None and maker.name not in needed:
                needed.add(maker.name)
                wanted.append(maker)
    return [node for node in graph.nodes if node.name in needed]
