"""Choosers on disk: a plan of several models written with all it needs, and made ready to run again."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import data
from ..analyze.race import changes
from ..core import chooser as choosers
from ..core.chooser import Arrays, Choosing, Loadable, Member, Ready, Seen, sealed
from ..core.errors import InputError, Unsupported, rebuild
from ..core.plan import VERSION, Plan, Planned
from ..core.preprocess import parse_preprocess
from ..core.types import Failure, Finding, Machine, Model, Part, Placement, Scenario, Task, Tensor
from ..data import built_in
from ..measure.cell import Cell
from ..measure.pictures import Pictures
from ..select import methods
from . import plans
from .accuracy import batch_of
from .contenders import Contender
from .images import Question, digest, exam, place_of, shuffled
from .prepare import Limits, cell
from .request import Request
from .select import Fitted, Gathered, Wish
from .survey import EngineFacts, survey

if TYPE_CHECKING:
    from ..select.chooser import Chooser

# Images that a chooser is measured on, where all would be too many to hold.
SHOWN = 512


def write(path: str, found: Gathered, fitted: Fitted, wish: Wish, request: Request, question: Question) -> Choosing:
    """A plan at `path`, with the arrays of its policy and the models edgewise made beside it."""
    place = Path(path)
    fields, arrays = fitted.policy.saved()
    try:
        place.resolve().parent.mkdir(parents=True, exist_ok=True)
        members = tuple(_member(place, number, found) for number in range(len(found.contenders)))
        plan = sealed(
            Choosing(
                VERSION,
                "select",
                "",
                datetime.now(UTC).isoformat(timespec="seconds"),
                members,
                found.table.classes,
                found.exam.classes,
                fitted.policy.kind,
                dict(fields),
                _arrays(place, arrays),
                fitted.guarantee,
                wish.max_loss,
                wish.risk,
                _seen(place, found, question),
                fitted.outcome,
                request.machine.id,
                request.machine.label,
                tuple(sorted({pair for each in found.contenders for pair in each.cell.versions})),
                str(methods.parse(wish.method)),
            )
        )
        plans.replace_text(place, choosers.dumps(plan))
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}", "-o chooser.plan.json") from None
    return plan


def _member(place: Path, number: int, found: Gathered) -> Member:
    contender, candidate = found.contenders[number], found.table.candidates[number]
    model, runs = contender.model, contender.runs
    given = replace(model, digest=model.parent or model.digest)
    where = plans.source(place, runs, given, contender.asked, f".plan.{number}.onnx")
    planned = Planned(model.label, where, runs.recipe, runs.parent, contender.exam.preprocess, (), contender.shapes)
    return Member(planned, candidate, found.probabilities[number])


def _arrays(place: Path, arrays: Mapping[str, Any]) -> Arrays | None:
    if not arrays:
        return None
    file = plans.beside(place, ".plan.npz")
    part = file.with_name(f"{file.name}.{os.getpid()}.part")
    with part.open("wb") as stream:
        np.savez(stream, **arrays)
    part.replace(file)
    return Arrays(file.name, plans.sha256(file))


def _seen(place: Path, found: Gathered, question: Question) -> Seen:
    named = question.data or found.contenders[0].model.data or ""
    inside = built_in.parse(named) is not None
    folder = place.resolve().parent

    def relative(path: str) -> str:
        return os.path.relpath(Path(path).resolve(), folder)

    dataset = data.open_dataset(found.exam.data, found.exam.labels)
    asked = set(found.exam.indices)
    # Those held out come first in the order of the draw.
    held = next(count for count, index in enumerate(shuffled(len(dataset.labels), question.seed)) if index in asked)
    return Seen(
        named if inside else relative(named),
        inside,
        relative(question.labels) if question.labels else None,
        found.exam.label,
        found.exam.digest,
        len(found.indices),
        len(found.skipped),
        dataset.digest,
        question.seed,
        held,
        question.limit,
    )


def read(path: str) -> Choosing:
    """A plan of several models, and of nothing else."""
    plan = plans.read(path)
    if not isinstance(plan, Choosing):
        raise InputError(f"{path} is a plan of one model, and there is nothing to choose", choosers.HINT)
    return plan


@dataclass(frozen=True, slots=True)
class Opened:
    """A plan as it can run here: one cell for each member, and what is not as it was when it was made."""

    plan: Choosing
    ready: Ready
    models: tuple[Model, ...]
    cells: tuple[Cell, ...]
    machine: Machine
    findings: tuple[Finding, ...]

    @property
    def cores(self) -> tuple[int, ...]:
        """Those that the targets name; `contenders` sees to it that all name the same."""
        return self.cells[0].cores

    @property
    def placement(self) -> Placement:
        targets = dict.fromkeys(member.candidate.target for member in self.plan.members)
        return Placement("select", tuple(Part(target) for target in targets))


def opened(path: str, plan: Choosing, limits: Limits, batch: int = 1) -> Opened:
    """Every model found, checked, and in the form its engine loads."""
    targets = [member.candidate.target for member in plan.members]
    machine, engines = survey(dict.fromkeys(target.engine for target in targets))
    models = tuple(plans.found(path, member.model, limits, choosers.HINT) for member in plan.members)
    pairs = zip(models, plan.members, strict=True)
    cells = tuple(_cell(model, member, machine, engines, limits, batch) for model, member in pairs)
    loadable = tuple(
        Loadable(
            member.candidate.name,
            own.model,
            member.candidate.target,
            member.candidate.preprocess,
            member.probabilities,
            member.candidate.memory_bytes,
        )
        for member, own in zip(plan.members, cells, strict=True)
    )
    file = str(Path(path).resolve().parent / plan.arrays.path) if plan.arrays else None
    sha256 = plan.arrays.sha256 if plan.arrays else None
    ready = Ready(
        loadable, plan.outputs, plan.classes, plan.policy, plan.fields, file, sha256, plan.guarantee, plan.kind
    )
    findings = changes(plan, machine, {engine.name: engine.version for engine in engines})
    return Opened(plan, ready, models, cells, machine, tuple(findings))


def _cell(
    model: Model, member: Member, machine: Machine, engines: Sequence[EngineFacts], limits: Limits, batch: int
) -> Cell:
    load = Scenario(batch=batch_of(model, batch))
    limits = replace(limits, shapes={name: (load.batch, *shape[1:]) for name, shape in member.model.shapes})
    # Nobody compares what comes out with a reference: the images did, when the plan was made.
    unchecked = [replace(engine, computes=False) for engine in engines]
    made = cell(model, Placement.single(member.candidate.target), load, machine, unchecked, limits)
    if isinstance(made, Failure):
        raise rebuild({"error": made.error, "message": f"{member.candidate.name}: {made.message}", "hint": made.hint})
    return made


def contenders(found: Opened, question: Question) -> list[Contender]:
    """The members of a plan, to be asked about images, but for those that one of them was calibrated on."""
    assert question.data is not None
    dataset = data.open_dataset(place_of(question.data), question.labels)
    calibrated, _ = drawn(found.plan.seen, len(dataset.labels))
    held = calibrated if dataset.digest == found.plan.seen.dataset else ()
    made = []
    for member, model, own in zip(found.plan.members, found.models, found.cells, strict=True):
        asked = replace(question, preprocess=member.candidate.preprocess)
        images, _ = exam(model, asked, hold_out=False, without=held)
        made.append(Contender(model, member.model.source.path, model, own, images, member.model.shapes))
    return made


def drawn(seen: Seen, images: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Of so many images of its data, those a plan's models were calibrated on, and those it was fitted on."""
    order = shuffled(images, seen.seed)
    end = images if seen.limit is None else seen.held + seen.limit
    return tuple(order[: seen.held]), tuple(order[seen.held : end])


def seen_before(plan: Choosing, found: Gathered) -> int:
    """How many of the images that were gathered the plan was fitted on."""
    dataset = data.open_dataset(found.exam.data, found.exam.labels)
    if dataset.digest != plan.seen.dataset:
        return 0
    _, fitted = drawn(plan.seen, len(dataset.labels))
    return len(set(fitted) & set(found.indices))


def seen(path: str, plan: Choosing, asked: Question) -> Question:
    """What was asked for, or else the images the plan was fitted on."""
    if asked.data is not None:
        return asked
    folder = Path(path).resolve().parent
    labels = str(folder / plan.seen.labels) if plan.seen.labels else None
    return replace(asked, data=plan.seen.data if plan.seen.built_in else str(folder / plan.seen.data), labels=labels)


def pictures(question: Question, count: int = SHOWN) -> Pictures:
    """Images to show a chooser, drawn from all over the data; they need no labels."""
    assert question.data is not None
    place = place_of(question.data)
    dataset = data.open_dataset(place, question.labels, labelled=question.labels is not None)
    order = shuffled(len(dataset.labels), question.seed)
    return Pictures(place, question.labels, tuple(order[: min(count, question.limit or count)]))


def bench_cell(path: str, found: Opened, load: Scenario, shown: Pictures, limits: Limits) -> Cell:
    """The chooser as a whole, as one cell: what it takes from a decoded image to an answer."""
    plan = found.plan
    dataset = data.open_dataset(shown.data, shown.labels, labelled=shown.labels is not None)
    model = Model(
        plan.digest[:32],
        str(Path(path).resolve()),
        (Tensor("images", "uint8", (load.batch, None, None, 3)),),
        (Tensor("scores", "float32", (load.batch, plan.outputs)),),
        label=Path(path).name,
    )
    return Cell(
        Task(model.digest, found.placement, load),
        model,
        found.machine.id,
        plan.versions,
        digest(dataset.digest, shown.indices),
        model.label,
        found.cores,
        None,
        limits.memory_bytes,
        limits.timeout_s,
        plan=found.ready,
        pictures=shown,
    )


def load(plan_path: str | os.PathLike[str], *, batch: int = 1) -> Chooser:
    """A plan opened in this process: `edgewise.load`. One of a single model is a choice of one."""
    from ..select.chooser import Chooser

    path = os.fspath(plan_path)
    plan = plans.read(path)
    if isinstance(plan, Choosing):
        return Chooser(opened(path, plan, Limits(), batch).ready)
    return Chooser(_alone(path, plan, batch))


def _alone(path: str, plan: Plan, batch: int) -> Ready:
    if plan.kind != "single":
        raise Unsupported(f"{path} lays a model over several targets, which takes processes", f"edgewise run {path}")
    how = plan.model.preprocess
    if how is None:
        raise Unsupported(f"{path} does not say how an image becomes its model's input", f"edgewise run {path}")
    made, _ = plans.ready(path, replace(plan, scenario=Scenario(batch=batch)), Limits())
    if isinstance(made, Failure):
        raise rebuild({"error": made.error, "message": made.message, "hint": made.hint})
    target = plan.placement.targets[0]
    outputs = [size for size in (made.model.outputs[0].shape or ())[1:] if isinstance(size, int)]
    member = Loadable(f"{plan.model.label} on {target}", made.model, target, how)
    # A background is no class of the data.
    classes = max(0, outputs[0] - parse_preprocess(how).label_offset) if outputs else 0
    return Ready((member,), classes, plan.model.classes, "single", {"candidate": 0})
