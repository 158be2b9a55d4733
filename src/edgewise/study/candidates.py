"""Who takes part in a race: models on targets under loads, made ready two engines at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from ..core.errors import EdgewiseError, InputError, Unavailable
from ..core.race import Prefer
from ..core.text import parse_placement
from ..core.types import PRECISIONS, Failure, Model, Placement, Scenario, Target
from ..measure.cell import Cell
from ..system.machine import usable_cores
from .prepare import Limits, cell, complete, default_targets
from .request import Request

# Those that are mostly quickest first: the sooner a quick one is known, the sooner the others are sent home.
_ORDER = ("int8", "bf16", "fp16", "tf32", "fp32")
# What a worker takes beside the model, and how often it holds the weights while it loads.
_WORKER_BYTES = 400 << 20
_COPIES = 3
_MEMORY_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class Candidate:
    """What is raced: a recipe makes another model, a placement may lay it over several targets."""

    model: Model
    placement: Placement
    scenario: Scenario


def candidates(
    wanted: Request,
    on: Sequence[str],
    precision: Sequence[str],
    prefer: Prefer,
    load: Scenario,
    models: Sequence[Model] = (),
) -> list[Candidate]:
    """Every default target that the filters leave, and every target that is named in full, of each of the models; where
    throughput is the question, also as many copies at once as there are cores for."""
    found = [each for model in models or wanted.models for each in _of(model, wanted, on, precision, prefer, load)]
    if not found:
        raise Unavailable("no target is left to race", "edgewise devices")
    # Those that are mostly quickest first, whatever model they run.
    found.sort(key=lambda c: _rank(c.placement.targets[0]))
    return found


def _of(
    model: Model, wanted: Request, on: Sequence[str], precision: Sequence[str], prefer: Prefer, load: Scenario
) -> list[Candidate]:
    unknown = [name for name in precision if name not in PRECISIONS]
    if unknown:
        raise InputError(f"unknown precision {unknown[0]!r}; known: {', '.join(PRECISIONS)}")
    every = [_completed(wanted, model, target) for target in default_targets(wanted.engines, wanted.machine, model)]
    chosen = every
    if on:
        chosen = [target for text in on for target in _meant(text, every, wanted, model)]
    found = [t for t in dict.fromkeys(chosen) if not precision or (t.precision or "fp32") in precision]
    found.sort(key=_rank)
    return [
        Candidate(model, Placement.single(target), scenario)
        for target in found
        for scenario in _loads(target, wanted, prefer, load)
    ]


def _rank(target: Target) -> tuple[int, int]:
    return -(target.threads or 0), _ORDER.index(target.precision or "fp32")


def _meant(text: str, every: Sequence[Target], wanted: Request, model: Model) -> list[Target]:
    """An engine, with or without device and precision, stands for all its defaults; a target with threads, cores or
    options, or one that is not among the defaults, for itself."""
    placement = parse_placement(text)
    if placement.kind != "single":
        raise InputError(f"this version races one target at a time, found {placement}", "edgewise tune MODEL --on ort")
    target = placement.targets[0]
    matching = [
        t
        for t in every
        if t.engine == target.engine and target.device in (None, t.device) and target.precision in (None, t.precision)
    ]
    in_full = target.threads is not None or target.cores or target.options
    return [_completed(wanted, model, target)] if in_full or not matching else matching


def _completed(wanted: Request, model: Model, target: Target) -> Target:
    """As `cell` will complete it; one that cannot be is left as it is, and becomes a failure there."""
    facts = next(engine for engine in wanted.engines if engine.name == target.engine)
    try:
        return complete(target, facts, wanted.machine, model)
    except EdgewiseError:
        return target


def _loads(target: Target, wanted: Request, prefer: Prefer, load: Scenario) -> Iterator[Scenario]:
    yield load
    if prefer == "throughput" and target.threads and load.kind == "single":
        copies = len(usable_cores(wanted.machine)) // target.threads
        if copies > 1:
            yield Scenario("concurrent", load.batch, copies, seed=load.seed)


def ready(those: Sequence[Candidate], wanted: Request, limits: Limits) -> list[Cell | Failure]:
    """Their cells, in order. What many share (the reference, the int8 model) is made first and once."""

    def make(candidate: Candidate) -> Cell | Failure:
        return cell(candidate.model, candidate.placement, candidate.scenario, wanted.machine, wanted.engines, limits)

    made: dict[int, Cell | Failure] = {}
    for precision in ("fp32", "int8"):
        for number, candidate in enumerate(those):
            if candidate.placement.targets[0].precision == precision:
                made[number] = make(candidate)
                break
    engines: dict[str, list[int]] = {}
    for number, candidate in enumerate(those):
        if number not in made:
            engines.setdefault(candidate.placement.targets[0].engine, []).append(number)

    def rest(numbers: Sequence[int]) -> list[tuple[int, Cell | Failure]]:
        return [(number, make(those[number])) for number in numbers]

    with ThreadPoolExecutor(2) as pool:
        for part in pool.map(rest, engines.values()):
            made.update(part)
    return [made[number] for number in range(len(those))]


def group_size(cells: Sequence[Cell], memory_bytes: int | None, most: int) -> int:
    """How many may be alive at once without filling the memory."""
    if memory_bytes is None or not cells:
        return most
    weights = max(Path(each.model.path).stat().st_size for each in cells)
    fitting = int(memory_bytes * _MEMORY_SHARE / (_COPIES * weights + _WORKER_BYTES))
    return max(2, min(most, fitting))


def not_tried(wanted: Request, on: Sequence[str], precision: Sequence[str], prefer: Prefer, batch: int) -> list[str]:
    """What could have been raced and was not, each with its reason."""
    found = []
    for engine in wanted.engines:
        if engine.version is None:
            found.append(f"{engine.name} ({engine.reason}" + (f": {engine.hint})" if engine.hint else ")"))
        for device in engine.devices if engine.computes else ():
            if device.composite or device.emulated:
                kind = "only repeats others" if device.composite else "emulated by the CPU"
                found.append(f"{engine.name}:{device.name} ({kind})")
    if on or precision:
        found.append("whatever --on and --precision leave out")
    found.append(f"batch sizes other than {batch}")
    if prefer != "throughput":
        found.append("several copies at once (--prefer throughput)")
    return found
