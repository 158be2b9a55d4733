"""Models asked about labelled images, target by target, each part of the answers saved the moment it is there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from ..core.errors import EdgewiseError
from ..core.evaluation import Answers, Evaluation
from ..core.types import Failure, Machine, Model, Scenario, Target, Task
from ..measure.accuracy import Exam, evaluate
from ..measure.cell import Cell
from ..store.db import Store
from ..store.evaluations import Evaluations
from .images import Question, exam, held_out_calibration, other_calibration, own_calibration
from .prepare import Limits, cell, complete
from .survey import EngineFacts

Progress = Callable[[str, int, int], None]


def accuracy(
    models: Sequence[Model],
    targets: Sequence[Target],
    question: Question,
    machine: Machine,
    engines: Sequence[EngineFacts],
    limits: Limits,
    store: Store,
    progress: Progress,
    *,
    batch: int,
    resume: bool = False,
) -> Iterator[Evaluation | Failure]:
    """In order, model by model. `progress` hears who is asked, about how many images, and how many are answered."""
    facts = {engine.name: engine for engine in engines}
    kept = Evaluations(store)
    for model in models:
        wanted = [_completed(target, facts[target.engine], machine, model) for target in targets]
        # The same images for every target of a model, so that answers can be paired.
        images, allowed = _asked(model, wanted, question, limits)
        scenario = Scenario(batch=_batch(model, batch))
        for target in wanted:
            tell = partial(progress, f"{model.label} on {target}", len(images.indices))
            tell(0)
            ready = cell(model, target, scenario, machine, facts[target.engine], allowed)
            if isinstance(ready, Failure):
                yield _failed(kept, ready, images)
            else:
                yield _one(kept, ready, images, resume, tell)


def _completed(target: Target, engine: EngineFacts, machine: Machine, model: Model) -> Target:
    """As `cell` will complete it; one that cannot be is left as it is, and becomes a failure there."""
    try:
        return complete(target, engine, machine, model)
    except EdgewiseError:
        return target


def _batch(model: Model, batch: int) -> int:
    """The batch asked for, or the one the model is fixed to."""
    first = (model.inputs[0].shape or (None,))[0] if model.inputs else None
    return first if isinstance(first, int) else batch


def _asked(model: Model, targets: Sequence[Target], question: Question, limits: Limits) -> tuple[Exam, Limits]:
    """The images, and the limits with what int8 is calibrated on: given, the model's own, or images held out."""
    derives = model.precision != "int8" and any(target.precision == "int8" for target in targets)
    if not derives:
        return exam(model, question, hold_out=False)[0], limits
    if limits.calibration is not None:
        if Path(limits.calibration).suffix != ".npz" or _of_images(limits.calibration):
            limits = replace(limits, calibration=other_calibration(model, limits.calibration, question.preprocess))
        return exam(model, question, hold_out=False)[0], limits
    own = own_calibration(model)
    if own is not None:
        return exam(model, question, hold_out=False)[0], replace(limits, calibration=own)
    images, held = exam(model, question, hold_out=True)
    return images, replace(limits, calibration=held_out_calibration(model, images, held))


def _of_images(path: str) -> bool:
    """Whether an .npz holds images rather than inputs."""
    import zipfile

    try:
        with zipfile.ZipFile(path) as file:
            return "images.npy" in file.namelist()
    except (OSError, zipfile.BadZipFile):
        return False


def _one(
    kept: Evaluations, ready: Cell, images: Exam, resume: bool, progress: Callable[[int], None]
) -> Evaluation | Failure:
    before = _empty(ready.task, ready.label, ready.machine, ready.versions, ready.model.digest, images)
    number = None
    found = kept.find(before) if resume else None
    if found is not None:
        if found[1].complete:
            return found[1]
        if kept.claim(found[0]):
            number, before = found
    if number is None:
        number = kept.begin(before)
    done = before.answered

    def save(part: Answers) -> None:
        nonlocal done
        kept.add(number, part)
        done += len(part.labels)
        progress(done)

    result = evaluate(ready, images, before, save)
    kept.finish(number, result if isinstance(result, Failure) else None)
    return result


def _failed(kept: Evaluations, failure: Failure, images: Exam) -> Failure:
    kept.finish(kept.begin(_empty(failure.task, failure.label, failure.machine, (), "", images)), failure)
    return failure


def _empty(
    task: Task, label: str, machine: str, versions: tuple[tuple[str, str], ...], prepared: str, images: Exam
) -> Evaluation:
    return Evaluation(
        task.subject,
        task.placement,
        machine,
        versions,
        images.digest,
        len(images.indices),
        prepared,
        images.preprocess,
        images.classes,
        (),
        label,
        images.label,
    )
