"""One inference as steps: what each part computes in each of them, and where every value lies.

An operator is cut by its output channels, or, within a chain, by rows, or, where that is asked for, every other one by
its input channels; what cannot be cut everybody computes.

Within a step a part uses what it made itself; between steps all wait for each other, and from then on everybody can
read what anybody made, because it lies in memory they share. So a new step is needed only where an operator depends on
channels that another part has just made.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np

from ...core.errors import Unsupported
from ...model.graph import Graph, Node
from .chains import Axis, Chain, Chains, Prefers, early
from .rows import RowRule, Rows, row_rule
from .rules import CONVOLUTIONS, Own, Rule, Whole, aliases, rule, shape_of
from .sums import summed

# Channels that stay together: engines compute blocks of 8 or 16, and a part of a block costs as much as all of it.
BLOCK = 16
# Their answers differ from part to part.
_RANDOM = frozenset(
    ["Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"]
)

# Where the channels of a value are cut: part `i` has those from edges[i] to edges[i + 1].
Edges = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Value:
    """From when on a value can be used, and by whom.

    With `edges`, a part can use its own channels in the same `step`. Shared, everybody can use all of it from the next
    step on. Neither: every part makes all of it for itself, and can use it at once.
    """

    step: int
    shared: bool
    edges: Edges | None = None


@dataclass(frozen=True, slots=True)
class Work:
    """A node in a step; with `edges`, each part does its own channels, with `rows`, its rows (None: nothing), and
    without either, everybody does all. What `only` one part does is its share of a sum, over channels of an input."""

    node: Node
    step: int
    edges: Edges | None = None
    rule: Rule | None = None
    rows: tuple[Rows | None, ...] | None = None
    row_rule: RowRule | None = None
    only: int | None = None


@dataclass(frozen=True, slots=True)
class Home:
    """Where a value lies: so many elements behind the beginning of another."""

    base: str
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Plan:
    """`lives` has, for each value that others are placed in, the first and last step in which its memory is used."""

    graph: Graph
    parts: int
    works: tuple[Work, ...]
    values: Mapping[str, Value]
    homes: Mapping[str, Home]
    lives: Mapping[str, tuple[int, int]]
    # The values that somebody reads after the step they are made in, or that lie in others; answers are among them.
    lasting: frozenset[str]
    steps: int
    # What is cut by rows, and the borders of what comes out of there.
    chains: tuple[Chain, ...] = ()
    row_edges: Mapping[str, Edges] = field(default_factory=dict)
    # Values that are made anew wherever they are needed: from 8 bits to floating point, as part of what uses them.
    lazy: Mapping[str, Node] = field(default_factory=dict)
    # How many operators are cut by the channels of their input.
    sums: int = 0

    def source(self, name: str) -> str:
        """The value in memory that a value is made of."""
        return source(self.lazy, name)

    @property
    def redundant(self) -> float:
        """What is computed more than once, as a share of the work of the chains."""
        work = sum(chain.work for chain in self.chains)
        return sum(chain.work * chain.redundant for chain in self.chains) / work if work else 0.0


def source(lazy: Mapping[str, Node], name: str) -> str:
    while name in lazy:
        name = lazy[name].inputs[0]
    return name


def edges_of(channels: int, shares: Sequence[float], unit: int = 1) -> Edges:
    """Cut in proportion to the shares, at whole blocks; a part may be left with nothing."""
    unit, total, sum_ = math.lcm(unit, BLOCK), sum(shares), 0.0
    found = [0]
    for share in shares[:-1]:
        sum_ += share
        found.append(max(found[-1], min(channels, round(channels * sum_ / total / unit) * unit)))
    return (*found, channels)


@dataclass
class _Planner:
    graph: Graph
    shares: Sequence[Sequence[float]]
    values: dict[str, Value] = field(default_factory=dict)
    works: list[Work] = field(default_factory=list)
    homes: dict[str, Home] = field(default_factory=dict)
    lazy: dict[str, Node] = field(default_factory=dict)
    chains: list[Chain] = field(default_factory=list)
    # Whether to cut by input channels too, and the nodes that stand for others because of that.
    sums: bool = False
    instead: dict[str, list[Node]] = field(default_factory=dict)

    def take_all(self, chains: Chains) -> None:
        number = 0
        while number < len(self.graph.nodes):
            node = self.graph.nodes[number]
            chain = chains.at(number, self._shares(self._step_of(node.inputs)))
            if chain is None:
                self.take(node)
                number += 1
            else:
                number = chain.end
                self._by_rows(chain, chains)

    def _by_rows(self, chain: Chain, chains: Chains) -> None:
        nodes = self.graph.nodes[chain.begin : chain.end]
        step = max(self._step_of(node.inputs) for node in nodes)
        chain = chains.chain(chain.begin, chain.end, self._shares(step)) or chain
        for node in nodes:
            rows = next((chain.rows[name] for name in node.outputs if name in chain.rows), None)
            if rows is not None:
                self.works.append(Work(node, step, rows=rows, row_rule=row_rule(node, self.graph)))
        for name in (name for node in nodes for name in node.outputs if name):
            self.values[name] = Value(step, shared=name in chain.exits)
        self.chains.append(chain)

    def _step_of(self, names: Sequence[str]) -> int:
        """The first step in which all of these can be had whole."""
        return max((self._whole_from(name) for name in names if name in self.values), default=0)

    def take(self, node: Node) -> None:
        if node.operator in _RANDOM:
            raise Unsupported(f"{node.name!r} ({node.operator}) has another answer for every part: it cannot be split")
        if self._postponed(node) or self._alias(node):
            return
        known = rule(node, self.graph)
        if self.sums and (self._summed(node) or self._together(node, known)):
            return
        if known is None or not self._sliced(node, known):
            self._everybody(node)

    def _everybody(self, node: Node) -> None:
        step = self._step_of(node.inputs)
        self.works.append(Work(node, step))
        for name in node.outputs:
            self.values[name] = Value(step, shared=False)

    def _summed(self, node: Node) -> bool:
        """By the channels of its input, where each part has just made its own: everybody adds up what comes of it."""
        value = self.values.get(node.inputs[0]) if node.inputs else None
        if value is None or value.edges is None or node.inputs[0] in self.lazy:
            return False
        found = summed(node, self.graph, value.edges)
        if found is None:
            return False
        shares = [share for share, _ in found.shares.values()]
        names = [name for each in (*shares, *found.after) for name in each.outputs]
        tensor = self.graph.values[node.outputs[0]]
        self.graph = replace(
            self.graph,
            values={**self.graph.values, **{name: replace(tensor, name=name) for name in names}},
            constants={**self.graph.constants, **found.constants},
        )
        for part, (share, known) in found.shares.items():
            self.works.append(Work(share, value.step, value.edges, known, only=part))
            self.values[share.outputs[0]] = Value(value.step, shared=True)
        for each in found.after:
            self._everybody(each)
        self.instead[node.name] = [*shares, *found.after]
        return True

    def _together(self, node: Node, known: Rule | None) -> bool:
        """What everybody has, everybody goes on with, as long as that is cheap: cut, it would have to be exchanged."""
        if known is None or known.mixes or node.operator in CONVOLUTIONS:
            return False
        given = [self.values[name] for name in node.inputs if name in self.values]
        own = [value.step for value in given if not value.shared]
        if not own or self._step_of(node.inputs) > max(own):
            return False
        self._everybody(node)
        return True

    def _postponed(self, node: Node) -> bool:
        """Eight bits are exchanged as such; and engines look for the conversion beside the operator it is meant for."""
        made, given = node.outputs[0], node.inputs[0]
        if node.operator != "DequantizeLinear" or given in self.graph.constants or made in self.graph.outputs:
            return False
        if any(self.graph.constants[name].size > 1 for name in node.inputs[1:] if name in self.graph.constants):
            return False
        if any(name and name not in self.graph.constants for name in node.inputs[1:]):
            return False
        self.lazy[made] = node
        self.values[made] = self.values[given]
        return True

    def _whole_from(self, name: str) -> int:
        value = self.values[name]
        return value.step + 1 if value.shared else value.step

    def _alias(self, node: Node) -> bool:
        """Values that lie where they should already. The memory of a value is in one place: a second wish is a copy."""
        found = aliases(node, self.graph)
        if any(name in self.lazy for name in node.inputs):
            return False
        if not found or not all(self.values[n].shared for n in node.inputs if n in self.values):
            return False
        merged = node.operator == "Concat"
        if merged and any(self._fixed(alias.name) for alias in found):
            return False
        step = max(self.values[name].step for name in node.inputs if name in self.values)
        for alias in found:
            self.homes[alias.name] = Home(alias.base, alias.offset)
        for name in node.outputs:
            if name:
                self.values[name] = Value(step, shared=True)
        return True

    def _fixed(self, name: str) -> bool:
        """Whether the memory of a value is somewhere already, or not ours to place."""
        return name in self.homes or name in self.graph.inputs or name in self.graph.outputs

    def _sliced(self, node: Node, known: Rule) -> bool:
        shape = shape_of(self.graph, node.outputs[0])
        assert shape is not None
        uses = [
            (name, take)
            for name, take in zip(node.inputs, known.takes, strict=True)
            if name and name not in self.graph.constants
        ]
        step = 0
        for name, take in uses:
            value = self.values[name]
            if isinstance(take, Whole):
                step = max(step, self._whole_from(name))
            else:
                # Of what is not cut, some channels can be had once it lies in memory.
                step = max(step, value.step if value.edges else value.step + 1)
        edges = edges_of(shape[1], self._shares(step), known.unit)
        if any(
            isinstance(take, Own) and self.values[name].step == step and self.values[name].edges != scaled(edges, take)
            for name, take in uses
        ):
            # Another cut: from the next step on all of it can be read.
            step += 1
            edges = edges_of(shape[1], self._shares(step), known.unit)
        narrow = sum(end > begin for begin, end in pairwise(edges)) < 2 and not known.mixes
        if narrow and not any(self.values[name].edges for name, _ in uses):
            # Too narrow to cut, and cheap: everybody makes it, without an exchange.
            return False
        self.works.append(Work(node, step, edges, known))
        self.values[node.outputs[0]] = Value(step, True, edges)
        self._in_place(node, step)
        return True

    def _in_place(self, node: Node, step: int) -> None:
        """A sum that is added to becomes the output, where nobody else needs it any more."""
        if len(node.inputs) < 4 or not node.inputs[3] or self._fixed(node.inputs[3]):
            return
        added, made = node.inputs[3], node.outputs[0]
        if shape_of(self.graph, added) != shape_of(self.graph, made) or made in self.graph.outputs:
            return
        if any(home.base == added for home in self.homes.values()):
            return
        if added in self.lazy or not self.values[added].shared:
            return
        users = [each for each in self.graph.nodes if added in each.inputs]
        if users[-1] is node and all(
            work.step < step for work in self.works if added in work.node.inputs and work.node is not node
        ):
            self.homes[made] = Home(added)

    def _shares(self, step: int) -> Sequence[float]:
        return self.shares[min(step, len(self.shares) - 1)]

    def finished(self) -> Graph:
        """The graph as it has been planned."""
        nodes = tuple(made for node in self.graph.nodes for made in self.instead.get(node.name, [node]))
        self.graph = replace(self.graph, nodes=nodes)
        return self.graph


def scaled(edges: Edges, take: Own) -> Edges:
    """The channels of an input that those of the output need."""
    return tuple(int(edge * take.per) for edge in edges)


def plan(found: Graph, shares: Sequence[Sequence[float]], axis: Axis = "channels", prefers: Prefers = early) -> Plan:
    """`shares[step]` is how much of it each part does; the last counts for all steps after it. `prefers` says which
    chains are cut by rows where `axis` leaves it open."""
    parts = len(shares[0])
    found, weights = weights_apart(found)
    found = _beside(found)
    planner = _Planner(found, shares, sums=axis == "inputs")
    for name in found.inputs:
        planner.values[name] = Value(-1, shared=True)
    planner.take_all(Chains(found, axis, prefers))
    found = planner.finished()
    homes = {name: _home(planner.homes, name) for name in planner.values}
    steps = 1 + max((work.step for work in planner.works), default=0)
    mixed = any(work.edges and work.rule and work.rule.mixes for work in planner.works)
    if not mixed and not any(chain.convolutions for chain in planner.chains):
        raise Unsupported("nothing in this model can be split: it has no convolution or product at batch 1")
    return Plan(
        found,
        parts,
        tuple(planner.works),
        planner.values,
        homes,
        _lives(planner, homes, steps),
        _lasting(planner),
        steps,
        tuple(planner.chains),
        {name: edges for chain in planner.chains for name, edges in chain.edges.items()},
        planner.lazy | weights,
        len(planner.instead),
    )


def weights_apart(found: Graph) -> tuple[Graph, dict[str, Node]]:
    """Weights in 8 bits are constants with a conversion behind them: like one constant, of which only the size is
    known until a piece of it is needed."""
    made = {
        node.outputs[0]: node
        for node in found.nodes
        if node.operator == "DequantizeLinear" and all(name in found.constants for name in node.inputs if name)
    }
    if not made:
        return found, {}
    sizes = {name: np.broadcast_to(np.float32(0), found.constants[node.inputs[0]].shape) for name, node in made.items()}
    nodes = tuple(node for node in found.nodes if node.outputs[0] not in made)
    return replace(found, nodes=nodes, constants={**found.constants, **sizes}), made


def _beside(found: Graph) -> Graph:
    """With a conversion from 8 bits of its own right before everything that uses one, so that a chain that ends between
    two of them hands on the 8 bits."""
    shared = {
        node.outputs[0]: node
        for node in found.nodes
        if node.operator == "DequantizeLinear" and node.outputs[0] not in found.outputs
    }
    if not shared:
        return found
    nodes: list[Node] = []
    values = dict(found.values)
    for node in found.nodes:
        if node.outputs[0] in shared:
            continue
        inputs = list(node.inputs)
        for name in dict.fromkeys(name for name in node.inputs if name in shared):
            made = f"{name} for {node.outputs[0]}"
            nodes.append(replace(shared[name], name=made, outputs=(made,)))
            values[made] = replace(values[name], name=made)
            inputs = [made if each == name else each for each in inputs]
        nodes.append(replace(node, inputs=tuple(inputs)))
    return replace(found, nodes=tuple(nodes), values=values)


def _lasting(planner: _Planner) -> frozenset[str]:
    found = set(planner.graph.outputs)
    worked = {work.node.name: work.step for work in planner.works}
    for node in planner.graph.nodes:
        if node.outputs[0] in planner.lazy:
            continue
        for name in (source(planner.lazy, name) for name in node.inputs):
            # A node nobody works on is one whose outputs lie where its inputs do.
            if name in planner.values and worked.get(node.name, math.inf) > planner.values[name].step:
                found.add(name)
    return frozenset(found)


def _home(homes: Mapping[str, Home], name: str) -> Home:
    offset = 0
    while name in homes:
        offset, name = offset + homes[name].offset, homes[name].base
    return Home(name, offset)


def _lives(planner: _Planner, homes: Mapping[str, Home], steps: int) -> dict[str, tuple[int, int]]:
    """What shared memory is needed from when to when, by the value that lies at its beginning."""
    first: dict[str, int] = defaultdict(lambda: steps)
    last: dict[str, int] = defaultdict(lambda: -1)
    for name, value in planner.values.items():
        if name not in planner.lazy and (value.shared or name in planner.graph.outputs):
            base = homes[name].base
            first[base] = min(first[base], value.step)
            last[base] = max(last[base], value.step)
            if name in planner.graph.outputs:
                last[base] = steps
    for work in planner.works:
        for name in (source(planner.lazy, name) for name in work.node.inputs):
            if name in planner.values and planner.values[name].shared:
                base = homes[name].base
                last[base] = max(last[base], work.step)
    return {base: (first[base], last[base]) for base in first}
