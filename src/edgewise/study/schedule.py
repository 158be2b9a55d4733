"""In which order a study measures, how long that will take, and what a budget leaves out."""

from __future__ import annotations

import random
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from ..core.errors import EdgewiseError, InputError
from ..core.types import Model, Placement, Scenario, Target, Task
from ..measure.cell import WARMUP_SHARE
from ..store.done import Done
from .prepare import completed, engine_versions
from .request import Request, under
from .study import Study

# What one inference takes, before any has been measured.
_RUN_S = 0.02


@dataclass(frozen=True, slots=True)
class Wanted:
    """One cell, before it is prepared. `known`: the store has it."""

    model: Model
    placement: Placement
    scenario: Scenario
    known: bool = False

    @property
    def kind(self) -> str:
        """What takes about as long: a placement of the same kind over the same engines, with the same batch."""
        return f"{self.placement.kind}({'+'.join(target.engine for target in self.placement.targets)})"


def blocks(study: Study, request: Request, done: Done | None) -> list[list[Wanted]]:
    """Small batches before larger ones, so that a study cut short has seen everything once; of a batch, model by
    model, and the targets of one in random order: what is compared is measured close together in time."""
    chosen = {m.digest: list(_chosen(study, request, m)) for m in request.models}
    if not any(chosen.values()):
        raise InputError(
            f"{study.name}: of the targets here, none is left by engines, precisions and threads", "edgewise devices"
        )
    order, found = random.Random(study.seed), []
    for size in study.batch:
        for model in request.models:
            block = [
                Wanted(model, placement, load, _known(request, done, study, model, placement, load))
                for placement in chosen[model.digest]
                for load in dict.fromkeys(under(placement, load.with_batch(size)) for load in study.scenarios)
            ]
            order.shuffle(block)
            found.append(block)
    return [block for block in found if block]


def _chosen(study: Study, request: Request, model: Model) -> Iterator[Placement]:
    """The placements of a model; those it has by default, less what the study leaves out."""
    if request.placements:
        yield from dict.fromkeys(request.placements)
        return
    default = list(dict.fromkeys(p.targets[0] for of, p, _ in request.pairs() if of.digest == model.digest))
    most: dict[tuple[object, ...], int] = defaultdict(int)
    for target in default:
        most[_but_threads(target)] = max(most[_but_threads(target)], target.threads or 0)
    for target in default:
        if study.precisions and target.precision not in study.precisions:
            continue
        wanted = {"one": 1, "all": most[_but_threads(target)], "both": target.threads}[study.threads]
        if target.threads is None or target.threads == wanted:
            yield Placement.single(target)


def _but_threads(target: Target) -> tuple[object, ...]:
    return (target.engine, target.device, target.precision, target.options)


def _known(
    request: Request, done: Done | None, study: Study, model: Model, placement: Placement, load: Scenario
) -> bool:
    if done is None:
        return False
    # What cannot be completed will be a failure, in the store as it is here.
    with suppress(EdgewiseError):
        placement = completed(placement, request.engines, request.machine, model)
    task, versions = Task(model.digest, placement, load), engine_versions(placement, request.engines)
    # What failed before it could be prepared belongs to no version.
    return done.has(task, versions, study.protocol.passes) or done.has(task, ())


@dataclass(slots=True)
class Course:
    """How a study goes: what visits took so far, and what that means for those to come."""

    startup_s: float
    passes: int
    budget_s: float | None = None
    clock: Callable[[], float] = time.monotonic
    began: float = field(init=False)
    _took: dict[tuple[str, int], list[float]] = field(init=False)

    def __post_init__(self) -> None:
        self.began = self.clock()
        self._took = defaultdict(list)

    def spent(self) -> bool:
        """Whether the budget is used up."""
        return self.budget_s is not None and self.clock() - self.began >= self.budget_s

    def took(self, cell: Wanted, seconds: float) -> None:
        self._took[cell.kind, cell.scenario.batch].append(seconds)

    def bounds_s(self, cell: Wanted) -> tuple[float, float]:
        """All visits of a cell together, from what the protocol says: at the least, and at the most unless single runs
        are slower than that."""
        load = cell.scenario
        around = self.passes * (self.startup_s + load.cooldown_s)
        return around + load.min_s, around + load.max_s * (1 + WARMUP_SHARE)

    def all_s(self, cells: Iterable[Wanted]) -> tuple[float, float]:
        """The bounds of all that is to be measured."""
        bounds = [self.bounds_s(cell) for cell in cells if not cell.known]
        return sum(least for least, _ in bounds), sum(most for _, most in bounds)

    def cell_s(self, cell: Wanted) -> float:
        """The mean of what the same kind took with the same batch, or with any; before that, a guess between the
        bounds: the middle, or what the runs would take where their number is given."""
        kind, load = cell.kind, cell.scenario
        every = [s for (of, _), took in self._took.items() if of == kind for s in took]
        seen = self._took.get((kind, load.batch)) or every
        if seen:
            return self.passes * sum(seen) / len(seen)
        least, most = self.bounds_s(cell)
        if load.max_runs is None:
            return (least + most) / 2
        return min(most, least + (load.max_runs + (load.warmup or 0)) * load.batch * _RUN_S)

    def about_s(self, cells: Iterable[Wanted]) -> float:
        return sum(self.cell_s(cell) for cell in cells if not cell.known)

    def within(self, cells: Sequence[Wanted]) -> int:
        """How many of the cells, in their order, the budget is likely to cover."""
        if self.budget_s is None:
            return len(cells)
        total = 0.0
        for count, cell in enumerate(cells):
            total += 0.0 if cell.known else self.cell_s(cell)
            if total > self.budget_s:
                return count
        return len(cells)


def outline(cells: Sequence[Wanted], models: int) -> str:
    """Cells of a study of so many models, in few words: `batch 16 of vgg16 (6 cells), batch 32 (12 cells)`."""
    counts: dict[int, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for cell in cells:
        counts[cell.scenario.batch][cell.model.label] += 1
    said = []
    for batch, labels in sorted(counts.items()):
        total = sum(labels.values())
        of = f" of {', '.join(labels)}" if len(labels) < models else ""
        said.append(f"batch {batch}{of} ({total} {'cell' if total == 1 else 'cells'})")
    return ", ".join(said)
