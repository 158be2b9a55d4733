"""Channels taken out by what they are worth on real inputs, and the rest made to do without them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...core.errors import Unsupported
from ...model.graph import Graph
from ..observe import Keep, Observe, afresh
from . import prune
from .coupling import Coupled, coupled
from .effects import answered, effects, limited, scaled
from .importance import RIDGE, Table, eliminated, groups
from .repair import repair
from .statistics import ROWS, seen
from .walk import fed
from .widths import Cost, chosen, multiply_adds, sized

# Where the effect of an error on the answers is measured: with these shares of a group's channels gone.
_MEASURED = (0.25, 0.5, 0.75)
_MEASURED_SAMPLES = 256


@dataclass(frozen=True, slots=True)
class Worth:
    """What each group of channels is worth: in what order they go, and what the network loses by it."""

    tables: dict[str, Table]
    losses: dict[str, dict[int, float]]


def prune_with_data(
    graph: Graph,
    observe: Observe,
    ratio: float,
    cost: Cost | None = None,
    *,
    block: int = 16,
    least: int = ROWS,
    keep: Keep = afresh,
) -> Graph:
    """Without at least the share `ratio` of its cost, by default of its multiply-adds; weights fitted to the rest.

    What stays of a layer is a whole number of `block`s of channels, one at least.
    """
    found = keep(lambda: worth(graph, observe, block=block, least=least))
    gone = picked(graph, found, ratio, cost)
    return repair(graph, prune(graph, gone), gone, observe, least=least)


def worth(graph: Graph, observe: Observe, *, block: int = 16, least: int = ROWS) -> Worth:
    """Of every group with more than a block of channels; looked at once, whatever ratios are then asked for."""
    those = [group for group in groups(graph, coupled(graph)) if len(group.classes) > block]
    if not those:
        raise Unsupported(f"nothing can be taken out: no layer has more than {block} channels that are free to go")
    takers = {taker.name: taker for group in those for taker in group.takers}
    count = len(next(iter(fed(graph, observe).values())))
    sums = seen(graph, observe, list(takers.values()), count, least)
    few = limited(observe, _MEASURED_SAMPLES)
    answers = answered(graph, few)
    tables, losses = {}, {}
    for group in those:
        whole = len(group.classes)
        marks = {_rounded(whole, share, block) for share in _MEASURED}
        table = eliminated(group, sums, block, block, marks, RIDGE)
        # The weights were for measuring, and are large.
        tables[group.name] = replace(table, fitted={})
        losses[group.name] = scaled(table.errors, effects(graph, few, table, answers))
    return Worth(tables, losses)


def picked(graph: Graph, found: Worth, ratio: float, cost: Cost | None = None) -> list[Coupled]:
    """The classes that go for `ratio` of the cost."""
    layers = sized(graph, [table.group for table in found.tables.values()])
    gone = chosen(layers, found.losses, cost or multiply_adds(graph), ratio)
    return [each for name, count in gone.items() for each in found.tables[name].gone(count)]


def _rounded(whole: int, share: float, block: int) -> int:
    """Near that share of the channels, so that whole blocks stay."""
    return whole - max(1, round(whole * (1 - share) / block)) * block
