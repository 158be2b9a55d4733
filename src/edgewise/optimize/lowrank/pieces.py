"""A layer as several smaller ones after each other: the nodes and the sizes, whatever the weights.

svd         a convolution with fewer outputs, then 1×1 (a Gemm or MatMul: one with fewer columns, then another)
separable   k×1 with fewer outputs, then 1×k
tucker      1×1 to fewer channels, the convolution on these, 1×1 to as many as before
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...core.errors import InputError
from ...core.types import Tensor
from ...model.graph import Array, Graph, Node
from ...model.work import Uncountable, work
from .layer import Layer, Window

FORMS = ("svd", "separable", "tucker")


@dataclass(frozen=True, slots=True)
class Choice:
    """Which form a layer gets, and how many channels there are between its pieces."""

    form: str
    ranks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Pieces:
    """Nodes to stand for one, the sizes of their weights ([made, taken, *kernel], the last of a Gemm and of a MatMul
    turned around) in the same order, and the values between them."""

    nodes: tuple[Node, ...]
    weights: Mapping[str, tuple[int, ...]]
    values: Mapping[str, Tensor]


def forms(layer: Layer) -> tuple[str, ...]:
    """Those that make something else of it."""
    if layer.window is None or math.prod(layer.window.kernel) == 1:
        return ("svd",)
    return FORMS if len(layer.window.kernel) == 2 and min(layer.window.kernel) > 1 else ("svd", "tucker")


def pieces(graph: Graph, layer: Layer, choice: Choice) -> Pieces:
    """The bias of the last node is the constant `NAME.bias`, where the layer can have one."""
    node = layer.node
    shape, dtype = graph.values[node.inputs[0]].shape, graph.values[node.outputs[0]].dtype
    assert shape is not None
    taken = {*graph.values, *graph.constants, *(each.name for each in graph.nodes)}
    nodes, weights, values = [], {}, {}
    steps = _steps(layer, choice)
    here = node.inputs[0]
    for number, (size, window) in enumerate(steps):
        last = number == len(steps) - 1
        name = node.name if last else _fresh(f"{node.name}.{number}", taken)
        made = node.outputs[0] if last else _fresh(f"{node.outputs[0]}.{number}", taken)
        weight = _fresh(f"{node.name}.{number}.weight", taken)
        inputs = [here, weight]
        if last and layer.bias is not None:
            inputs.append(_fresh(f"{node.name}.bias", taken))
        weights[weight] = size
        operator = node.operator if last or layer.window is not None else "MatMul"
        nodes.append(Node(name, operator, tuple(inputs), (made,), _attributes(window)))
        if not last:
            shape = _shape(shape, size, window)
            values[made] = Tensor(made, dtype, shape)
        here = made
    return Pieces(tuple(nodes), weights, values)


def replaced(graph: Graph, layer: Layer, made: Pieces, weights: Sequence[Array], bias: Array | None) -> Graph:
    """With a layer's pieces in its place; constants that nobody uses any more are gone."""
    dtype = graph.constants[layer.node.inputs[1]].dtype
    nodes = [each for node in graph.nodes for each in (made.nodes if node.name == layer.node.name else (node,))]
    used = {name for node in nodes for name in node.inputs} | set(graph.outputs)
    constants = {name: array for name, array in graph.constants.items() if name in used}
    for (name, size), weight in zip(made.weights.items(), weights, strict=True):
        shaped = weight.reshape(size).astype(dtype)
        constants[name] = shaped if layer.window is not None else np.ascontiguousarray(shaped.T)
    if bias is not None:
        constants[made.nodes[-1].inputs[2]] = np.asarray(bias, dtype)
    return replace(graph, nodes=tuple(nodes), constants=constants, values={**graph.values, **made.values})


def alone(graph: Graph, layer: Layer, choice: Choice | None) -> Graph:
    """One layer by itself, as it is or in pieces with made-up weights: for measuring what it takes."""
    node = layer.node
    shown = {name: tensor for name, tensor in graph.values.items() if name in (node.inputs[0], node.outputs[0])}
    used = {name: graph.constants[name] for name in node.inputs if name in graph.constants}
    one = Graph((node,), used, shown, (node.inputs[0],), (node.outputs[0],), graph.opset)
    if choice is None:
        return one
    made, chance = pieces(graph, layer, choice), np.random.default_rng(0)
    weights = [chance.standard_normal(size) / math.sqrt(math.prod(size[1:])) for size in made.weights.values()]
    return replaced(one, layer, made, weights, layer.bias)


def multiply_adds(graph: Graph, node: Node, layer: Layer | None = None, choice: Choice | None = None) -> int:
    """Those of a node, as it is or in pieces; 0 where nobody can count them."""
    sizes = {name: tuple(array.shape) for name, array in graph.constants.items()}
    known = dict(graph.values)
    nodes: tuple[Node, ...] = (node,)
    if layer is not None and choice is not None:
        made = pieces(graph, layer, choice)
        nodes, known = made.nodes, known | dict(made.values)
        sizes |= made.weights
    for name in {name for each in nodes for name in (*each.inputs, *each.outputs)} & set(known):
        shape = known[name].shape
        if shape is not None:
            sizes[name] = tuple(size if isinstance(size, int) else 1 for size in shape)
    return sum(_counted(each, sizes) for each in nodes)


def _counted(node: Node, sizes: Mapping[str, tuple[int, ...]]) -> int:
    try:
        return work(node, sizes).multiply_adds
    except Uncountable:
        return 0


def _steps(layer: Layer, choice: Choice) -> list[tuple[tuple[int, ...], Window | None]]:
    """The weights of each piece, and the window they are moved over."""
    if choice.form not in forms(layer):
        raise InputError(f"{layer.node.name!r} has no form {choice.form!r}; it has {', '.join(forms(layer))}")
    made, taken, *kernel = layer.weight.shape
    mixed = {"svd": (made,), "separable": (taken * kernel[0],), "tucker": (taken, made)} if kernel else {"svd": (made,)}
    most = mixed[choice.form]
    if len(choice.ranks) != len(most) or not all(0 < r <= m for r, m in zip(choice.ranks, most, strict=True)):
        wanted = ", ".join(f"1 to {each}" for each in most)
        raise InputError(f"the ranks of {layer.node.name!r} as {choice.form} are {wanted}; found {choice.ranks}")
    first, last = choice.ranks[0], choice.ranks[-1]
    window = layer.window
    if window is None:
        return [((first, taken), None), ((made, first), None)]
    point, ones = window.along(()), (1,) * len(kernel)
    if choice.form == "svd":
        return [((first, taken, *kernel), window), ((made, first, *ones), point)]
    if choice.form == "separable":
        return [
            ((first, taken, kernel[0], 1), window.along((0,))),
            ((made, first, 1, kernel[1]), window.along((1,))),
        ]
    return [
        ((first, taken, *ones), point),
        ((last, first, *kernel), window),
        ((made, last, *ones), point),
    ]


def _attributes(window: Window | None) -> dict[str, object]:
    if window is None:
        return {}
    return {
        "kernel_shape": list(window.kernel),
        "strides": list(window.strides),
        "pads": [*window.before, *window.after],
        "dilations": list(window.dilations),
    }


def _shape(
    given: tuple[int | str | None, ...], weight: tuple[int, ...], window: Window | None
) -> tuple[int | str | None, ...]:
    if window is None:
        return (*given[:-1], weight[0])
    return (given[0], weight[0], *window.sizes([size for size in given[2:] if isinstance(size, int)]))


def _fresh(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    taken.add(name)
    return name
