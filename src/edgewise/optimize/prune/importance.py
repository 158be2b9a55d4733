"""What it costs to do without channels, told by what those who take them see.

Channels go one after the other, always the one whose loss the rest can best make up for: what the layers that take it
compute from the others is fitted anew each time (the inverse of their features' products tells how, without solving
again), so two channels that say the same are not both thought to be worthless.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ...model.graph import Array, Graph
from ..sums import Sums
from .coupling import Coupled
from .linear import Linear, linear
from .statistics import held

# Of the mean of the features' variances: what is added to each, for what the samples did not show.
RIDGE = 1e-2
# Of the channels that cost least, these many times as many as go at a time are looked at together.
_CANDIDATES = 3


@dataclass(frozen=True, slots=True)
class Group:
    """The classes that are channels of one layer, or of layers whose outputs are added, and who takes them."""

    name: str
    classes: tuple[Coupled, ...]
    takers: tuple[Linear, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """In what order the channels of a group go, and the error at its takers when so many are gone.

    `errors`: by how many are gone; of the variance of the takers' outputs, summed over takers. `fitted`: for some of
    those counts the takers' weights and biases, by name of node, made to do without.
    """

    group: Group
    order: tuple[int, ...]
    errors: Mapping[int, float]
    fitted: Mapping[int, Mapping[str, tuple[Array, Array]]]

    def gone(self, count: int) -> list[Coupled]:
        return [self.group.classes[place] for place in self.order[:count]]


def groups(graph: Graph, classes: Sequence[Coupled]) -> list[Group]:
    """Classes by the constants they are slices of, and how many; without those that an unknown kind of layer takes."""
    by_weights = {}
    for node in graph.nodes:
        if found := linear(graph, node):
            by_weights[node.inputs[1]] = found
    together: dict[frozenset[tuple[tuple[str, int], int]], list[Coupled]] = defaultdict(list)
    for each in classes:
        together[frozenset(Counter((param.name, param.axis) for param in each.params).items())].append(each)
    made = []
    for those in together.values():
        takers = dict.fromkeys(param.name for param in those[0].takers)
        if all(name in by_weights for name in takers):
            taking = tuple(taker for name in takers for taker in by_weights[name])
            made.append(Group(those[0].makers[0].name, tuple(those), taking))
    return made


def features(group: Group, taker: Linear) -> Array:
    """Which features of a taker belong to each class: a row per class."""
    weights = taker.node.inputs[1]
    found = []
    for each in group.classes:
        channels = [param.index for param in each.takers if param.name == weights]
        found.append([channel * taker.places + place for channel in channels for place in range(taker.places)])
    return np.array(found)


def eliminated(
    group: Group, sums: Mapping[str, Sums], step: int, keep: int, fit_at: Collection[int] = (), ridge: float = RIDGE
) -> Table:
    """The channels of `group` in the order they go, `step` at a time (at first what is no whole step), to `keep`."""
    takers = [_Taker(group, taker, sums[taker.name], ridge) for taker in group.takers]
    left = list(range(len(group.classes)))
    order: list[int] = []
    errors, error = {0: 0.0}, 0.0
    fitted: dict[int, Mapping[str, tuple[Array, Array]]] = {}
    size = len(left) % step or step
    while len(left) - size >= keep:
        costs = sum(taker.costs(left) for taker in takers)
        assert isinstance(costs, np.ndarray)
        candidates = [left[place] for place in np.argsort(costs)[: _CANDIDATES * step]]
        chosen, cost = _chosen([taker.part(candidates) for taker in takers], candidates, size)
        for taker in takers:
            taker.drop(chosen)
        gone = set(chosen)
        left = [place for place in left if place not in gone]
        order += chosen
        error, size = error + cost, step
        errors[len(order)] = error
        if len(order) in fit_at:
            fitted[len(order)] = {taker.name: taker.fitted() for taker in takers}
    return Table(group, tuple(order), errors, fitted)


@dataclass
class _Part:
    """The inverse and the weights of the features of some classes, a row of `at` each."""

    inverse: Array
    weights: Array
    at: Array

    def costs(self, those: Sequence[int]) -> Array:
        """Of the error of the taker's outputs: how much it grows without each of `those`, the rest fitted anew."""
        at = self.at[list(those)]
        blocks = np.linalg.inv(self.inverse[at[:, :, None], at[:, None, :]])
        weights = self.weights[:, at].transpose(1, 2, 0)
        found: Array = np.einsum("cij,cij->c", blocks, weights @ weights.transpose(0, 2, 1))
        return found

    def drop(self, those: Sequence[int]) -> None:
        at = self.at[list(those)].reshape(-1)
        rows = np.linalg.solve(self.inverse[np.ix_(at, at)], self.inverse[at])
        self.weights -= self.weights[:, at] @ rows
        self.inverse -= self.inverse[:, at] @ rows


class _Taker(_Part):
    def __init__(self, group: Group, taker: Linear, sums: Sums, ridge: float) -> None:
        self.name = taker.name
        self._taker, self._means = taker, sums.means
        products = sums.products(taker.biased)
        # Takers count alike: errors are beside how much their outputs vary in all.
        variance = float(np.einsum("of,of->", taker.weights @ products, taker.weights))
        self._scale = 1 / np.sqrt(max(variance, 1e-30))
        super().__init__(np.linalg.inv(held(products, ridge)), taker.weights * self._scale, features(group, taker))
        self._index = np.arange(taker.weights.shape[1])

    def part(self, those: Sequence[int]) -> _Part:
        at = self.at[list(those)]
        flat = at.reshape(-1)
        small = np.arange(flat.size).reshape(at.shape)
        return _Part(self.inverse[np.ix_(flat, flat)], self.weights[:, flat].copy(), small)

    def drop(self, those: Sequence[int]) -> None:
        super().drop(those)
        # What is gone is cut off: less to compute with.
        keep = np.ones(len(self.inverse), bool)
        keep[self.at[list(those)].reshape(-1)] = False
        place = np.cumsum(keep) - 1
        self.at = np.where(keep[self.at], place[self.at], 0)
        self.inverse, self.weights = self.inverse[np.ix_(keep, keep)], self.weights[:, keep]
        self._index = self._index[keep]

    def fitted(self) -> tuple[Array, Array]:
        """Weights of all features, 0 for those that are gone, and the bias that goes with them."""
        weights = np.zeros_like(self._taker.weights)
        weights[:, self._index] = self.weights / self._scale
        bias = self._taker.bias
        if self._taker.biased:
            bias = bias + (self._taker.weights - weights) @ self._means
        return weights, bias


def _chosen(parts: Sequence[_Part], candidates: Sequence[int], count: int) -> tuple[list[int], float]:
    """Of the candidates, `count` that go one by one, and what that costs."""
    left = list(range(len(candidates)))
    chosen, cost = [], 0.0
    for _ in range(count):
        costs = sum(part.costs(left) for part in parts)
        assert isinstance(costs, np.ndarray)
        place = int(np.argmin(costs))
        cost += float(costs[place])
        for part in parts:
            part.drop([left[place]])
        chosen.append(left.pop(place))
    return [candidates[place] for place in chosen], cost
