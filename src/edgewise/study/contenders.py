"""Candidates to choose between: every model on every target, ready to be asked about the same images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..core.errors import InputError
from ..core.preprocess import parse_preprocess
from ..core.types import Failure, Model, Placement, Scenario, Target
from ..measure.accuracy import Exam
from ..measure.cell import Cell
from .accuracy import batch_of, completed_or_not, exams
from .images import Question, sizes
from .prepare import cell, derived
from .request import Request

FEWEST = 2


@dataclass(frozen=True, slots=True)
class Contender:
    """`model` is what was asked for, by the name `asked`; `runs` is the form of it that the target runs. `shapes` are
    those of an input whose sizes the model leaves open."""

    model: Model
    asked: str
    runs: Model
    cell: Cell
    exam: Exam
    shapes: tuple[tuple[str, tuple[int, ...]], ...] = ()

    @property
    def target(self) -> Target:
        return self.cell.task.placement.targets[0]

    @property
    def name(self) -> str:
        return f"{self.model.label} on {self.target}"


def contenders(
    request: Request, asked: Sequence[str], question: Question, preprocess: Sequence[str] = ()
) -> tuple[list[Contender], list[Failure]]:
    """One for each model and target, and the reasons of those that cannot be. `asked`: the models' names as typed;
    `preprocess`: how an image becomes the input, of each model or of all; none: as the models say themselves."""
    request = replace(request, models=_said(request.models, preprocess))
    if len(request.models) * len(request.targets) < FEWEST:
        only = f"{request.models[0].label} on {request.targets[0]}"
        raise InputError(
            f"there is nothing to choose between: {only} is the only candidate",
            "--models A B, or the same model on another target: --on A --on B",
        )
    targets = {
        model.digest: [completed_or_not(t, request.engine(t), request.machine, model) for t in request.targets]
        for model in request.models
    }
    cores = {target.cores for each in targets.values() for target in each}
    if len(cores) > 1:
        raise InputError("candidates run in one process, and their targets name different cores", "leave out the #")
    asking = exams(request.models, targets, question, request.limits, hold_out=False)
    _refuse_other_images([(model, images) for model, (images, _) in zip(request.models, asking, strict=True)])
    # Nobody compares what comes out with a reference: whether it is right is what the images are for.
    unchecked = [replace(engine, computes=False) for engine in request.engines]
    found: list[Contender] = []
    failures: list[Failure] = []
    for model, name, (images, calibrated) in zip(request.models, asked, asking, strict=True):
        load = Scenario(batch=batch_of(model, 1))
        limits = replace(calibrated, shapes=sizes(model, images, load.batch))
        for target in targets[model.digest]:
            ready = cell(model, Placement.single(target), load, request.machine, unchecked, limits)
            if isinstance(ready, Failure):
                failures.append(ready)
                continue
            runs = derived(model, target, request.machine, limits)
            shapes = tuple(sorted((each, tuple(shape)) for each, shape in limits.shapes.items()))
            found.append(Contender(model, name, runs, ready, images, shapes))
    refuse_other_classes(found)
    return found, failures


def _said(models: Sequence[Model], preprocess: Sequence[str]) -> tuple[Model, ...]:
    if len(preprocess) not in (0, 1, len(models)):
        raise InputError(
            f"--preprocess is one for all models or one for each, found {len(preprocess)} for {len(models)}",
            "--preprocess 'imagenet(resize=256, crop=224)'",
        )
    given = [parse_preprocess(text) for text in preprocess] * (len(models) if len(preprocess) == 1 else 1)
    if not given:
        return tuple(models)
    return tuple(replace(model, preprocess=how) for model, how in zip(models, given, strict=True))


def _refuse_other_images(asking: Sequence[tuple[Model, Exam]]) -> None:
    first, images = asking[0]
    for model, own in asking[1:]:
        if own.digest != images.digest:
            raise InputError(
                f"{first.label} would be asked about {images.label} and {model.label} about {own.label}",
                "name the images for all: --data DATA",
            )


def refuse_other_classes(found: Sequence[Contender], outputs: Sequence[int] | None = None) -> None:
    """All must tell the same classes apart: by what their files say of their outputs, or by what came out of them."""
    counts: dict[int, str] = {}
    for place, contender in enumerate(found):
        declared = (contender.model.outputs[0].shape or (None,))[1:]
        sizes = [size for size in declared if size != 1]
        count = outputs[place] if outputs else sizes[0] if len(sizes) == 1 else None
        if isinstance(count, int):
            counts.setdefault(count - parse_preprocess(contender.exam.preprocess).label_offset, contender.model.label)
    if len(counts) > 1:
        (some, first), (others, second) = list(counts.items())[:2]
        raise InputError(
            f"{first} has {some} classes and {second} has {others}: they do not answer the same question",
            "if the first output of one is a background: --preprocess A 'B(label_offset=1)', one for each model",
        )
