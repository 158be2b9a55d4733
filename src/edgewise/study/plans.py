"""Plans on disk: written beside the model they run, read with everything in them checked."""

from __future__ import annotations

import hashlib
import os
import shutil
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from ..analyze.race import changes
from ..core import chooser as choosers
from ..core import plan as plans
from ..core.chooser import Choosing
from ..core.errors import InputError
from ..core.plan import Plan, Planned, Proof, Source, sealed
from ..core.race import Race, Wanted
from ..core.types import Failure, Finding, Model
from ..core.ways import Way
from ..measure.cell import Cell
from .parallel import Found
from .prepare import Limits, cell, derived, find_model
from .request import Request
from .survey import survey
from .tune import Tuned

SUFFIX = ".plan.json"
_LEVEL = 0.95


def write(path: str, tuned: Tuned, request: Request, asked: str, limits: Limits) -> Plan:
    """The winner of a race as a plan at `path`. The model that really runs is copied beside it where edgewise made it;
    what the user gave stays where it is, and what is built in is named."""
    assert tuned.cell is not None
    return _write(
        path,
        tuned.cell,
        request,
        asked,
        replace(limits, calibration=tuned.calibration),
        tuned.race.wanted,
        _proof(tuned.race),
        tuned.preprocess,
        tuned.classes,
        tuned.model,
    )


def write_way(path: str, way: Way, ways: Found, request: Request, asked: str, limits: Limits) -> Plan:
    """A way over several targets, or the one target that nothing over several beats, as a plan."""
    cell = ways.cells[way.use, str(way.placement)]
    others = sum((each.use, each.competing) == (way.use, way.competing) for each in ways.ways.ways)
    p50 = None if way.cost_ns is None or way.use != "latency" else (way.cost_ns,) * 3
    proof = Proof(p50, way.than, way.ratio, None, None, others, 0.0, 1 - _LEVEL)
    return _write(path, cell, request, asked, limits, Wanted(prefer=way.use), proof)


def _write(
    path: str,
    cell: Cell,
    request: Request,
    asked: str,
    limits: Limits,
    wanted: Wanted,
    proof: Proof,
    preprocess: str | None = None,
    classes: tuple[str, ...] = (),
    made: Model | None = None,
) -> Plan:
    """`made`: what a recipe made of the model, where that is what runs."""
    place, original, placement = Path(path), request.models[0], cell.task.placement
    subject = made or original
    forms = {each.digest: each for each in (derived(subject, t, request.machine, limits) for t in placement.targets)}
    # Parts that load different forms of it are each made theirs again where it runs.
    runs = next(iter(forms.values())) if len(forms) == 1 else subject
    try:
        place.resolve().parent.mkdir(parents=True, exist_ok=True)
        where = source(place, runs, original, asked)
        plan = sealed(
            Plan(
                plans.VERSION,
                "single" if placement.kind == "single" else "parallel",
                "",
                datetime.now(UTC).isoformat(timespec="seconds"),
                Planned(
                    original.label,
                    where,
                    runs.recipe,
                    runs.parent,
                    preprocess or (str(original.preprocess) if original.preprocess else None),
                    classes,
                    tuple(sorted((name, tuple(shape)) for name, shape in limits.shapes.items())),
                ),
                placement,
                cell.task.scenario,
                request.machine.id,
                request.machine.label,
                cell.versions,
                wanted,
                proof,
            )
        )
        replace_text(place, plans.dumps(plan))
    except OSError as error:
        raise InputError(
            f"{path} cannot be written: {error.strerror}", "name another file: -o best.plan.json"
        ) from None
    return plan


def source(place: Path, runs: Model, original: Model, asked: str, suffix: str = ".plan.onnx") -> Source:
    """Where a plan at `place` will find the model. What edgewise made is copied beside it, under its name and `suffix`;
    what the user gave stays where it is, and what is built in is named."""
    file = Path(runs.path)
    if runs.digest != original.digest:
        copy = beside(place, suffix)
        shutil.copyfile(file, copy)
        return Source("beside", copy.name, sha256(copy), runs.digest)
    if os.path.exists(asked):
        relative = os.path.relpath(file.resolve(), place.resolve().parent)
        return Source("file", relative, sha256(file), runs.digest)
    return Source("built-in", asked, sha256(file), runs.digest)


def beside(place: Path, suffix: str) -> Path:
    """A file of the plan at `place`: best.plan.json has best.plan.onnx."""
    return place.with_name(place.name.removesuffix(".json").removesuffix(".plan") + suffix)


def _proof(race: Race) -> Proof:
    def beside(role: str) -> tuple[str | None, tuple[float, float, float] | None]:
        found = next((each for each in race.final if role in each.roles), None)
        return (str(found.task.placement), found.ratio) if found else (None, None)

    than, ratio = beside("baseline")
    second, its = beside("runner-up")
    winner = race.winner
    return Proof(
        race.p50_ns,
        than or "",
        ratio,
        second,
        its,
        len(race.entries),
        race.gain,
        race.error_rate,
        winner.peak_bytes if winner else None,
        winner.loss if winner else None,
    )


def replace_text(place: Path, text: str) -> None:
    """Written beside and renamed, so that a half-written plan is never taken for one."""
    part = place.with_name(f"{place.name}.{os.getpid()}.part")
    part.write_text(text, encoding="utf-8")
    part.replace(place)


def read(path: str) -> Plan | Choosing:
    """A plan of any kind."""
    try:
        if Path(path).stat().st_size > plans.LARGEST_BYTES:
            raise InputError(f"{path} is not a plan: it is larger than any", "edgewise tune MODEL -o PLAN")
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise InputError(f"the plan {path} cannot be read: {reason}", "edgewise tune MODEL -o PLAN") from None
    fields = plans.opened(text, path)
    return choosers.record(fields, path) if fields["kind"] == "select" else plans.record(fields, path)


def ready(path: str, plan: Plan, limits: Limits) -> tuple[Cell | Failure, list[Finding]]:
    """A cell that runs the plan here, and what is not as it was when the plan was made."""
    machine, engines = survey({target.engine for target in plan.placement.targets})
    limits = replace(limits, shapes=dict(plan.model.shapes))
    model = found(path, plan.model, limits)
    # Nobody compares what comes out with a reference: the race did, and one more process would only take time.
    unchecked = [replace(engine, computes=False) for engine in engines]
    made = cell(model, plan.placement, plan.scenario, machine, unchecked, limits)
    return made, changes(plan, machine, {engine.name: engine.version for engine in engines})


def found(path: str, planned: Planned, limits: Limits, hint: str = plans.HINT) -> Model:
    """A model of the plan at `path`, once its digest has been found to be the plan's."""
    source = planned.source
    if source.kind == "built-in":
        if os.path.exists(source.path):
            raise InputError(f"the plan names the built-in {source.path}, and there is a file of that name here", hint)
        model = find_model(source.path, limits)
    else:
        file = Path(path).resolve().parent / source.path
        if not file.is_file():
            raise InputError(f"the plan's model {source.path} is not there, seen from {path}", hint)
        # Before anything parses it.
        if sha256(file) != source.sha256:
            raise InputError(f"{file} is not the model the plan was made for: its SHA-256 differs", hint)
        model = find_model(str(file), limits)
    if model.digest != source.digest:
        raise InputError(f"{source.path} is not the model the plan was made for: its digest differs", hint)
    return replace(model, label=planned.label)


def sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
