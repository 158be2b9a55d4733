"""The layers of a smaller network fitted to what the whole one made: least squares, layer by layer, no training.

In order, so that each layer makes up for what those before it got wrong. Where a layer's output is added to something,
it makes up for the error of that too; where what is below zero is thrown away afterwards, only being below counts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ...model.graph import Array, Graph, Node
from ..observe import Observe
from ..sums import CHUNK
from .coupling import Coupled
from .linear import Linear, linear, patches, rewritten, rows
from .statistics import ROWS, held, per_sample, places
from .walk import Walk, fed

# Of the mean of the features' variances: how strongly weights are held where they were. A few thousand images are few
# for layers of thousands of features: held ten times more loosely, they fit those images better and others worse.
RIDGE = 0.1
_ROUNDS = 4
_SAMPLES = 256


@dataclass(frozen=True, slots=True)
class Aim:
    """A layer to be fitted, after `place` in the network: so that `target`, its output plus `beside` where it is added
    to that, is what it was. Below `low` and above `high` any value will do."""

    layer: Linear
    place: int
    target: str
    beside: str | None
    low: float
    high: float


def repair(
    whole: Graph,
    smaller: Graph,
    gone: Iterable[Coupled],
    observe: Observe,
    *,
    ridge: float = RIDGE,
    rounds: int = _ROUNDS,
    affine: bool = False,
    beside: bool = True,
    least: int = ROWS,
) -> Graph:
    """`smaller`, which is `whole` without the classes `gone`, with weights that make up for them.

    `rounds`: how often targets are set anew where only a side counts; 0: plain least squares. `affine`: every output
    is given the mean and the spread it had. `beside`: sums are made up for, not only what goes into them.
    """
    samples = fed(whole, observe)
    count = len(next(iter(samples.values())))
    lost: dict[str, set[int]] = defaultdict(set)
    for name, index in (at for each in gone for at in each.channels):
        lost[name].add(index)
    aims = sorted(_aims(smaller, lost, beside), key=lambda aim: aim.place)
    targets = _targets(whole, aims, observe, count, least)
    walk = Walk(samples)
    for aim in aims:
        node = aim.layer.node
        values = walk.at(smaller, [node.inputs[0], *([aim.beside] if aim.beside else [])])
        taken, besides = [], []
        # Block by block: padding all samples at once would take as much memory again.
        for first in range(0, count, _SAMPLES):
            at = _places(aim, whole, count, least, first, min(_SAMPLES, count - first))
            block = slice(first, first + _SAMPLES)
            taken.append(patches(aim.layer, values[node.inputs[0]][block], at))
            if aim.beside:
                other = values[aim.beside][block]
                besides.append(rows(other[:, aim.layer.share(other.shape[1])], at))
        x = np.concatenate(taken)
        t = np.delete(targets[aim.layer.name], _gone(aim, whole, lost[aim.target]), axis=1)
        other = np.concatenate(besides) if besides else np.zeros((1, 1), np.float32)
        weights, bias = fit(aim.layer, x, t, other, aim.low, aim.high, ridge=ridge, rounds=rounds, affine=affine)
        smaller = rewritten(smaller, aim.layer, weights, bias)
    return smaller


def fit(
    layer: Linear,
    x: Array,
    t: Array,
    other: Array,
    low: float = -np.inf,
    high: float = np.inf,
    *,
    ridge: float = RIDGE,
    rounds: int = _ROUNDS,
    affine: bool = False,
) -> tuple[Array, Array]:
    """Weights and bias near the layer's own, by which `x` weighed plus `other` comes close to `t`."""
    features = Centred(x)
    before = other + features.weighed(layer.weights, layer.bias)
    products = held(features.squares(layer.biased), ridge)
    rounds = rounds if np.isfinite(low) or np.isfinite(high) else 0
    # Solving once takes a third of the time of inverting, which pays only if it is done again and again.
    inverted = np.linalg.inv(products) if rounds else None

    def solved(cross: Array) -> Array:
        found: Array = np.linalg.solve(products, cross.T).T if inverted is None else cross @ inverted
        return found

    weights, bias = _moved(layer, features, t - before, solved)
    for _ in range(rounds):
        made = features.weighed(weights, bias) + other
        # Where the target is out of bounds, so may the value be, wherever it wants.
        aimed = np.where(t <= low, np.minimum(made, low), np.where(t >= high, np.maximum(made, high), t))
        weights, bias = _moved(layer, features, aimed - before, solved)
    if affine:
        made = features.weighed(weights, bias)
        wanted = t - other
        # An output that always says the same has no spread to widen.
        spread = np.where(made.std(axis=0) > 1e-6, wanted.std(axis=0) / np.maximum(made.std(axis=0), 1e-6), 1.0)
        weights = weights * spread[:, None]
        bias = bias * spread + wanted.mean(axis=0) - spread * made.mean(axis=0)
    return weights, bias


class Centred:
    """Features without their means, which are taken out once: there are hundreds of megabytes of them, and they are
    gone through again and again. Products are summed in single precision part by part, and the parts in double."""

    def __init__(self, x: Array) -> None:
        self.means: Array = x.mean(axis=0, dtype=np.float64)
        self._x = x - self.means.astype(np.float32)

    def weighed(self, weights: Array, bias: Array) -> Array:
        found: Array = self._x @ weights.T.astype(np.float32)
        found += (bias + weights @ self.means).astype(np.float32)
        return found

    def squares(self, centred: bool) -> Array:
        """The mean product of every feature with every feature; `centred`: of what they are off their means."""
        found = self._products(self._x)
        return found if centred else found + np.outer(self.means, self.means)

    def cross(self, t: Array) -> tuple[Array, Array]:
        """The mean product of every target with every feature off its mean, and the targets' means."""
        middle = t.mean(axis=0, dtype=np.float64)
        return self._products(t - middle.astype(np.float32)), middle

    def _products(self, t: Array) -> Array:
        found = np.zeros((t.shape[1], self._x.shape[1]))
        for begin in range(0, len(t), CHUNK):
            found += t[begin : begin + CHUNK].T @ self._x[begin : begin + CHUNK]
        return found / max(1, len(t))


def _moved(layer: Linear, features: Centred, error: Array, solved: Callable[[Array], Array]) -> tuple[Array, Array]:
    """The layer's own weights, and what takes away of the error as much as can be."""
    cross, middle = features.cross(error)
    if not layer.biased:
        return layer.weights + solved(cross + np.outer(middle, features.means)), layer.bias
    step = solved(cross)
    return layer.weights + step, layer.bias + middle - step @ features.means


def _targets(whole: Graph, aims: Sequence[Aim], observe: Observe, count: int, least: int) -> Mapping[str, Array]:
    """For each layer what its target was, at the places looked at."""
    names = sorted({aim.target for aim in aims})
    found: dict[str, list[Array]] = defaultdict(list)
    first = 0
    for batch in observe(whole, names) if names else ():
        size = min(len(batch[names[0]]), count - first)
        for aim in aims:
            array = batch[aim.target][:size]
            array = array[:, aim.layer.share(array.shape[1])]
            found[aim.layer.name].append(rows(array, _places(aim, whole, count, least, first, size)))
        first += size
    return {name: np.concatenate(arrays) for name, arrays in found.items()}


def _places(aim: Aim, whole: Graph, count: int, least: int, first: int, size: int) -> Array:
    node = aim.layer.node
    shape = [side for side in (whole.values[aim.target].shape or ())[2:] if isinstance(side, int)]
    each = per_sample(linear(whole, node)[0].weights.shape[1], count, least)
    return places(size, first, shape, each)


def _gone(aim: Aim, whole: Graph, lost: set[int]) -> list[int]:
    """Which of the layer's own targets are no more."""
    shape = whole.values[aim.target].shape
    assert shape is not None
    assert isinstance(shape[1], int)
    own = aim.layer.share(shape[1])
    return sorted(index - own.start for index in lost if own.start <= index < own.stop)


def _aims(graph: Graph, lost: Mapping[str, set[int]], beside: bool) -> Iterable[Aim]:
    """The layers that see something else than they did, each once."""
    dirty: set[str] = set()
    users: dict[str, list[Node]] = defaultdict(list)
    makers = {name: (place, node) for place, node in enumerate(graph.nodes) for name in node.outputs}
    for node in graph.nodes:
        for name in node.inputs:
            users[name].append(node)
        if any(name in dirty or (lost.get(name) and linear(graph, node)) for name in node.inputs):
            dirty.update(node.outputs)
    for place, node in enumerate(graph.nodes):
        layers = linear(graph, node)
        if not layers or node.outputs[0] not in dirty:
            continue
        made = node.outputs[0]
        sum_ = _sum(graph, users[made], made) if beside and made not in graph.outputs else None
        if sum_ is not None:
            other = next(name for name in sum_.inputs if name != made)
            rivals = linear(graph, makers[other][1]) if other in makers else ()
            wide = layers[0].weights.shape[1]
            # Of two layers that are added, the one with more to fit comes last and makes up for the other.
            if not rivals or (rivals[0].weights.shape[1], makers[other][0]) < (wide, place):
                after, bounds = makers[sum_.outputs[0]][0], _bounds(graph, users[sum_.outputs[0]])
                yield from (Aim(layer, after, sum_.outputs[0], other, *bounds) for layer in layers)
                continue
        yield from (Aim(layer, place, made, None, *_bounds(graph, users[made])) for layer in layers)


def _sum(graph: Graph, users: Sequence[Node], name: str) -> Node | None:
    """Where `name` and something of its size are added, and nothing else is done with it."""
    if len(users) != 1 or users[0].operator != "Add" or len(set(users[0].inputs)) != 2:
        return None
    shapes = [graph.values[each].shape if each in graph.values else None for each in users[0].inputs]
    return users[0] if shapes[0] is not None and shapes[0] == shapes[1] else None


def _bounds(graph: Graph, users: Sequence[Node]) -> tuple[float, float]:
    """What is all the same to everyone who takes a value: below the first, above the second."""
    if not users or any(user.operator not in ("Relu", "Clip") for user in users):
        return -np.inf, np.inf
    lows, highs = [], []
    for user in users:
        limits = [0.0, np.inf] if user.operator == "Relu" else [-np.inf, np.inf]
        for place, name in enumerate(user.inputs[1:3] if user.operator == "Clip" else ()):
            if name:
                limits[place] = float(graph.constants[name]) if name in graph.constants else (-np.inf, np.inf)[place]
        lows.append(limits[0])
        highs.append(limits[1])
    return min(lows), max(highs)
