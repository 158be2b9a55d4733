"""A plan to be measured: the cells that run it as it says, in place of models × targets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ..core.chooser import Choosing
from ..core.errors import InputError
from ..core.types import Failure, Finding, Machine, Model, Result, Scenario
from ..measure.cell import Cell
from ..system.machine import machine
from . import choosers, plans
from .images import Question
from .prepare import Known, Limits
from .request import under


@dataclass(frozen=True, slots=True)
class PlanCells:
    """What was asked for of one plan, as `Request` has it for models; `findings` tell what has changed since."""

    machine: Machine
    made: tuple[Cell | Failure, ...]
    findings: tuple[Finding, ...]
    limits: Limits
    models: tuple[Model, ...] = ()

    def pairs(self) -> Sequence[object]:
        return self.made

    def cells(self) -> Iterator[Cell | Failure]:
        yield from self.made

    def cells_unless(self, known: Known) -> Iterator[Cell | Result]:
        for cell in self.made:
            found = None if isinstance(cell, Failure) else known(cell.task, cell.versions, cell.inputs)
            yield found or cell


def is_plan(names: Sequence[str]) -> bool:
    """Whether what was typed is a plan, and not models."""
    found = [name for name in names if name.endswith(".json")]
    if found and len(names) > 1:
        raise InputError(f"a plan is measured by itself, found {len(names)} names", f"edgewise bench {found[0]}")
    return bool(found)


def plan_cells(
    path: str, on: Sequence[str], batch: Sequence[int], loads: Sequence[Scenario], limits: Limits, question: Question
) -> PlanCells:
    """One cell for each load and batch: by default, single images."""
    if on or limits.shapes or limits.calibration:
        raise InputError("a plan says itself where it runs and on what", f"edgewise bench {path}")
    plan = plans.read(path)
    scenarios = [load.with_batch(size) for load in loads for size in batch] if batch else list(loads)
    made: list[Cell | Failure] = []
    findings: list[Finding] = []
    if isinstance(plan, Choosing):
        asked = choosers.seen(path, plan, question)
        shown = choosers.pictures(asked)
        for size in dict.fromkeys(load.batch for load in scenarios):
            opened = choosers.opened(path, plan, limits, size)
            findings = list(opened.findings)
            made += [choosers.bench_cell(path, opened, s, shown, limits) for s in scenarios if s.batch == size]
        return PlanCells(machine(), tuple(made), tuple(findings), limits)
    if question.data is not None:
        raise InputError(f"{path} is a plan of one model, which is measured on noise", f"edgewise bench {path}")
    for load in scenarios:
        size = load.batch if batch else plan.scenario.batch
        ready, findings = plans.ready(
            path, replace(plan, scenario=under(plan.placement, load.with_batch(size))), limits
        )
        made.append(ready)
    return PlanCells(machine(), tuple(made), tuple(findings), limits)
