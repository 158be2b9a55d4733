"""A plan executed: a worker opens it once and runs what the user gives, or chooses a model for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ..analyze.chosen import drifted, skipped
from ..core.chooser import Answer, Unanswered
from ..core.errors import InputError
from ..core.records import from_json, to_json
from ..core.types import Finding
from ..data import files
from ..measure.cell import Cell, Session
from ..measure.executing import Executed
from ..measure.isolate import Worker
from .choosers import Opened
from .prepare import Limits

# Long enough to be cheap, short enough for progress.
_PART_S = 1.0


def images_in(folder: str) -> list[str]:
    """Every picture of a folder and of those inside, in the order of their names."""
    place = Path(folder)
    if not place.is_dir():
        raise InputError(f"{folder} is not a folder", "name files: edgewise run PLAN IMAGE…")
    found = sorted(str(file) for file in place.rglob("*") if file.suffix.lower() in files.SUFFIXES and file.is_file())
    if not found:
        raise InputError(f"{folder} holds no picture ({', '.join(files.SUFFIXES)})")
    return found


def check(inputs: Sequence[str], output: str | None) -> None:
    """Before anything runs for nothing: what is to be read is there, and so is the folder to write to."""
    for path in inputs:
        if not Path(path).is_file():
            raise InputError(f"there is no file {path}")
    if output is not None and not Path(output).resolve().parent.is_dir():
        raise InputError(f"{Path(output).parent} is no folder to write to")


def run_plan(
    cell: Cell,
    preprocess: str | None,
    inputs: Sequence[str],
    *,
    top: int = 5,
    output: str | None = None,
    progress: Callable[[int], None] = lambda done: None,
) -> Iterator[Executed]:
    """What became of each input, in order; without any, of seeded noise. `output` keeps all outputs in an .npz."""
    with Session(cell) as session:
        session.open()
        worker = session.worker
        worker.call("prepare_execution", model=to_json(cell.model), preprocess=preprocess)
        keep = output is not None
        if not inputs:
            yield from _some(worker.call("execute", inputs=[], top=top, keep=keep))
        done, batch = 0, cell.task.scenario.batch
        count = batch
        while done < len(inputs):
            begin = time.monotonic()
            part = [str(Path(path).resolve()) for path in inputs[done : done + count]]
            found = _some(worker.call("execute", inputs=part, top=top, keep=keep))
            done += len(part)
            progress(done)
            yield from found
            count = batch * max(1, int(2 * count * min(1.0, _PART_S / max(time.monotonic() - begin, 1e-6)) / batch))
        if output is not None:
            worker.call("save_executed", path=str(Path(output).resolve()))


def _some(found: Sequence[object]) -> list[Executed]:
    return [from_json(Executed, each) for each in found]


def choose_for(
    found: Opened,
    inputs: Sequence[str],
    limits: Limits,
    *,
    top: int = 5,
    progress: Callable[[int], None] = lambda done: None,
    notice: Callable[[Finding], None] = lambda finding: None,
) -> Iterator[tuple[str, Answer | Unanswered]]:
    """What a chooser makes of each image, in order. `notice` hears in the end which had no answer, and if what was
    promised does not apply."""
    left_out: list[tuple[str, Unanswered]] = []
    with Worker(memory_bytes=limits.memory_bytes, timeout_s=limits.timeout_s) as worker:
        worker.call("open_plan", plan=to_json(found.ready), cores=list(found.cores))
        done, count = 0, 1
        while done < len(inputs):
            begin = time.monotonic()
            part = inputs[done : done + count]
            answers = _answers(worker.call("choose", inputs=[str(Path(path).resolve()) for path in part], top=top))
            pairs = list(zip(part, answers, strict=True))
            left_out += [(path, answer) for path, answer in pairs if isinstance(answer, Unanswered)]
            done += len(part)
            progress(done)
            yield from pairs
            count = max(1, int(2 * count * min(1.0, _PART_S / max(time.monotonic() - begin, 1e-6))))
        if worker.call("guaranteed") is False:
            notice(drifted(found.plan, len(inputs) - len(left_out)))
    names, why = [path for path, _ in left_out], left_out[0][1].message if left_out else ""
    for finding in skipped("images", names, why, len(inputs)):
        notice(finding)


def _answers(found: Sequence[Any]) -> list[Answer | Unanswered]:
    return [from_json(Unanswered, each) if "error" in each else from_json(Answer, each) for each in found]
