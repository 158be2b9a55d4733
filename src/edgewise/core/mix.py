"""Several networks that arrive with deadlines, and what became of every arrival under each scheduler."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .types import Target

Arrivals = Literal["periodic", "poisson"]


@dataclass(frozen=True, slots=True)
class Network:
    """A network of a mix: how often it is asked, and how soon after that its answer has to be there."""

    label: str
    subject: str
    rate_hz: float
    deadline_ns: int
    arrivals: Arrivals = "periodic"


@dataclass(frozen=True, slots=True)
class Job:
    """One arrival. Times count from the beginning of its block; the deadline is a moment, not a length."""

    number: int
    network: int
    arrival_ns: int
    deadline_ns: int


@dataclass(frozen=True, slots=True)
class Served:
    """What became of a job. Without a device it was dropped, or still waited when its block was over."""

    job: Job
    device: int | None = None
    began_ns: int | None = None
    ended_ns: int | None = None
    dropped: bool = False

    @property
    def hit(self) -> bool:
        return self.ended_ns is not None and self.ended_ns <= self.job.deadline_ns

    @property
    def response_ns(self) -> int | None:
        return None if self.ended_ns is None else self.ended_ns - self.job.arrival_ns


@dataclass(frozen=True, slots=True)
class Block:
    """Arrivals of a while, served by one scheduler. Blocks of the same `number` have the same arrivals. `busy_ns` is
    what each target worked in it."""

    number: int
    scheduler: str
    served: tuple[Served, ...]
    busy_ns: tuple[int, ...]
    elapsed_ns: int


@dataclass(frozen=True, slots=True)
class Service:
    """One network alone on one target: what its runs took, or the reason why it is not served there."""

    network: int
    device: int
    samples_ns: tuple[int, ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Mix:
    """A mix as it was run: `predicted` are the same blocks with a simulated clock, services drawn from those measured
    alone. `lost` has the reason of each process that was gone on without."""

    name: str
    machine: str
    versions: tuple[tuple[str, str], ...]
    networks: tuple[Network, ...]
    targets: tuple[Target, ...]
    schedulers: tuple[str, ...]
    seed: int
    services: tuple[Service, ...]
    blocks: tuple[Block, ...]
    predicted: tuple[Block, ...]
    lost: tuple[str, ...] = ()
