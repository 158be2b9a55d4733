"""What a target does with a model's operators, and into how many pieces that cuts it."""

from __future__ import annotations

from dataclasses import dataclass

from .types import Placement, Verdict


@dataclass(frozen=True, slots=True)
class Partition:
    """Nodes that run on one device without a change in between; `entering_bytes` are made by others and read here."""

    device: str
    nodes: tuple[str, ...]
    multiply_adds: int | None = None
    entering_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Support:
    """Verdicts and the pieces they cut the model into, both before it is loaded; then what loading it came to.

    `ran_on` is where the engine says it runs, `error` how far its answer is from the reference's; None where it was
    not tried, or where there is no reference. `failure` is why it did not run.
    """

    subject: str
    label: str
    placement: Placement
    machine: str
    versions: tuple[tuple[str, str], ...]
    verdicts: tuple[Verdict, ...]
    partitions: tuple[Partition, ...] = ()
    ran_on: tuple[str, ...] | None = None
    error: float | None = None
    failure: str | None = None
