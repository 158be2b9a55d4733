"""Candidates to choose between: every model, and what recipes make of it, on every target, ready to be asked about the
same images."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from ..core.errors import EdgewiseError, InputError, StoreError
from ..core.preprocess import parse_preprocess
from ..core.types import Failure, Model, Placement, Recipe, Scenario, Target, Task
from ..measure.accuracy import Exam
from ..measure.cell import Cell
from ..optimize.quantize.options import unprofitable
from .accuracy import batch_of, completed_or_not, exams
from .images import Question, sizes, statistics_images
from .prepare import Limits, cell, derived
from .recipes import applied, looks, to_int8
from .request import Request

FEWEST = 2


@dataclass(frozen=True, slots=True)
class Contender:
    """`model` is what was asked for, by the name `asked`, or what a recipe made of that; `runs` is the form of it that
    the target runs. `shapes` are those of an input whose sizes the model leaves open."""

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
    request: Request,
    asked: Sequence[str],
    question: Question,
    preprocess: Sequence[str] = (),
    recipes: Sequence[Recipe] = (),
    tell: Callable[[str], None] = lambda what: None,
) -> tuple[list[Contender], list[Failure]]:
    """One for each model and target, and for what each recipe makes of it; and the reasons of those that cannot be.
    `asked`: the models' names as typed; `preprocess`: how an image becomes the input, of each model or of all; none: as
    the models say themselves. `tell` hears what is made."""
    request = replace(request, models=_said(request.models, preprocess))
    recipes = [recipe for recipe in dict.fromkeys(recipes) if recipe.steps]
    if len(request.models) * len(request.targets) * (1 + len(recipes)) < FEWEST:
        only = f"{request.models[0].label} on {request.targets[0]}"
        raise InputError(
            f"there is nothing to choose between: {only} is the only candidate",
            "--models A B; or the same model on another target: --on A B; or what is made of it: --recipe quantize",
        )
    targets = {
        model.digest: [completed_or_not(t, request.engine(t), request.machine, model) for t in request.targets]
        for model in request.models
    }
    cores = {target.cores for each in targets.values() for target in each}
    if len(cores) > 1:
        raise InputError("candidates run in one process, and their targets name different cores", "leave out the #")
    looking = [step.name for recipe in recipes for step in recipe.steps if looks(step)]
    if set(looking) - {"quantize"}:
        # Ranges settle on few images, statistics of what is inside on many.
        question = replace(question, held=min(map(statistics_images, request.models)))
    asking = exams(request.models, targets, question, request.limits, hold_out=False, looking=bool(looking))
    _refuse_other_images([(model, images) for model, (images, _) in zip(request.models, asking, strict=True)])
    # Nobody compares what comes out with a reference: whether it is right is what the images are for.
    unchecked = [replace(engine, computes=False) for engine in request.engines]
    found: list[Contender] = []
    failures: list[Failure] = []
    doubt = unprofitable(request.machine) if any(map(to_int8, recipes)) else None
    if doubt:
        tell(doubt)
    for given, name, (images, calibrated) in zip(request.models, asked, asking, strict=True):
        load = Scenario(batch=batch_of(given, 1))
        limits = replace(calibrated, shapes=sizes(given, images, load.batch))
        shapes = tuple(sorted((each, tuple(shape)) for each, shape in limits.shapes.items()))
        for model in _forms(given, recipes, request, load, limits, tell):
            if isinstance(model, Failure):
                failures.append(model)
                continue
            for wanted in request.targets:
                target = completed_or_not(wanted, request.engine(wanted), request.machine, model)
                ready = cell(model, Placement.single(target), load, request.machine, unchecked, limits)
                if isinstance(ready, Failure):
                    failures.append(ready)
                    continue
                runs = _run(model, target, request, limits)
                # What a recipe makes may be what a target asks for anyway.
                if (runs.digest, target) not in [(each.runs.digest, each.target) for each in found]:
                    found.append(Contender(model, name, runs, ready, images, shapes))
    refuse_other_classes(found)
    return found, failures


def _forms(
    model: Model,
    recipes: Sequence[Recipe],
    request: Request,
    load: Scenario,
    limits: Limits,
    tell: Callable[[str], None],
) -> Iterator[Model | Failure]:
    """The model, and what each recipe makes of it, or why it makes nothing."""
    yield model
    for recipe in recipes:
        try:
            yield applied(model, recipe, request.machine, limits, tell)
        except StoreError:
            raise
        except EdgewiseError as error:
            task = Task(model.digest, Placement.single(request.targets[0]), load)
            yield Failure.of(error, task, request.machine.id, "prepare", f"{model.label} | {recipe}")


def _run(model: Model, target: Target, request: Request, limits: Limits) -> Model:
    """What the target runs, with all that was made of it on the way."""
    runs = derived(model, target, request.machine, limits)
    if model.recipe is None or runs.recipe == model.recipe:
        return runs
    return replace(runs, recipe=f"{model.recipe} | {runs.recipe}", parent=model.parent)


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
