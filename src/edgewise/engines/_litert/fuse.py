"""What is joined before a graph is written: batch normalization into weights, additions into biases, activations
into what they follow, and the pieces of GELU and hard-swish into one operator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from math import inf, sqrt

import numpy as np

from ...core.protocols import Array
from ...model.graph import Graph, Node
from .writer import FUSED

_TAKE_ACTIVATION = (
    "Conv", "Add", "Sub", "Mul", "Div", "Gemm", "MatMul", "MaxPool", "AveragePool", "BatchNormalization",
)  # fmt: skip
_LIMITS = {(0.0, inf): "RELU", (0.0, 6.0): "RELU6", (-1.0, 1.0): "RELU_N1_TO_1", (0.0, 1.0): "RELU_0_TO_1"}


def limits(node: Node, constants: dict[str, Array]) -> tuple[float, float] | None:
    """What Relu or Clip holds its input between; None where that is not constant."""
    if node.operator == "Relu":
        return 0.0, inf
    if node.operator != "Clip":
        return None
    found = [float(node.attributes.get("min", -inf)), float(node.attributes.get("max", inf))]
    for i, name in enumerate(node.inputs[1:3]):
        if name:
            if name not in constants:
                return None
            found[i] = float(constants[name].reshape(()))
    return found[0], found[1]


def activation(node: Node, constants: dict[str, Array]) -> str:
    """The name under which Relu or Clip is known, or nothing."""
    between = limits(node, constants)
    return _LIMITS.get(between, "") if between else ""


def fuse(graph: Graph) -> Graph:
    return places(graph)[0]


def places(graph: Graph) -> tuple[Graph, list[int]]:
    """The joined graph, and for each node of `graph` its place in there, or that of the node it is part of."""
    work = _Work(graph)
    work.simpler()
    work.gelu()
    work.hard_swish()
    work.normalization()
    work.factors()
    work.bias()
    work.activations()
    return replace(graph, nodes=tuple(work.nodes()), constants=work.constants), work.places()


class _Work:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.constants = dict(graph.constants)
        self._nodes: dict[int, Node] = dict(enumerate(graph.nodes))
        self._uses = Counter(name for node in graph.nodes for name in node.inputs)
        self._uses.update(graph.outputs)
        self._part_of: dict[int, int] = {}
        self._maker = {name: i for i, node in enumerate(graph.nodes) for name in node.outputs}
        self._readers: dict[str, list[int]] = {}
        for i, node in enumerate(graph.nodes):
            for name in node.inputs:
                self._readers.setdefault(name, []).append(i)

    def nodes(self) -> Iterator[Node]:
        return (self._nodes[i] for i in sorted(self._nodes))

    def places(self) -> list[int]:
        order = {i: place for place, i in enumerate(sorted(self._nodes))}
        found = []
        for i in range(len(self.graph.nodes)):
            last = i
            while last not in order:
                last = self._part_of[last]
            found.append(order[last])
        return found

    def _by_kind(self, *kinds: str) -> list[int]:
        return [i for i, node in self._nodes.items() if node.operator in kinds and node.domain in ("", "ai.onnx")]

    def _before(self, name: str, *kinds: str) -> tuple[int, Node] | None:
        """The node that makes `name` for one reader only, if it is of these kinds."""
        i = self._maker.get(name)
        if i is None or i not in self._nodes or self._uses[name] != 1 or self._nodes[i].operator not in kinds:
            return None
        return i, self._nodes[i]

    def _after(self, name: str, *kinds: str) -> tuple[int, Node] | None:
        """The only reader of `name`, if it is of these kinds."""
        readers = [i for i in self._readers.get(name, []) if i in self._nodes]
        if self._uses[name] != 1 or len(readers) != 1 or self._nodes[readers[0]].operator not in kinds:
            return None
        return readers[0], self._nodes[readers[0]]

    def _join(self, first: int, last: int, node: Node) -> None:
        """`node` stands for both, at the place of `first`, and makes what `last` made."""
        del self._nodes[last]
        self._part_of[last] = first
        self._nodes[first] = node
        for name in node.outputs:
            self._maker[name] = first

    def _is(self, name: str, value: float) -> bool:
        array = self.constants.get(name)
        return array is not None and array.size == 1 and abs(float(array.reshape(())) - value) < 1e-5 * abs(value)

    def _other(self, node: Node, name: str) -> str:
        return node.inputs[1] if node.inputs[0] == name else node.inputs[0]

    def simpler(self) -> None:
        """A sum of two is an addition."""
        for i in self._by_kind("Sum"):
            if len(self._nodes[i].inputs) == 2:
                self._nodes[i] = replace(self._nodes[i], operator="Add")

    def gelu(self) -> None:
        """x × 0.5 × (1 + erf(x / √2)), in whichever order it is multiplied."""
        for i in self._by_kind("Erf"):
            scaled = self._before(self._nodes[i].inputs[0], "Div", "Mul")
            shifted = self._after(self._nodes[i].outputs[0], "Add")
            if not scaled or not shifted:
                continue
            x = next((name for name in scaled[1].inputs if name not in self.constants), "")
            factor = self._other(scaled[1], x)
            right = self._is(factor, sqrt(2)) if scaled[1].operator == "Div" else self._is(factor, sqrt(0.5))
            if not right or scaled[1].inputs[0] in self.constants or not self._plus_one(shifted[1], i):
                continue
            removed, last = [scaled[0], i, shifted[0]], shifted
            missing = {x, "0.5"}
            while missing and (product := self._after(last[1].outputs[0], "Mul")):
                other = self._other(product[1], last[1].outputs[0])
                halved = self._before(other, "Mul")
                if other == x and x in missing:
                    missing.discard(x)
                elif self._is(other, 0.5) and "0.5" in missing:
                    missing.discard("0.5")
                elif halved and x in halved[1].inputs and self._is(self._other(halved[1], x), 0.5) and len(missing) > 1:
                    missing.clear()
                    removed.append(halved[0])
                else:
                    break
                removed.append(product[0])
                last = product
            if missing:
                continue
            for each in removed:
                del self._nodes[each]
                self._part_of[each] = last[0]
            # Where the last one stood, so that everything it reads is there already.
            self._nodes[last[0]] = Node(last[1].name, "Gelu", (x,), last[1].outputs, {})
            self._uses[x] -= 1

    def _plus_one(self, node: Node, erf: int) -> bool:
        return self._is(self._other(node, self._nodes[erf].outputs[0]), 1.0)

    def hard_swish(self) -> None:
        """x × hardsigmoid(x)"""
        for i in self._by_kind("HardSigmoid"):
            node = self._nodes[i]
            usual = abs(node.attributes.get("alpha", 0.2) - 1 / 6) < 1e-6 and node.attributes.get("beta", 0.5) == 0.5
            product = self._after(node.outputs[0], "Mul")
            if usual and product and self._other(product[1], node.outputs[0]) == node.inputs[0]:
                del self._nodes[i]
                self._part_of[i] = product[0]
                name, outputs = product[1].name, product[1].outputs
                self._nodes[product[0]] = Node(name, "HardSwish", (node.inputs[0],), outputs, {})
                self._uses[node.inputs[0]] -= 1

    def normalization(self) -> None:
        """A convolution followed by batch normalization is a convolution with other weights."""
        for i in self._by_kind("BatchNormalization"):
            node = self._nodes[i]
            numbers = [self.constants[name] for name in node.inputs[1:5] if name in self.constants]
            if len(numbers) == 4 and not node.attributes.get("training_mode"):
                scale, shift, mean, variance = (array.astype(np.float64) for array in numbers)
                factor = scale / np.sqrt(variance + node.attributes.get("epsilon", 1e-5))
                self._scale(i, node.inputs[0], factor, shift - mean * factor)

    def factors(self) -> None:
        """So is one whose channels are then multiplied, or added to."""
        for i in self._by_kind("Mul", "Add"):
            node = self._nodes[i]
            for x, other in (node.inputs, node.inputs[::-1]):
                array, shape = self.constants.get(other), self.graph.values[x].shape if other in self.constants else ()
                if array is None or not shape or len(shape) < 3 or array.ndim > len(shape):
                    continue
                wide = array.reshape((1,) * (len(shape) - array.ndim) + array.shape)
                if wide.size in (1, wide.shape[1]) and wide.shape[1] in (1, shape[1]):
                    one, zero = np.ones(1), np.zeros(1)
                    flat = wide.reshape(-1).astype(np.float64)
                    self._scale(i, x, *((flat, zero) if node.operator == "Mul" else (one, flat)))

    def _scale(self, i: int, x: str, factor: Array, shift: Array) -> None:
        """Node `i`, which makes factor × x + shift, becomes part of the convolution that makes x."""
        before = self._before(x, "Conv")
        if not before:
            return
        (first, conv), node = before, self._nodes[i]
        weights = self.constants.get(conv.inputs[1])
        biased = len(conv.inputs) > 2 and conv.inputs[2] != ""
        bias = self.constants.get(conv.inputs[2]) if biased else np.zeros(1, np.float32)
        if weights is None or bias is None or weights.dtype != np.float32:
            return
        names = conv.inputs[0], f"{node.outputs[0]}/weights", f"{node.outputs[0]}/bias"
        joined = weights * factor.reshape(-1, *[1] * (weights.ndim - 1))
        self.constants[names[1]] = joined.astype(np.float32)
        full = np.broadcast_to(bias * factor + shift, weights.shape[:1])
        self.constants[names[2]] = full.astype(np.float32)
        self._join(first, i, replace(conv, inputs=names, outputs=node.outputs[:1]))

    def bias(self) -> None:
        """A product with constant weights takes the sum that follows as its bias."""
        for i in self._by_kind("MatMul"):
            node = self._nodes[i]
            after = self._after(node.outputs[0], "Add")
            weights = self.constants.get(node.inputs[1])
            if not after or weights is None or weights.ndim != 2:
                continue
            added = self.constants.get(self._other(after[1], node.outputs[0]))
            # Not where adding would broadcast the product to more axes than it has.
            shape = self.graph.values[node.outputs[0]].shape
            if added is None or shape is None or added.ndim > len(shape) or added.size != weights.shape[1]:
                continue
            if added.shape[-1:] != (weights.shape[1],):
                continue
            name = f"{node.outputs[0]}/bias"
            self.constants[name] = added.reshape(-1)
            self._join(i, after[0], replace(node, inputs=(*node.inputs, name), outputs=after[1].outputs))

    def activations(self) -> None:
        for i in self._by_kind("Relu", "Clip"):
            node = self._nodes[i]
            name = activation(node, self.constants)
            before = self._before(node.inputs[0], *_TAKE_ACTIVATION)
            if not before or name in ("", "RELU_0_TO_1") or FUSED in before[1].attributes:
                continue
            first, maker = before
            value = self.graph.values[maker.outputs[0]]
            weights = self.constants.get(maker.inputs[1]) if maker.operator == "MatMul" else None
            plain_product = maker.operator == "MatMul" and (weights is None or weights.ndim != 2)
            several = any(self._uses[name] for name in maker.outputs[1:])
            if value.dtype != "float32" or plain_product or several:
                continue
            attributes = {**maker.attributes, FUSED: name}
            self._join(first, i, replace(maker, attributes=attributes, outputs=node.outputs[:1]))
