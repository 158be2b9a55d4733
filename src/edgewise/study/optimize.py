"""Smaller and quicker models: recipes applied step by step, each result checked, asked about images, and timed in turns
with the model as it is. Every point is kept the moment it is there, so that an interrupted search goes on where it was.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from .. import engines
from ..analyze.accuracy import Outcome, paired
from ..analyze.compare import speed
from ..core import stats
from ..core.errors import CheckFailed, EdgewiseError, InputError, StoreError, Unsupported, rebuild
from ..core.front import AS_IT_IS, Answered, Front, Layer, Point
from ..core.records import from_json, to_json
from ..core.types import Failure, Model, Placement, Recipe, Scenario, Target
from ..measure import isolate
from ..measure.accuracy import Exam
from ..measure.cell import Cell
from ..model import feeds
from ..model.graph import fixed
from ..optimize.apply import REVISION
from ..optimize.quantize.options import quantizing
from ..optimize.search import Space, Tried, search
from ..store.db import Store
from ..store.evaluations import Evaluations
from ..store.kept import Kept
from . import images, recipes
from .accuracy import ask, batch_of, of_images
from .compare import compare
from .costs import keep_cost
from .images import Question
from .prepare import Limits, cell, completed, engine_versions, file_digest
from .request import Request

# Images are asked about so many at a time where the model takes them; it is the answers that count, not the time.
_BATCH = 16
# How often a choice may turn out to lose too much on the images that were kept back.
_LOOKS = 3
# What a model and its images say is the same tomorrow. What was late, crashed, was short of memory or is not installed
# may not be.
_LASTING = (InputError, Unsupported, CheckFailed)

Tell = Callable[[str], None]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Asked:
    """A recipe, or what a search is to keep to. `calibration` is data nobody asks about; without, some of the images
    are held out. `budget_s` ends a search."""

    target: Target
    recipe: Recipe | None = None
    max_loss: float | None = None
    max_weight_bytes: int | None = None
    max_p50_ns: float | None = None
    max_memory_bytes: int | None = None
    question: Question | None = None
    calibration: str | None = None
    space: Space = field(default_factory=Space)
    starts: int = 3
    rounds: int = 20
    budget_s: float | None = None


@dataclass(frozen=True, slots=True)
class Sensitive:
    layers: tuple[Layer, ...]


@dataclass(frozen=True, slots=True)
class Optimized:
    """Every point, and the model of the one that was chosen."""

    front: Front
    model: Model | None


Ready = Callable[[Optimized], None]


def takes_file(name: str) -> None:
    """Refuses by its name a file in an engine's own format, before anybody loads it."""
    suffix = Path(name).suffix
    if engine := engines.formats().get(suffix):
        raise InputError(
            f"{name} is in a format of {engine}'s own ({suffix}), and recipes start from ONNX",
            "edgewise optimize MODEL.onnx, the file it was converted from",
        )


def takes(model: Model, recipe: Recipe | None) -> None:
    """Refuses what is in 8 bits already: every step begins with floats."""
    if model.precision == "int8" and (recipe is None or recipe.steps):
        raise InputError(
            f"{model.label} is quantized already, and recipes start from floats",
            f"edgewise optimize FLOATS.onnx, the file it was made from; to run this one: edgewise tune {model.path}",
        )


def optimize(
    asked: Asked,
    request: Request,
    store: Store,
    tell: Tell,
    detail: Tell,
    call: isolate.Lasting | None = None,
    ready: Ready = lambda made: None,
) -> Optimized:
    """`call` runs passes: one that another search has used knows what they saw there. `ready` hears what was chosen the
    moment it is there: then layers are looked at one by one, which takes its time."""
    with isolate.Lasting() if call is None else contextlib.nullcontext(call) as lasting:
        return _Optimize(asked, request, store, tell, detail, lasting, ready).run()


class _Optimize:
    def __init__(
        self,
        asked: Asked,
        request: Request,
        store: Store,
        tell: Tell,
        detail: Tell,
        call: Callable[..., Any],
        ready: Ready,
    ) -> None:
        self._asked, self._request, self._store, self._tell, self._detail = asked, request, store, tell, detail
        self._call, self._ready = call, ready
        self._model = request.models[0]
        self._kept = Kept(store)
        self._until = time.monotonic() + asked.budget_s if asked.budget_s else None
        placement = Placement.single(asked.target)
        versions = engine_versions(placement, request.engines)
        self._deciding: Exam | None = None
        self._reporting: Exam | None = None
        self._limits = request.limits
        self._look_at_images()
        self._about = hashlib.sha256(
            repr(
                (
                    self._model.digest,
                    REVISION,
                    request.machine.id,
                    str(asked.target),
                    versions,
                    (self._deciding.digest, self._deciding.preprocess) if self._deciding else "",
                    file_digest(self._limits.calibration) if self._limits.calibration else "",
                    sorted(self._limits.shapes.items()),
                    (asked.starts, asked.rounds),
                )
            ).encode()
        ).hexdigest()[:20]
        # By recipe, what the front shows; by key, all there is.
        self._points: dict[str, Point] = {}
        self._found: dict[str, Point] = {}

    def run(self) -> Optimized:
        self._point(AS_IT_IS)
        note = ""
        if self._asked.recipe is not None:
            chosen: str | None = str(self._asked.recipe) or AS_IT_IS
            for recipe in _prefixes(self._asked.recipe):
                if self._point(str(recipe), chosen).reason:
                    chosen = None
                    break
        else:
            note = self._search()
            chosen = self._certified()
        if chosen is not None:
            self._reported(AS_IT_IS)
            # What each step brings is told by the recipe without it.
            for recipe in _prefixes(recipes.parse(chosen)):
                self._reported(str(recipe), chosen)
            if self._points[chosen].reason:
                chosen = None
        front = replace(self._front(), chosen=chosen, note=note, noise=chosen is not None and self._blind(chosen))
        made = Optimized(front, None if chosen is None else self._model_of(chosen))
        self._kept.keep("front", made.front.key, made.front)
        self._ready(made)
        front = self._looked_at(made.front)
        if front is not made.front:
            self._kept.keep("front", front.key, front)
        return replace(made, front=front)

    def _blind(self, recipe: str) -> bool:
        """Whether it is quantized by what comes out, and nobody has said of what."""
        own = [quantizing(dict(s.options)) for s in recipes.parse(recipe).steps if s.name == "quantize"]
        return self._limits.calibration is None and any(how.calibrated for how in own)

    def _looked_at(self, front: Front) -> Front:
        """Which layers mind being quantized, where a recipe did and there are inputs to see it by. Nothing rests on it,
        so what goes wrong is told, and no more."""
        if self._limits.calibration is None or not any(recipes.to_int8(recipes.parse(each)) for each in self._points):
            return front
        try:
            return replace(front, layers=self._layers(self._limits.calibration))
        except StoreError:
            raise
        except EdgewiseError as error:
            return replace(front, unseen=error.message, hint=error.hint)

    def _layers(self, samples: str) -> tuple[Layer, ...]:
        key = f"{self._about}|layers"
        found = self._kept.find("layers", key, Sensitive)
        if found is None:
            self._tell("which layers mind being quantized")
            counted = isolate.call(
                "edgewise.study.passes:sensitivity_of",
                timeout_s=max(self._limits.timeout_s, 600.0),
                memory_bytes=self._limits.memory_bytes,
                model=to_json(fixed(self._model, feeds.shapes(self._model, 1, self._limits.shapes))),
                samples=samples,
            )
            found = Sensitive(tuple(from_json(Layer, each) for each in counted))
            self._kept.keep("layers", key, found)
        return found.layers

    def _search(self) -> str:
        target, costed = self._asked.target, keep_cost(self._store, self._model, 1, self._limits)
        device = self._request.engine(target).device(target.device)
        cost = costed.cost if costed else None
        asking = search(recipes.suited(self._asked.space, self._model, cost, device, target.precision))
        recipe = next(asking)
        try:
            while True:
                if self._until and time.monotonic() > self._until:
                    return "the time was up before the search was"
                point = self._point(recipe)
                low, ratio, _ = point.ratio or (math.inf, None, None)
                front = self._front()
                # What could not be made leaves the model as it is.
                there = point if not point.reason else front.as_it_is or point
                accurate, quick = front.accurate(point), front.quick(there)
                # What less work is for, be it quicker or not.
                small = front.small(there) and front.lean(there)
                recipe = asking.send(Tried(ratio, accurate, low, small, quick))
        except StopIteration:
            return ""

    def _certified(self) -> str | None:
        """The best point by the images that decisions rest on, if the others confirm what it loses; else the next. The
        model as it is, where that does all that was asked and nothing else is better."""
        left = self._front()
        for _ in range(_LOOKS):
            best = left.best
            if best is None or best.recipe == AS_IT_IS:
                break
            answered = self._reported(best.recipe).reported
            if self._asked.max_loss is None or (answered and answered.interval[1] <= self._asked.max_loss):
                return best.recipe
            left = replace(left, points=tuple(point for point in left.points if point.recipe != best.recipe))
        before = left.as_it_is
        return AS_IT_IS if before is not None and left.allowed(before) else None

    def _front(self) -> Front:
        asked, deciding = self._asked, self._deciding
        return Front(
            self._model.digest,
            self._model.label,
            self._request.machine.id,
            str(asked.target),
            tuple(self._points.values()),
            None,
            deciding.label if deciding else "",
            len(self._reporting.indices) if self._reporting else 0,
            asked.max_loss,
            asked.max_weight_bytes,
            asked.max_p50_ns,
            asked.max_memory_bytes,
        )

    def _look_at_images(self) -> None:
        """What passes see, what decisions rest on, and what is kept back for the end."""
        question, limits = self._asked.question, self._request.limits
        if question is None:
            return
        count = images.statistics_images(self._model)
        question = replace(question, held=count)
        given = self._asked.calibration
        if question.data is None and self._model.data is None:
            # Nobody is asked anything: it is only looked at.
            if given is not None and of_images(given):
                given = images.other_calibration(self._model, given, question.preprocess, count=count)
            self._limits = replace(limits, calibration=given)
            return
        own = images.own_calibration(self._model, question.data, count) if given is None else None
        held_out = given is None and own is None
        held: tuple[int, ...] = ()
        if self._asked.recipe is not None and question.data is not None and not images.labelled(question):
            # Images without labels will do to look at a network with.
            given = given or question.data
        else:
            self._deciding, self._reporting, held = images.divided(self._model, question, hold_out=held_out)
        if given is not None and of_images(given):
            given = images.other_calibration(self._model, given, question.preprocess, self._deciding, count)
        elif held:
            assert self._deciding is not None
            given = images.held_out_calibration(self._model, self._deciding, held)
        self._limits = replace(limits, calibration=given or own)

    def _point(self, recipe: str, whole: str | None = None) -> Point:
        """What a recipe comes to, from the store where that has it; as the beginning of `whole`, where it is one."""
        key = self._key(recipe, whole)
        if key not in self._found:
            point = self._kept.find("point", key, Point)
            if point is None:
                point = self._made(key, recipe, whole)
            self._found[key] = point
        self._points[recipe] = self._found[key]
        return self._found[key]

    def _key(self, recipe: str, whole: str | None) -> str:
        """Pieces of what becomes int8 in the end are timed so from the beginning: another model than for itself."""
        other = self._eight(recipe, whole) != recipes.to_int8(recipes.parse(recipe))
        return f"{self._about}|{recipe}" + ("|int8" if other else "")

    def _eight(self, recipe: str, whole: str | None) -> bool:
        return recipes.to_int8(recipes.parse(whole or recipe))

    def _made(self, key: str, recipe: str, whole: str | None) -> Point:
        """What it comes to now, kept unless it may come out otherwise the next time."""
        parsed = recipes.parse(recipe)
        self._tell(f"{recipe}: making it" if parsed.steps else "the model as it is")
        try:
            model = self._model_of(recipe, whole)
            point = Point(recipe, model.digest)
            self._store.save_model(model)
            costed = keep_cost(self._store, model, 1, self._limits)
            if costed is not None:
                cost = costed.cost
                point = replace(point, weight_bytes=cost.weight_bytes, multiply_adds=cost.multiply_adds)
            if parsed.steps:
                point = replace(point, error=recipes.off(self._model, model, self._limits))
            point = replace(point, decided=self._answered(model, self._deciding))
            point, lasts = self._timed(model, point), True
        except EdgewiseError as error:
            point, lasts = _refused(Point(recipe), error), isinstance(error, _LASTING)
        if lasts:
            self._kept.keep("point", key, point)
        return point

    def _model_of(self, recipe: str, whole: str | None = None) -> Model:
        parsed, machine, eight = recipes.parse(recipe), self._request.machine, self._eight(recipe, whole)
        target = self._timing()
        return recipes.applied(self._model, parsed, machine, self._limits, _silent, target, eight, self._call)

    def _timing(self) -> Target | None:
        """Where passes time pieces: engines that read them as they are written."""
        facts = self._request.engine(self._asked.target)
        if engines.ONNX not in facts.reads:
            return None
        target = self._target(self._model)
        with contextlib.suppress(EdgewiseError):
            # What int8 needs there (kernels that are capped) does no harm to floats.
            eight = replace(self._asked.target, precision="int8")
            placed = completed(Placement.single(eight), self._request.engines, self._request.machine, self._model)
            target = replace(target, options=placed.targets[0].options)
        return target

    def _answered(self, model: Model, exam: Exam | None) -> Answered | None:
        if exam is None:
            return None
        before, after = (self._outcome(each, exam) for each in (self._model, model))
        return Answered(int(after.right.sum()), paired(before, after))

    def _outcome(self, model: Model, exam: Exam) -> Outcome:
        size = batch_of(model, _BATCH)
        limits = replace(self._limits, shapes=images.sizes(model, exam, size) or self._limits.shapes)
        total = len(exam.indices)
        found = ask(
            Evaluations(self._store),
            self._cell(model, Scenario(batch=size), limits),
            exam,
            True,
            lambda done: self._detail(f"{done} of {total} images"),
        )
        return Outcome.of(_unless_failed(found))

    def _cell(self, model: Model, scenario: Scenario, limits: Limits) -> Cell:
        placement = Placement.single(self._target(model))
        return _unless_failed(cell(model, placement, scenario, self._request.machine, self._request.engines, limits))

    def _target(self, model: Model) -> Target:
        """The target in the precision of what was made; one that was asked for by name stays for models in floats."""
        precision = model.precision if model.precision == "int8" else self._asked.target.precision
        target = replace(self._asked.target, precision=precision)
        return completed(Placement.single(target), self._request.engines, self._request.machine, model).targets[0]

    def _timed(self, model: Model, point: Point) -> Point:
        """Beside the model as it is, in turns."""
        asked = self._asked
        alone = point.recipe == AS_IT_IS
        results = compare(
            [self._cell(each, Scenario(), self._limits) for each in ((model,) if alone else (self._model, model))],
            self._store,
            lambda start, turn: self._detail(f"set of processes {start + 1} of {asked.starts}, turn {turn + 1}"),
            starts=asked.starts,
            rounds=asked.rounds,
            study="optimize",
        )
        found = [_unless_failed(each) for each in results]
        mine = found[-1]
        ratio: tuple[float, float, float] | None = (1.0, 1.0, 1.0)
        if not alone:
            quicker = speed(found[0], mine)
            ratio = (1 / quicker.high, 1 / quicker.estimate, 1 / quicker.low) if quicker else None
        return replace(point, ratio=ratio, p50_ns=stats.quantile(mine.samples_ns, 0.5), memory_bytes=mine.peak_bytes)

    def _reported(self, recipe: str, whole: str | None = None) -> Point:
        """The same point with its answers on the images that were kept back."""
        point = self._point(recipe, whole)
        if point.reported is None and self._reporting is not None and not point.reason:
            self._tell(f"{recipe}: {len(self._reporting.indices)} images that nothing was decided on")
            key = self._key(recipe, whole)
            try:
                point = replace(point, reported=self._answered(self._model_of(recipe, whole), self._reporting))
                self._kept.keep("point", key, point)
            except EdgewiseError as error:
                point = _refused(point, error)
            self._points[recipe] = self._found[key] = point
        return point


def _refused(point: Point, error: EdgewiseError) -> Point:
    """The reason why there is no more of a point, unless it is one to end everything for: nothing can be kept, or the
    model that all others are set beside does not do it either."""
    if isinstance(error, StoreError) or point.recipe == AS_IT_IS:
        raise error
    return replace(point, reason=error.message, hint=error.hint)


def _prefixes(recipe: Recipe) -> Iterator[Recipe]:
    """The recipe as far as each of its steps: what each of them brings is a matter of the one before."""
    for count in range(1, len(recipe.steps) + 1):
        yield Recipe(recipe.steps[:count])


def _silent(what: str) -> None:
    pass


def _unless_failed(result: T | Failure) -> T:
    if isinstance(result, Failure):
        raise rebuild({"error": result.error, "message": result.message, "hint": result.hint})
    return result
