"""What a processor can do at most, measured; and what it really moved while a model ran."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .types import Placement, Scenario, Target

# Behind a precision: its roof by vector instructions, on a processor whose tiles do more. Not every engine uses them.
WITHOUT_AMX = " without AMX"


@dataclass(frozen=True, slots=True)
class Roof:
    """`compute`: operations a second in a precision (a multiply-add is two). `memory`: bytes a second of a level.

    `per_s` is the best of several tries, `low` the worst: a roof is what was reached, not what is usual.
    """

    kind: Literal["compute", "memory"]
    name: str
    per_s: float
    low: float
    method: str


@dataclass(frozen=True, slots=True)
class Roofs:
    """The roofs of one device, all its `threads` at work together; what could not be measured, and why."""

    machine: str
    device: str
    threads: int | None
    roofs: tuple[Roof, ...]
    missing: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes that crossed to memory in one run, by hardware counters: `source` is `ncu` or `perf`.

    Where nothing could be counted, `bytes_per_run` is None and `reason` says why.
    """

    subject: str
    label: str
    placement: Placement
    scenario: Scenario
    machine: str
    source: str
    bytes_per_run: int | None
    runs: int
    reason: str = ""


def place(target: Target) -> str:
    """The processor a target runs on, as roofs name it: `cpu`, `cpu.big`, `cpu#0+2` on cores named, `cuda.0`."""
    return (target.device or "cpu") + ("#" + "+".join(map(str, target.cores)) if target.cores else "")
