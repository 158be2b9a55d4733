"""Which ways there are to lay a model over some targets, and what each should cost: pure, over costs given to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ..core.types import Part, Placement, Target
from ..core.ways import Use

# Of one inference; a stream; and what does for both.
LATENCY, THROUGHPUT = ("split", "branches"), ("deal", "stages")


@dataclass(frozen=True, slots=True)
class Costs:
    """What is known before a way is tried: an inference on each target alone; how often the parts of a split wait for
    each other and what that costs. What stages and branches should take, they find out when they choose."""

    alone_ns: Mapping[Target, float]
    exchanges: int | None = None
    exchange_ns: float = 0.0


def ways(over: Sequence[Target], use: Use, kinds: Sequence[str]) -> list[Placement]:
    """Each target alone, each engine with all the cores named as threads of its own, and all of them together."""
    singles = [Placement.single(target) for target in dict.fromkeys([*over, *own_threads(over)])]
    several = tuple(Part(target) for target in over)
    together = [Placement(kind, several) for kind in (LATENCY if use == "latency" else THROUGHPUT) if kind in kinds]
    if use == "throughput" and "deal" in kinds:
        together += without_each(over)
    return singles + together


def own_threads(over: Sequence[Target]) -> list[Target]:
    """What an engine does by itself with the cores it is given here: the peer of everything that divides its work."""
    found = []
    for like in dict.fromkeys(_kind(target) for target in over):
        those = [target for target in over if _kind(target) == like]
        cores = tuple(sorted({core for target in those for core in target.cores}))
        threads = sum(target.threads or 0 for target in those)
        if len(those) > 1 and threads > 1 and all(target.threads for target in those):
            found.append(replace(those[0], threads=threads, cores=cores if len(cores) == threads else ()))
    return found


def without_each(over: Sequence[Target]) -> list[Placement]:
    """A stream without the targets of one kind at a time: whoever does not add to it had better not take part."""
    found = []
    for like in dict.fromkeys(_kind(target) for target in over):
        rest = tuple(Part(target) for target in over if _kind(target) != like)
        if len(rest) > 1:
            found.append(Placement("deal", rest))
    return found


def _kind(target: Target) -> Target:
    return replace(target, threads=None, cores=())


def expected_ns(placement: Placement, costs: Costs) -> float | None:
    """The cost of one inference, or of a frame of a stream; None where nothing is known to tell it from."""
    targets = placement.targets
    if placement.kind == "single":
        return costs.alone_ns.get(targets[0])
    if any(target not in costs.alone_ns for target in targets):
        return None
    together = 1 / sum(1 / costs.alone_ns[target] for target in targets)
    if placement.kind == "deal":
        return together
    if placement.kind == "split" and costs.exchanges is not None:
        return together + costs.exchanges * costs.exchange_ns
    return None
