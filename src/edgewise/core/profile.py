"""What operators took, and whole runs with and without somebody watching: raw, for `analyze` to account for."""

from __future__ import annotations

from dataclasses import dataclass

from .types import Task


@dataclass(frozen=True, slots=True)
class OpTime:
    """One operator as the engine ran it: what it took in each run of the instrumented executable, in order."""

    name: str
    operator: str
    samples_ns: tuple[int, ...]
    device: str = ""


@dataclass(frozen=True, slots=True)
class Spans:
    """Whole instrumented runs, from outside inwards; empty where the engine does not tell.

    `engine_ns` is from the last input handed over to the first output taken back, `executor_ns` the part of it from
    before the first operator to after the last. `averaged` where operator times are means over several runs.
    """

    engine_ns: tuple[int, ...] = ()
    executor_ns: tuple[int, ...] = ()
    averaged: bool = False


@dataclass(frozen=True, slots=True)
class Profile:
    """What each operator took, and what asking cost: plain and instrumented runs, taken in turns.

    Samples are those after the warm-up, on all sides the same number: the i-th of each belong to one pair of runs.
    """

    task: Task
    machine: str
    versions: tuple[tuple[str, str], ...]
    ops: tuple[OpTime, ...]
    plain_ns: tuple[int, ...]
    instrumented_ns: tuple[int, ...]
    label: str = ""
    spans: Spans = Spans()

    @property
    def key(self) -> str:
        """A newer profile of the same takes the place of this one."""
        return "\n".join((self.task.subject, str(self.task.placement), str(self.task.scenario), self.machine))
