"""Ways to lay a model over processors, each with what was expected of it and what it came to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .types import Placement

# One inference, from its beginning to its end; or a stream, by what a frame costs in it.
Use = Literal["latency", "throughput"]


@dataclass(frozen=True, slots=True)
class Way:
    """A placement under so many competing processes. `cost_ns` is of one inference, or of a frame in a stream.

    `ratio` is how many times as fast it is as `than`, the best single target under the same load, with a 95 % interval.
    `dropped` is the share of its deadlines that a foreground task missed beside it. `reason` says why there is no cost.
    """

    use: Use
    competing: int
    placement: Placement
    cost_ns: float | None = None
    predicted_ns: float | None = None
    ratio: tuple[float, float, float] | None = None
    than: str = ""
    dropped: float | None = None
    reason: str = ""

    @property
    def single(self) -> bool:
        return self.placement.kind == "single"


@dataclass(frozen=True, slots=True)
class Capped:
    """A placement kept from running more than a share of the time, and what it and a foreground task had of that."""

    placement: Placement
    cap: float
    per_s: float
    dropped: float | None


@dataclass(frozen=True, slots=True)
class Ways:
    """`idle_dropped` is the share of deadlines the foreground task misses with nothing beside it."""

    subject: str
    label: str
    machine: str
    over: tuple[str, ...]
    ways: tuple[Way, ...]
    idle_dropped: float | None = None
    capped: tuple[Capped, ...] = ()

    @property
    def key(self) -> str:
        return f"{self.subject}|{self.machine}|{'|'.join(self.over)}"


def chosen(ways: tuple[Way, ...], use: Use, competing: int) -> Way | None:
    """The quickest; but one target alone, unless something else is told apart from the best of those."""
    those = [way for way in ways if (way.use, way.competing) == (use, competing) and way.cost_ns is not None]
    singles = [way for way in those if way.single]
    better = [way for way in those if not way.single and way.ratio is not None and way.ratio[0] > 1.0]
    quickest = min(singles, key=_cost, default=None)
    # Ratios are of turns taken side by side; costs of different ways were not.
    return max(better, key=lambda way: way.ratio[1] if way.ratio else 0.0, default=quickest)


def _cost(way: Way) -> float:
    assert way.cost_ns is not None
    return way.cost_ns
