"""Cells one after another, each in a fresh worker, each round saved the moment it is done."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from ..core.types import Failure, Measurement, Result, Scenario, Task
from ..measure.cell import Cell, Part, run_cell
from ..measure.energy import Metered
from ..store.db import Store
from .prepare import Known, Versions

# The cell, or what is known of it; how many visits are done; and a part that was measured (None: a visit begins).
Progress = Callable[[Cell | Result, int, Part | None], None]


@dataclass(slots=True)
class _Open:
    """A cell that is being measured: its number in the store, and what it has so far."""

    cell: Cell
    result_id: int
    before: Measurement | None


def sweep(
    cells: Iterable[Cell | Result],
    store: Store,
    progress: Progress,
    *,
    resume: bool = False,
    meters: Sequence[Metered] = (),
    passes: int = 1,
    seed: int = 0,
    go_on: Callable[[], bool] = lambda: True,
) -> Iterator[Result]:
    """Results in the order of the cells. With `resume`, what the store has is taken from it, what is partly there
    is gone on with, and what another live process is measuring is left to it.

    With several `passes` each cell is visited that often, by a fresh worker that adds its share of the runs: first in
    the order given, then in random order, so that what changes slowly about the machine is not taken for a difference
    between cells; a result is told once it is whole. `go_on` is asked before each visit; when it says no, what has
    been measured in part is told too, and can be gone on with later.
    """
    order, pending, visits = random.Random(seed), list[_Open](), 0
    waiting = iter(cells)
    while go_on() and (cell := next(waiting, None)) is not None:
        progress(cell, visits, None)
        visits += 1
        if isinstance(cell, Failure):
            if not (resume and store.find(cell.task, cell.machine, (), "")):
                store.finish(store.begin(cell.task, cell.machine, (), "", cell.label), cell)
            yield cell
            continue
        if isinstance(cell, Measurement):
            yield cell
            continue
        begun = _begin(cell, store, resume, passes)
        if not isinstance(begun, _Open):
            if begun is not None:
                yield begun
            continue
        result = _visit(begun, store, 1, passes, meters, progress, visits - 1)
        if result is None:
            pending.append(begun)
        else:
            yield result
    for number in range(2, passes + 1):
        for each in order.sample(pending, len(pending)):
            if not go_on():
                yield from (left.before for left in pending if left.before is not None)
                return
            progress(each.cell, visits, None)
            visits += 1
            result = _visit(each, store, number, passes, meters, progress, visits - 1)
            if result is not None:
                pending.remove(each)
                yield result


def finished(store: Store, machine: str, passes: int = 1) -> Known:
    """Finds what the store has measured to its end, so that nothing is made for it."""

    def known(task: Task, versions: Versions, inputs: str) -> Measurement | None:
        found = store.find(task, machine, versions, inputs)
        if found is None or found[1] == "running" or isinstance(found[2], Failure):
            return None
        return found[2] if _enough(found[2], passes) else None

    return known


def _enough(result: Result, passes: int) -> bool:
    """One process is not several: what was measured in fewer passes is no answer to a question about more."""
    return isinstance(result, Failure) or len(result.starts) >= passes


def _begin(cell: Cell, store: Store, resume: bool, passes: int) -> _Open | Result | None:
    """A result to fill, new or left by a process that is gone; or the one there is; None where another is at it."""
    found = store.find(cell.task, cell.machine, cell.versions, cell.inputs) if resume else None
    if found:
        result_id, status, record = found
        if status == "running":
            if not store.claim(result_id):
                return None
            # Read again: nobody else writes it from here on.
            again = store.find(cell.task, cell.machine, cell.versions, cell.inputs)
            assert again and isinstance(again[2], Measurement)
            return _Open(cell, result_id, again[2])
        if _enough(record, passes):
            return record
    store.save_model(cell.model)
    return _Open(cell, store.begin(cell.task, cell.machine, cell.versions, cell.inputs, cell.label), None)


def _visit(
    this: _Open, store: Store, number: int, passes: int, meters: Sequence[Metered], progress: Progress, visit: int
) -> Result | None:
    """One worker's share of a cell; None where further visits are due."""
    cell, last = this.cell, number == passes
    share = _share(cell.task.scenario, number, passes)
    if not last and this.before is not None and _has(this.before, share):
        return None
    if share.cooldown_s:
        time.sleep(share.cooldown_s)

    def save(part: Part) -> None:
        store.add(this.result_id, part)
        progress(cell, visit, part)

    result = run_cell(replace(cell, task=replace(cell.task, scenario=share)), save, this.before, meters=meters)
    result = replace(result, task=cell.task)
    if isinstance(result, Measurement) and not last:
        this.before = replace(result, complete=False)
        return None
    store.finish(this.result_id, result if isinstance(result, Failure) else None)
    return result


def _share(scenario: Scenario, number: int, passes: int) -> Scenario:
    """What the first `number` of `passes` visits come to together."""
    if passes == 1:
        return scenario
    part = number / passes
    # A server's clock starts with each worker; all others count what was measured before.
    time_part = 1 / passes if scenario.kind == "server" else part
    return replace(
        scenario,
        min_runs=math.ceil(scenario.min_runs * part),
        max_runs=None if scenario.max_runs is None else math.ceil(scenario.max_runs * part),
        min_s=scenario.min_s * time_part,
        max_s=scenario.max_s * time_part,
    )


def _has(before: Measurement, share: Scenario) -> bool:
    """Whether an interrupted visit had got as far as this one must."""
    elapsed_ns = sum(round.elapsed_ns for round in before.measured)
    return len(before.samples_ns) >= share.min_runs and elapsed_ns >= share.min_s * 1e9
