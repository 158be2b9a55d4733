"""What a target does with a model's operators, and into how many pieces that cuts it."""

from __future__ import annotations

from dataclasses import dataclass

from .types import Placement, Verdict


@dataclass(frozen=True, slots=True)
class Partition:
    """Nodes that run on one device without a change in between; `boundary_bytes` go in and out of it."""

    device: str
    nodes: tuple[str, ...]
    multiply_adds: int | None = None
    boundary_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Support:
    """`predicted` from the verdicts and the graph; `observed` as the engine cut it when it loaded, where it tells."""

    subject: str
    label: str
    placement: Placement
    machine: str
    versions: tuple[tuple[str, str], ...]
    verdicts: tuple[Verdict, ...]
    predicted: tuple[Partition, ...] = ()
    observed: int | None = None
