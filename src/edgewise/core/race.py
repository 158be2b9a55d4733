"""What a race came to: every candidate, how far it got and why no further."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import Literal

from .types import Failure, Round, Scenario, Task

Prefer = Literal["latency", "throughput", "energy", "memory"]
# tied: not told from the winner by the end. The others are out, each for another reason.
Status = Literal["won", "tied", "slower", "wrong", "failed", "memory", "late", "undecided", "inaccurate"]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What was asked of the winner: a bound on a percentile as (share, ns), the most memory, the largest loss of top-1
    as a share. None is no bound."""

    prefer: Prefer = "latency"
    percentile: tuple[float, float] | None = None
    memory_bytes: int | None = None
    loss: float | None = None


@dataclass(frozen=True, slots=True)
class Loss:
    """Top-1 on labelled images beside that of `than` on the same ones; `low` and `high` are the difference's 95 %."""

    than: str
    data: str
    images: int
    top1: float
    difference: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Entry:
    """A candidate; after `heat` it was out. `ratio` is its cost over the winner's with a 95 % interval; a tie's is the
    interval it was judged by, which allows for the number of candidates and looks and so reaches 1. `p50_ns`, `p90_ns`
    and `per_s` are of the race's turns, taken at different times: `ratio` compares, these do not."""

    task: Task
    label: str
    status: Status
    heat: int | None = None
    starts: int = 0
    ratio: tuple[float, float, float] | None = None
    p50_ns: float | None = None
    p90_ns: float | None = None
    per_s: float | None = None
    peak_bytes: int | None = None
    energy_uj: float | None = None
    energy_source: str | None = None
    error: float | None = None
    loss: Loss | None = None
    reason: str = ""
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class Beside:
    """Whom the winner was set beside in fresh processes, after the choice: `ratio` is its cost over the winner's, with
    a 95 % interval; `roles` are those of runner-up, baseline and best in fp32 that it has."""

    task: Task
    roles: tuple[str, ...]
    p50_ns: float
    ratio: tuple[float, float, float] | None = None


@dataclass(frozen=True, slots=True)
class Race:
    """Entries from best to worst. `p50_ns` is the winner's in the fresh processes of `final`, with a 95 % interval over
    those. No candidate that right answers and bounds leave in costs less than the winner by a share of more than
    `gain`, but for the error rate: 0 where all others were sent home. `overturned` is the winner of the race where
    `final` refuted it. It took `choosing_s` to choose, `racing_s` with what was measured afresh, `took_s` with
    preparing."""

    label: str
    machine: str
    wanted: Wanted
    entries: tuple[Entry, ...]
    final: tuple[Beside, ...] = ()
    p50_ns: tuple[float, float, float] | None = None
    gain: float = 0.0
    error_rate: float = 0.05
    heats: int = 0
    choosing_s: float = 0.0
    racing_s: float = 0.0
    took_s: float = 0.0
    not_tried: tuple[str, ...] = ()
    overturned: str | None = None

    @property
    def winner(self) -> Entry | None:
        return next((entry for entry in self.entries if entry.status == "won"), None)


def turn_cost(round: Round, scenario: Scenario, prefer: Prefer) -> float:
    """Nanoseconds: of one run; of one item, all streams together, where throughput is the question."""
    if prefer == "throughput":
        return round.elapsed_ns / (len(round.samples_ns) * scenario.batch)
    return float(median(round.samples_ns))
