"""What `bench`, `compare` and `study` share: models × targets × scenarios as they were asked for, to cells."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ..core.errors import InputError, Unavailable
from ..core.text import parse_placement
from ..core.types import STREAMS, Failure, Machine, Model, Placement, Result, Scenario, Target
from ..measure.cell import Cell
from .prepare import Known, Limits, cell, cell_unless, default_targets, expand, find_model
from .survey import AT_ONCE, EngineFacts, survey

# What a worker may allocate unless told otherwise: a model that claims more than the machine has must not take it down.
MEMORY_SHARE = 0.9
LONGEST_TIMEOUT_S = 1e6


@dataclass(frozen=True, slots=True)
class Request:
    """Everything that was asked for, checked before the first measurement. A process with an engine in it takes about
    `startup_s` to start here."""

    models: tuple[Model, ...]
    placements: tuple[Placement, ...]
    scenarios: tuple[Scenario, ...]
    machine: Machine
    engines: tuple[EngineFacts, ...]
    limits: Limits
    startup_s: float = 0.0

    @property
    def targets(self) -> tuple[Target, ...]:
        """Those that were asked for, each alone."""
        return tuple(placement.targets[0] for placement in self.placements if placement.kind == "single")

    def pairs(self) -> list[tuple[Model, Placement, Scenario]]:
        def of(model: Model) -> tuple[Placement, ...]:
            targets = default_targets(self.engines, self.machine, model)
            return self.placements or tuple(Placement.single(target) for target in targets)

        placements = {model.digest: of(model) for model in self.models}
        return [(m, p, under(p, s)) for m in self.models for s in self.scenarios for p in placements[m.digest]]

    def cells(self) -> Iterator[Cell | Failure]:
        for model, placement, scenario in self.pairs():
            yield self.cell(model, placement, scenario)

    def cells_unless(self, known: Known) -> Iterator[Cell | Result]:
        for model, placement, scenario in self.pairs():
            yield self.cell_unless(known, model, placement, scenario)

    def cell(self, model: Model, placement: Placement, scenario: Scenario) -> Cell | Failure:
        return cell(model, placement, scenario, self.machine, self.engines, self.limits)

    def cell_unless(self, known: Known, model: Model, placement: Placement, scenario: Scenario) -> Cell | Result:
        return cell_unless(known, model, placement, scenario, self.machine, self.engines, self.limits)

    def engine(self, target: Target) -> EngineFacts:
        return next(engine for engine in self.engines if engine.name == target.engine)


def under(placement: Placement, scenario: Scenario) -> Scenario:
    """A stream has frames under way all the time: what counts is how many come out."""
    return replace(scenario, kind="offline") if placement.kind in STREAMS and scenario.kind == "single" else scenario


def request(
    models: Sequence[str],
    on: Sequence[str],
    batch: Sequence[int],
    loads: Sequence[Scenario],
    limits: Limits,
    *,
    preferred: Sequence[Target] = (),
    engines: Sequence[str] = (),
    several: bool = False,
) -> Request:
    """Without `on`, the targets are those `preferred` whose engine is here, or else all there are; of `engines` only,
    where some are named. `several`: whether placements over more than one target will do."""
    placements = tuple(parse_placement(text) for text in on)
    for placement in placements:
        if placement.kind != "single" and not several:
            raise InputError(
                f"this command takes one target at a time, found {placement}",
                " ".join(f"--on '{target}'" for target in placement.targets),
            )
    scenarios = [load.with_batch(size) for load in loads for size in batch] if batch else list(loads)
    if not 0 < limits.timeout_s < LONGEST_TIMEOUT_S:
        raise InputError(f"--timeout is a number of seconds below {LONGEST_TIMEOUT_S:g}, found {limits.timeout_s}")
    begin = time.monotonic()
    asked = {target.engine for placement in placements for target in placement.targets} or set(engines) or None
    machine, found_engines = survey(asked)
    startup_s = (time.monotonic() - begin) * min(AT_ONCE, len(found_engines)) / max(1, len(found_engines))
    here = {engine.name for engine in found_engines if engine.version}
    named = bool(placements or engines)
    if not placements:
        placements = tuple(Placement.single(target) for target in preferred if target.engine in here)
    for engine in found_engines:
        if engine.version is None and named:
            raise Unavailable(engine.reason, engine.hint)
    if not placements and not any(engine.version and engine.computes for engine in found_engines):
        raise Unavailable("no engine is installed", "pip install 'edgewise[all]'")
    if limits.memory_bytes is None and machine.memory_bytes is not None:
        limits = replace(limits, memory_bytes=int(machine.memory_bytes * MEMORY_SHARE))
    models = expand(models)
    found = tuple(find_model(name, limits) for name in models)
    if len({model.label for model in found}) < len(found):
        # Files of the same name in different folders: what was typed tells them apart.
        found = tuple(replace(model, label=name) for model, name in zip(found, models, strict=True))
    return Request(found, placements, tuple(scenarios), machine, found_engines, limits, startup_s)
