"""Layers as products of thinner ones: fewer multiply-adds, and answers that are a little off.

Which layer gets which form and how many channels in between is decided for all of them at once, by what each step saves
and loses. With samples to look at, what is lost is counted in outputs rather than in weights, every layer is fitted to
what those before it now give, and the means of its outputs stay as they were.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence

from ...core.errors import InputError, Unsupported
from ...model.graph import Array, Graph, Node
from ..observe import Keep, Observe, afresh
from .candidates import Cost, candidates
from .fit import Seen, factors, seen, shift
from .gram import WIDEST, gather, mixed, wide
from .layer import Layer, layers
from .pieces import FORMS, Choice, multiply_adds, pieces, replaced
from .ranks import Candidate, gated, shrink

# A layer that loses more than this share of its output's energy is not that layer any more.
_MOST_ERROR = 0.5


def lowrank(
    graph: Graph,
    observe: Observe | None = None,
    *,
    ratio: float,
    cost: Cost | None = None,
    use: Collection[str] = FORMS,
    most_error: float = _MOST_ERROR,
    in_turn: bool = True,
    keep: Keep = afresh,
) -> Graph:
    """With layers in pieces such that the share `ratio` of the cost is left; `in_turn` as `factored` has it."""
    _checked(ratio)
    cost = _remembered(cost or by_multiply_adds(graph))
    found = keep(lambda: tables(graph, observe, cost=cost, use=use, most_error=most_error))
    chosen = picked(graph, found, ratio=ratio, cost=cost)
    left = kept(graph, chosen, cost)
    if not chosen or left > ratio * (1 + 1e-9):
        count = sum(1 for _ in layers(graph))
        why = f"{count} layers can be, which leaves {left:.2g} of the cost" if chosen else "no layer would cost less"
        why = why if count else "no layer has constant weights, one group, and another convolution before it"
        raise Unsupported(
            f"layers cannot be made thin enough for {ratio:g} of the cost: {why}",
            f"lowrank(cost={math.ceil(left * 20) / 20:g})" if chosen and left < 0.95 else None,
        )
    return factored(graph, chosen, observe, in_turn=in_turn)


def choices(
    graph: Graph,
    observe: Observe | None = None,
    *,
    ratio: float,
    cost: Cost | None = None,
    use: Collection[str] = FORMS,
    most_error: float = _MOST_ERROR,
) -> dict[str, Choice]:
    """Which nodes, by name, become what, so that `ratio` of the cost is left; more where that cannot be had. No node
    becomes what costs more than it does, or loses more than `most_error`."""
    _checked(ratio)
    cost = _remembered(cost or by_multiply_adds(graph))
    return picked(graph, tables(graph, observe, cost=cost, use=use, most_error=most_error), ratio=ratio, cost=cost)


def tables(
    graph: Graph,
    observe: Observe | None = None,
    *,
    cost: Cost | None = None,
    use: Collection[str] = FORMS,
    most_error: float = _MOST_ERROR,
) -> dict[str, list[Candidate]]:
    """What each layer can become, what that costs and loses; first, what it is."""
    cost = cost or by_multiply_adds(graph)
    made = {}
    for layer, found in _gathered(graph, list(_narrow(graph)), observe):
        whole = Candidate(None, cost(layer.node, None), 0.0)
        made[layer.node.name] = gated(whole, list(candidates(graph, layer, found, cost, use)), most_error)
    return made


def picked(
    graph: Graph, found: Mapping[str, Sequence[Candidate]], *, ratio: float, cost: Cost | None = None
) -> dict[str, Choice]:
    """Of the tables of a graph, what leaves `ratio` of its cost; more where that cannot be had."""
    _checked(ratio)
    cost = cost or by_multiply_adds(graph)
    chosen = shrink(found, (1 - ratio) * sum(cost(node, None) for node in _costly(graph)))
    return {name: each.choice for name, each in chosen.items() if each.choice is not None}


def kept(graph: Graph, chosen: Mapping[str, Choice], cost: Cost | None = None) -> float:
    """The share of the cost that is left with these choices."""
    cost = cost or by_multiply_adds(graph)
    costly = list(_costly(graph))
    whole = sum(cost(node, None) for node in costly)
    return sum(cost(node, chosen.get(node.name)) for node in costly) / whole if whole else 1.0


def by_multiply_adds(graph: Graph) -> Cost:
    known = {layer.node.name: layer for layer in layers(graph)}
    return lambda node, choice: multiply_adds(graph, node, known.get(node.name), choice)


def factored(
    graph: Graph, chosen: Mapping[str, Choice], observe: Observe | None = None, *, in_turn: bool = True
) -> Graph:
    """With these layers in pieces. `in_turn`: each is fitted to what it reads after those before it, and makes up for
    some of what they lost; that takes two runs of the network for each, up to where it stands."""
    those = [layer for layer in _narrow(graph) if layer.node.name in chosen]
    unknown = set(chosen) - {layer.node.name for layer in those}
    if unknown:
        raise InputError(f"{min(unknown)!r} is no layer that can be factored")
    now = graph
    if observe is None or not in_turn:
        for layer, found in _gathered(graph, those, observe):
            now = _in_pieces(now, layer, chosen[layer.node.name], seen(layer, found))
        return now
    for layer in those:
        if now is graph or wide(layer):
            of = seen(layer, next(gather(now, [layer], observe))[1])
        else:
            beside, found = mixed(now, graph, layer.node, observe)
            of = seen(layer, found, beside)
        now = _in_pieces(now, layer, chosen[layer.node.name], of)
    return now


def _in_pieces(graph: Graph, layer: Layer, choice: Choice, of: Seen) -> Graph:
    made = pieces(graph, layer, choice)
    weights = factors(layer, choice, of)
    bias = None if layer.bias is None else layer.bias + shift(choice, weights, of)
    return replaced(graph, layer, made, weights, bias)


def _gathered(graph: Graph, those: Sequence[Layer], observe: Observe | None) -> Iterator[tuple[Layer, Array | None]]:
    if observe is None:
        yield from ((layer, None) for layer in those)
    else:
        yield from gather(graph, those, observe)


def _checked(ratio: float) -> None:
    if not 0 < ratio < 1:
        raise InputError(f"the share of the cost that is to be left is between 0 and 1, found {ratio:g}")


def _narrow(graph: Graph) -> Iterator[Layer]:
    return (layer for layer in layers(graph) if len(layer.weight) <= WIDEST)


def _costly(graph: Graph) -> Iterator[Node]:
    return (node for node in graph.nodes if multiply_adds(graph, node))


def _remembered(cost: Cost) -> Cost:
    known: dict[tuple[str, Choice | None], float] = {}

    def remembered(node: Node, choice: Choice | None) -> float:
        if (node.name, choice) not in known:
            known[node.name, choice] = cost(node, choice)
        return known[node.name, choice]

    return remembered
