"""What `bench` and `compare` share: models × targets × scenarios from the command line to cells."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ..core.errors import InputError, Unavailable
from ..core.text import parse_placement
from ..core.types import Failure, Machine, Model, Scenario, Target
from ..measure.cell import Cell
from .prepare import Limits, cell, default_targets, expand, find_model
from .survey import EngineFacts, survey

# What a worker may allocate unless told otherwise: a model that claims more than the machine has must not take it down.
MEMORY_SHARE = 0.9
LONGEST_TIMEOUT_S = 1e6


@dataclass(frozen=True, slots=True)
class Request:
    """Everything the command line asks for, checked before the first measurement."""

    models: tuple[Model, ...]
    targets: tuple[Target, ...]
    scenarios: tuple[Scenario, ...]
    machine: Machine
    engines: tuple[EngineFacts, ...]
    limits: Limits

    def pairs(self) -> list[tuple[Model, Target, Scenario]]:
        targets = {m.digest: self.targets or tuple(default_targets(self.engines, self.machine, m)) for m in self.models}
        return [(m, t, s) for m in self.models for s in self.scenarios for t in targets[m.digest]]

    def cells(self) -> Iterator[Cell | Failure]:
        facts = {engine.name: engine for engine in self.engines}
        for model, target, scenario in self.pairs():
            yield cell(model, target, scenario, self.machine, facts[target.engine], self.limits)


def request(
    models: Sequence[str], on: Sequence[str], batch: Sequence[int], loads: Sequence[Scenario], limits: Limits
) -> Request:
    placements = [parse_placement(text) for text in on]
    for placement in placements:
        if placement.kind != "single":
            raise InputError(
                f"this version measures one target at a time, found {placement}",
                " ".join(f"--on '{target}'" for target in placement.targets),
            )
    targets = tuple(placement.targets[0] for placement in placements)
    scenarios = [load.with_batch(size) for load in loads for size in batch] if batch else list(loads)
    if not 0 < limits.timeout_s < LONGEST_TIMEOUT_S:
        raise InputError(f"--timeout is a number of seconds below {LONGEST_TIMEOUT_S:g}, found {limits.timeout_s}")
    machine, engines = survey({target.engine for target in targets} if targets else None)
    for engine in engines:
        if engine.version is None and targets:
            raise Unavailable(engine.reason, engine.hint)
    if not targets and not any(engine.version and engine.computes for engine in engines):
        raise Unavailable("no engine is installed", "pip install 'edgewise[all]'")
    if limits.memory_bytes is None and machine.memory_bytes is not None:
        limits = replace(limits, memory_bytes=int(machine.memory_bytes * MEMORY_SHARE))
    models = expand(models)
    found = tuple(find_model(name, limits) for name in models)
    if len({model.label for model in found}) < len(found):
        # Files of the same name in different folders: what was typed tells them apart.
        found = tuple(replace(model, label=name) for model, name in zip(found, models, strict=True))
    return Request(found, targets, tuple(scenarios), machine, engines, limits)
