"""Models asked about labelled images, target by target, each part of the answers saved the moment it is there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from ..core.errors import EdgewiseError
from ..core.evaluation import Answers, Evaluation
from ..core.types import Failure, Machine, Model, Placement, Scenario, Target, Task
from ..data import arrays
from ..measure.accuracy import Exam, evaluate
from ..measure.cell import Cell
from ..store.db import Store
from ..store.evaluations import Evaluations
from .images import Question, asked_about, exam, held_out_calibration, other_calibration, own_calibration, sizes
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
    hold_out: bool = False,
) -> Iterator[Evaluation | Failure]:
    """In order, model by model. `progress` hears who is asked, about how many images, and how many are answered.
    `hold_out`: some images are left out in any case, since something was made of them before."""
    facts = {engine.name: engine for engine in engines}
    kept = Evaluations(store)
    wanted = {m.digest: [completed_or_not(t, facts[t.engine], machine, m) for t in targets] for m in models}
    # Everything that can be wrong with what was asked is, before the first image.
    exams_of = exams(models, wanted, question, limits, hold_out)
    for model, (images, calibrated) in zip(models, exams_of, strict=True):
        size = batch_of(model, batch)
        allowed = replace(calibrated, shapes=sizes(model, images, size))
        for target in wanted[model.digest]:
            tell = partial(progress, f"{model.label} on {target}", len(images.indices))
            tell(0)
            ready = cell(model, Placement.single(target), Scenario(batch=size), machine, engines, allowed)
            if isinstance(ready, Failure):
                yield _failed(kept, ready, images)
            else:
                yield ask(kept, ready, images, resume, tell)


def completed_or_not(target: Target, engine: EngineFacts, machine: Machine, model: Model) -> Target:
    """As `cell` will complete it; one that cannot be is left as it is, and becomes a failure there."""
    try:
        return complete(target, engine, machine, model)
    except EdgewiseError:
        return target


def batch_of(model: Model, batch: int) -> int:
    """The batch asked for, or the one the model is fixed to."""
    first = (model.inputs[0].shape or (None,))[0] if model.inputs else None
    return first if isinstance(first, int) else batch


def exams(
    models: Sequence[Model],
    targets: Mapping[str, Sequence[Target]],
    question: Question,
    limits: Limits,
    hold_out: bool,
    looking: bool = False,
) -> list[tuple[Exam, Limits]]:
    """The images for each model, and its limits with what int8 is calibrated on: images given, the model's own, or some
    held out. Where one model needs those, they are held out for all, so that every answer has its pair. `looking`: all
    of them do, whatever the targets are."""
    for model in models:
        asked_about(model, question)
    derives = {
        model.digest: looking
        or (model.precision != "int8" and any(t.precision == "int8" for t in targets[model.digest]))
        for model in models
    }
    own = {m.digest: own_calibration(m, question.data, question.held) for m in models if derives[m.digest]}
    hold_out = hold_out or (limits.calibration is None and any(found is None for found in own.values()))
    found = []
    for model in models:
        images, held = exam(model, question, hold_out=hold_out)
        calibration = None
        if derives[model.digest]:
            calibration = _given(model, images, question, limits) or own[model.digest]
            calibration = calibration or held_out_calibration(model, images, held)
        found.append((images, replace(limits, calibration=calibration)))
    return found


def _given(model: Model, images: Exam, question: Question, limits: Limits) -> str | None:
    """What --calibration names: inputs as they are, or images to make them of."""
    if limits.calibration is None or not of_images(limits.calibration):
        return limits.calibration
    return other_calibration(model, limits.calibration, question.preprocess, images)


def of_images(path: str) -> bool:
    """Whether it is images; an .npz may hold inputs of a model instead (which may be called `images` too)."""
    if Path(path).suffix != ".npz":
        return True
    hint = "--calibration FOLDER, LIST.csv or ARRAYS.npz"
    if "images" not in arrays.names(Path(path), hint):
        return False
    shape, kind = arrays.header(Path(path), "images", hint)
    return kind == "uint8" and len(shape) == 4


def ask(
    kept: Evaluations, ready: Cell, images: Exam, resume: bool, progress: Callable[[int], None]
) -> Evaluation | Failure:
    """The answers of one cell, saved part by part; `resume`: those that are there are not asked for again."""
    before = _empty(ready.task, ready.label, ready.machine, ready.versions, ready.model.digest, images)
    number = None
    found = kept.find(before) if resume else None
    if found is not None:
        if found[1].complete:
            # Its writer may have been ended between the last answer and saying so.
            if kept.claim(found[0]):
                kept.finish(found[0])
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
