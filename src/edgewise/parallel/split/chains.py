"""Chains of operators that are cut by rows: where they may begin and end, which rows each part computes of every value
in them, and what is computed more than once for that.

A chain costs one exchange, however long it is, and its halo. By channels every convolution costs an exchange, and
nothing is computed twice.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ...model.graph import Graph, Node
from .rows import AXIS, RowRule, Rows, row_rule
from .rules import CONVOLUTIONS, PRODUCTS, shape_of

Axis = Literal["auto", "channels", "rows", "inputs"]
# Below so many rows, a part's own are too few for the halo around them.
_LEAST_HEIGHT = 28
# What may be computed again by another part, as a share of the chain's work: where rows are asked for, and where that
# is left open. Two per cent spare most exchanges that can be spared before 28 rows, and cost two free cores nothing.
_MOST_REDUNDANT = 0.10
_SPARING = 0.02
# So many nodes behind the last good end nobody looks for a better one.
_LOOK_AHEAD = 24


@dataclass(frozen=True, slots=True)
class Chain:
    """Nodes from `begin` to before `end`. `rows[name][part]` are those that a part makes of a value, or takes of one
    from outside; None for nothing. `exits` are what others need afterwards; of them `edges[name]` are the borders
    between the parts. `height` is that of the lowest value in it, `redundant` the work done twice over all of it."""

    begin: int
    end: int
    rows: Mapping[str, tuple[Rows | None, ...]]
    exits: tuple[str, ...]
    edges: Mapping[str, tuple[int, ...]]
    height: int
    convolutions: int
    work: float
    redundant: float


# Whether a chain is better cut by rows than by channels.
Prefers = Callable[[Chain], bool]


def early(chain: Chain) -> bool:
    """Where images are high: little is computed twice, and two exchanges or more become one."""
    return chain.height >= _LEAST_HEIGHT and chain.redundant <= _SPARING and chain.convolutions > 1


def row_edges(height: int, shares: Sequence[float]) -> tuple[int, ...]:
    total, sum_, found = sum(shares), 0.0, [0]
    for share in shares[:-1]:
        sum_ += share
        found.append(max(found[-1], min(height, round(height * sum_ / total))))
    return (*found, height)


class Chains:
    """The chains of a graph. `shares` are those of the parts in each step; `prefers` decides, where `axis` does not."""

    def __init__(self, found: Graph, axis: Axis, prefers: Prefers = early) -> None:
        self._found, self._axis, self._prefers = found, axis, prefers
        self._rules = [row_rule(node, found) for node in found.nodes]
        self._last = {name: len(found.nodes) for name in found.outputs}
        for number, node in enumerate(found.nodes):
            for name in node.inputs:
                self._last[name] = max(number, self._last.get(name, -1))

    def at(self, begin: int, shares: Sequence[float]) -> Chain | None:
        """The longest chain from this node on that is worth it; of those, one that a single value comes out of, and
        that in 8 bits, where it has them."""
        if self._axis in ("channels", "inputs"):
            return None
        best: Chain | None = None
        for end in range(begin + 1, len(self._found.nodes) + 1):
            if self._rules[end - 1] is None:
                break
            chain = self.chain(begin, end, shares)
            if chain is None or end - (best.end if best else begin) > _LOOK_AHEAD:
                break
            if self._good(chain) and (best is None or self._ends_well(chain) >= self._ends_well(best)):
                best = chain
        return best

    def _ends_well(self, chain: Chain) -> tuple[bool, bool]:
        """Engines compute in 8 bits where the conversions are beside an operator; cut off, it is done in floats."""
        made = {name: node for node in self._found.nodes[chain.begin : chain.end] for name in node.outputs}
        later = self._found.nodes[chain.end : chain.end + _LOOK_AHEAD]
        split = any(node.operator == "QuantizeLinear" and node.inputs[0] in chain.exits for node in later)
        floats = any(made[name].operator == "DequantizeLinear" for name in chain.exits)
        return not split and not floats, len(chain.exits) == 1

    def _good(self, chain: Chain) -> bool:
        if self._axis == "rows":
            # Asked for: whatever has windows, cut into chains of bearable halo, or one by one.
            return chain.convolutions > 0 and (chain.redundant <= _MOST_REDUNDANT or chain.convolutions == 1)
        return self._prefers(chain)

    def chain(self, begin: int, end: int, shares: Sequence[float]) -> Chain | None:
        """These nodes by rows; None where that cannot be."""
        nodes, parts = self._found.nodes[begin:end], len(shares)
        wanted: dict[str, list[Rows | None]] = defaultdict(lambda: [None] * parts)
        exits: list[str] = []
        edges: dict[str, tuple[int, ...]] = {}
        done = whole = 0.0
        lowest, convolutions = math.inf, 0
        for number, node in zip(range(end - 1, begin - 1, -1), reversed(nodes), strict=True):
            rule, made = self._rules[number], shape_of(self._found, node.outputs[0])
            assert rule is not None and made is not None
            for name in node.outputs:
                if name and self._last.get(name, -1) >= end:
                    exits.append(name)
                    edges[name] = row_edges(made[AXIS], shares)
                    own = [(a, b) if a < b else None for a, b in zip(edges[name], edges[name][1:], strict=False)]
                    wanted[name] = [_hull(one, other) for one, other in zip(wanted[name], own, strict=True)]
            each = work_of(node, self._found)
            whole += each
            lowest, convolutions = min(lowest, made[AXIS]), convolutions + _convolves(node)
            for part in range(parts):
                rows = self._made(node, wanted, part)
                if rows is None:
                    continue
                done += each * (rows[1] - rows[0]) / made[AXIS]
                if not self._take(node, rule, rows, wanted, part):
                    return None
        redundant = max(0.0, done / whole - 1) if whole else 0.0
        rows_ = {name: tuple(each) for name, each in wanted.items()}
        return Chain(begin, end, rows_, tuple(exits[::-1]), edges, int(lowest), convolutions, whole, redundant)

    def _made(self, node: Node, wanted: dict[str, list[Rows | None]], part: int) -> Rows | None:
        """All outputs of a node come with the same rows."""
        rows: Rows | None = None
        for name in node.outputs:
            rows = _hull(rows, wanted[name][part]) if name in wanted else rows
        for name in node.outputs:
            if name and rows is not None:
                wanted[name][part] = rows
        return rows

    def _take(self, node: Node, rule: RowRule, rows: Rows, wanted: dict[str, list[Rows | None]], part: int) -> bool:
        needs = rule.needs(*rows)
        if needs is None:
            return False
        for name, need in zip(node.inputs, needs, strict=True):
            if name and name not in self._found.constants and need is not None:
                wanted[name][part] = _hull(wanted[name][part], need)
        return True


def work_of(node: Node, found: Graph) -> float:
    """Multiplications and additions, roughly: what counts are those of convolutions and products."""
    made = shape_of(found, node.outputs[0])
    if made is None:
        return 0.0
    per = 1.0
    if len(node.inputs) > 1 and node.inputs[1] in found.constants:
        weights = found.constants[node.inputs[1]].shape
        if _convolves(node):
            per = math.prod(weights[1:])
        elif node.operator in PRODUCTS:
            per = math.prod(weights) / max(1, made[-1])
    return math.prod(made) * per


def _convolves(node: Node) -> bool:
    return node.operator in CONVOLUTIONS


def _hull(one: Rows | None, other: Rows | None) -> Rows | None:
    if one is None or other is None:
        return one or other
    return min(one[0], other[0]), max(one[1], other[1])
