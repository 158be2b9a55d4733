"""One cell asked about labelled images, seen from the parent: a worker answers them in parts, each saved at once."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from ..core.errors import EdgewiseError
from ..core.evaluation import Answers, Evaluation
from ..core.records import from_json, to_json
from ..core.types import Failure
from .cell import Cell, Session

# Long enough to be cheap, short enough for progress, and to lose little.
_PART_S = 1.0

Save = Callable[[Answers], None]


@dataclass(frozen=True, slots=True)
class Exam:
    """Images by their place in a dataset, and how they become the model's input."""

    data: str
    labels: str | None
    preprocess: str
    indices: tuple[int, ...]
    digest: str
    classes: tuple[str, ...]
    label: str


def evaluate(cell: Cell, exam: Exam, before: Evaluation, save: Save) -> Evaluation | Failure:
    """`before` with the answers it lacks: all, or what an interrupted run had not come to. `save` sees each part the
    moment it is there."""
    answers, done = list(before.answers), before.answered
    stage = "load"
    try:
        if done < len(exam.indices):
            with Session(cell) as session:
                session.open()
                stage = "images"
                session.worker.call(
                    "examine",
                    model=to_json(cell.model),
                    data=exam.data,
                    labels=exam.labels,
                    preprocess=exam.preprocess,
                )
                # Whole batches, one at first: what a slow model takes for one is not known yet.
                batch = cell.task.scenario.batch
                count = batch
                while done < len(exam.indices):
                    begin = time.monotonic()
                    wanted = list(exam.indices[done : done + count])
                    part = from_json(Answers, session.worker.call("answer", indices=wanted))
                    took = time.monotonic() - begin
                    save(part)
                    answers.append(part)
                    done += len(wanted)
                    fitting = count * _PART_S / max(took, 1e-6)
                    count = batch * max(1, int(min(2 * count, fitting) / batch))
    except EdgewiseError as error:
        return Failure.of(error, cell.task, cell.machine, stage, cell.label)
    return replace(before, answers=tuple(answers))
