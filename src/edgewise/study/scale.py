"""A model at one batch or input size after another, upwards, until memory or time says stop.

A size that is not the model's own makes another subject: `resnet50@288`. Built-in networks are built for it; a file
must have left height and width open.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from .. import zoo
from ..analyze.scaling import NOT_TRIED, limit, side
from ..core import stats
from ..core.errors import EdgewiseError, InputError
from ..core.records import from_json
from ..core.types import Failure, Model, Placement, Result, Scenario, Target, Task
from ..measure import isolate
from ..measure.cell import Cell
from ..store.db import Store
from . import home
from .prepare import Limits, complete, default_targets
from .request import Request
from .sweep import Progress, sweep

# Of either kind, more than anybody waits for.
_MOST_STEPS = 200
_LARGEST = {"batch": 1 << 20, "size": 1 << 13}
SIZE_STEP = 32


def steps(text: str, what: str) -> tuple[int, ...]:
    """`1..512` (batches double, sizes go by 32), `224..448:64`, `1,3,8`, and any of them after a comma."""
    found: set[int] = set()
    for piece in text.split(","):
        match = re.fullmatch(r"\s*([0-9]{1,9})(?:\.\.([0-9]{1,9})(?::([0-9]{1,9}))?)?\s*", piece)
        if not match:
            raise InputError(f"{piece!r} is not a {what} or a range of them; expected such as 8, 1..64 or 224..448:32")
        first, last, by = (None if part is None else int(part) for part in match.groups())
        assert first is not None
        last = first if last is None else last
        if first < 1 or last < first or by == 0 or last > _LARGEST[what]:
            raise InputError(f"{piece!r} is no range of {what}s: it goes up, from 1 to at most {_LARGEST[what]:,}")
        step = by if by or what == "batch" else SIZE_STEP
        value = first
        while value <= last and len(found) <= _MOST_STEPS:
            found.add(value)
            value = value + step if step else value * 2
    if len(found) > _MOST_STEPS:
        raise InputError(f"{text!r} is more than {_MOST_STEPS} {what}s: take larger steps")
    return tuple(sorted(found))


def variants(name: str, model: Model, sizes: Sequence[int], limits: Limits) -> list[Model]:
    """The model at each size; as it is where none is given."""
    return [_at(name, model, size, limits) for size in sizes] or [model]


def _at(name: str, model: Model, size: int, limits: Limits) -> Model:
    if side(model.label, model) == size:
        return model
    label = f"{model.label}@{size}"
    if name in zoo.names() and not os.path.exists(name):
        path = home.cache() / f"{label}.onnx"
        isolate.call("edgewise.zoo:export", timeout_s=limits.timeout_s, name=name, path=str(path), size=size)
        found = isolate.call("edgewise.model.load:inspect", memory_bytes=limits.memory_bytes, path=str(path))
        return replace(from_json(Model, found), label=label)
    opened = [t for t in model.inputs if any(not isinstance(dim, int) for dim in (t.shape or ())[1:])]
    if not opened:
        shapes = ", ".join("x".join(map(str, t.shape)) if t.shape else "unknown" for t in model.inputs)
        raise InputError(
            f"the input size of {model.label} is fixed ({shapes}), so it cannot run at {size}",
            "export the model with open height and width, or leave out --size",
        )
    inputs = tuple(
        replace(t, shape=(t.shape[0], *(dim if isinstance(dim, int) else size for dim in t.shape[1:])))
        if t in opened and t.shape
        else t
        for t in model.inputs
    )
    # The same file with another input is another thing to measure.
    digest = hashlib.sha256(f"{model.digest}@{size}".encode()).hexdigest()[: len(model.digest)]
    return replace(model, digest=digest, label=label, inputs=inputs, parent=model.digest)


def check_batches(model: Model, batches: Sequence[int]) -> None:
    """A model exported for one batch size runs at no other; and batch 1 must not mean another one."""
    for tensor in model.inputs:
        first = tensor.shape[0] if tensor.shape else None
        wrong = [batch for batch in batches if isinstance(first, int) and batch != first]
        if wrong:
            raise InputError(
                f"the batch of {model.label} is fixed at {first}, so it cannot run with {wrong[0]}",
                f"export the model with an open first dimension, or scale its size only: --batch {first}",
            )


def targets(wanted: Request, model: Model) -> list[Target]:
    """Those asked for; or every engine and device in the model's precision, on all threads: the usual way to run it."""
    if wanted.targets:
        return list(wanted.targets)
    widest: dict[tuple[str, str | None], Target] = {}
    for target in default_targets(wanted.engines, wanted.machine, model):
        if not target.options and target.precision == model.precision:
            key = (target.engine, target.device)
            if key not in widest or (target.threads or 0) > (widest[key].threads or 0):
                widest[key] = target
    return list(widest.values())


@dataclass
class Climb:
    """What one model on one target has shown so far, and whether the next batch is worth trying."""

    memory_bytes: int | None
    longest_s: float
    points: list[tuple[int, float, int | None]] = field(default_factory=list)
    stopped: Failure | None = None

    def add(self, result: Result) -> None:
        batch = result.task.scenario.batch
        if isinstance(result, Failure):
            # The first is the reason; those after it only follow from it.
            self.stopped = self.stopped or result
        elif result.samples_ns:
            self.points.append((batch, stats.quantile(result.samples_ns, 0.5) / 1e9, result.peak_bytes))

    def refuse(self, batch: int) -> tuple[str, str] | None:
        """The kind of error and the reason, where `batch` should be left out."""
        if self.stopped:
            tried = self.stopped.stage != NOT_TRIED
            said = {
                "memory": "ran out of memory" if tried else "would be out of memory",
                "time": "took too long" if tried else "would take too long",
                "other": "failed",
            }[limit(self.stopped)]
            return self.stopped.error, f"{NOT_TRIED}: batch {self.stopped.task.scenario.batch} {said}"
        if not self.points:
            return None
        last, took_s, peak = self.points[-1]
        if took_s * batch / last > self.longest_s:
            expected = f"a run would take about {took_s * batch / last:.1f} s, by what batch {last} took"
            return "WorkerTimeout", f"{NOT_TRIED}: {expected}; {self.longest_s:g} s are allowed"
        before = [(size, used) for size, _, used in self.points[:-1] if used is not None]
        if self.memory_bytes and peak is not None and before:
            size, used = before[-1]
            need = peak + (peak - used) / (last - size) * (batch - last)
            if need > self.memory_bytes:
                grown = f"by how it grew from batch {size} to {last}"
                allowed = f"{self.memory_bytes >> 20:,} MiB are allowed"
                said = f"would be out of memory: about {int(need) >> 20:,} MiB, {grown}; {allowed}"
                return "EngineFailure", f"{NOT_TRIED}: {said}"
        return None


@dataclass(frozen=True, slots=True)
class Ladder:
    """One model on one target, and the batches to climb."""

    model: Model
    target: Target
    batches: tuple[int, ...]


def ladders(
    wanted: Request, names: Sequence[str], batches: Sequence[int], sizes: Sequence[int], grid: bool
) -> list[Ladder]:
    """All batches at one size (the model's own, or else the smallest) and all sizes at the smallest batch; with `grid`
    every batch at every size."""
    found = []
    for name, model in zip(names, wanted.models, strict=True):
        each = variants(name, model, sizes, wanted.limits)
        main = model if model in each else each[0]
        for variant in each:
            chosen = tuple(batches) if grid or variant is main else tuple(batches[:1])
            check_batches(variant, chosen)
            found += [Ladder(variant, target, chosen) for target in targets(wanted, variant)]
    return found


def scale(
    wanted: Request,
    chosen: Sequence[Ladder],
    store: Store,
    progress: Progress,
    *,
    longest_s: float,
    resume: bool = False,
) -> Iterator[Result]:
    """Results ladder by ladder. What is left out because of what smaller batches showed is a result too."""
    scenario = wanted.scenarios[0]
    climbs = [Climb(wanted.limits.memory_bytes, longest_s) for _ in chosen]
    now = climbs[0] if climbs else None

    def cells() -> Iterator[Cell | Failure]:
        nonlocal now
        for ladder, climb in zip(chosen, climbs, strict=True):
            now = climb
            for batch in ladder.batches:
                load = scenario.with_batch(batch)
                refused = climb.refuse(batch)
                if refused:
                    yield _left_out(wanted, ladder, load, refused)
                else:
                    yield wanted.cell(ladder.model, Placement.single(ladder.target), load)

    for result in sweep(cells(), store, progress, resume=resume):
        assert now is not None
        now.add(result)
        yield result


def _left_out(wanted: Request, ladder: Ladder, load: Scenario, refused: tuple[str, str]) -> Failure:
    facts = {engine.name: engine for engine in wanted.engines}
    error, message = refused
    try:
        target = complete(ladder.target, facts[ladder.target.engine], wanted.machine, ladder.model)
    except EdgewiseError:
        target = ladder.target
    task = Task(ladder.model.digest, Placement.single(target), load)
    return Failure(task, wanted.machine.id, NOT_TRIED, error, message, label=ladder.model.label)
