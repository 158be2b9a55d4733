"""Cells one after another, each in a fresh worker, each round saved the moment it is done."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator

from ..core.types import Failure, Measurement, Result, Round, Start
from ..measure.cell import Cell, run_cell
from ..store.db import Store

Progress = Callable[[Cell | Failure, int, Start | Round | None], None]


def sweep(
    cells: Iterable[Cell | Failure], store: Store, progress: Progress, *, resume: bool = False
) -> Iterator[Result]:
    """Results in the order of the cells. With `resume`, what the store has is taken from it, what is partly there
    is gone on with, and what another live process is measuring is left to it."""
    for number, cell in enumerate(cells):
        progress(cell, number, None)
        if isinstance(cell, Failure):
            if not (resume and store.find(cell.task, cell.machine, (), "")):
                store.finish(store.begin(cell.task, cell.machine, (), "", cell.label), cell)
            yield cell
            continue
        before: Measurement | None = None
        found = store.find(cell.task, cell.machine, cell.versions, cell.inputs) if resume else None
        if found:
            result_id, status, record = found
            if status == "running" and store.claim(result_id):
                # Read again: nobody else writes it from here on.
                again = store.find(cell.task, cell.machine, cell.versions, cell.inputs)
                assert again and isinstance(again[2], Measurement)
                before = again[2]
            else:
                # What another process is still measuring is its to show.
                if status != "running":
                    yield record
                continue
        else:
            store.save_model(cell.model)
            result_id = store.begin(cell.task, cell.machine, cell.versions, cell.inputs, cell.label)
        if cell.task.scenario.cooldown_s:
            time.sleep(cell.task.scenario.cooldown_s)

        def save(part: Start | Round, to: int = result_id, of: Cell = cell, at: int = number) -> None:
            store.add(to, part)
            progress(of, at, part)

        result = run_cell(cell, save, before)
        store.finish(result_id, result if isinstance(result, Failure) else None)
        yield result
