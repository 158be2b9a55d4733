"""What `bench` and `compare` share: models × targets × scenarios from the command line to cells."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ..core.errors import InputError, Unavailable
from ..core.text import parse_placement, parse_scenario
from ..core.types import Failure, Machine, Model, Scenario, Target
from ..measure.cell import Cell
from ..study.prepare import Limits, cell, default_targets, find_model
from ..study.survey import EngineFacts, survey

# What a worker may allocate unless told otherwise: a model that claims more than the machine has must not take it down.
MEMORY_SHARE = 0.9


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
    models: Sequence[str], on: Sequence[str], batch: Sequence[int], scenario: Sequence[str], limits: Limits
) -> Request:
    placements = [parse_placement(text) for text in on]
    for placement in placements:
        if placement.kind != "single":
            raise InputError(
                f"this version measures one target at a time, found {placement}",
                " ".join(f"--on '{target}'" for target in placement.targets),
            )
    targets = tuple(placement.targets[0] for placement in placements)
    scenarios = [parse_scenario(text) for text in scenario]
    if batch:
        scenarios = [s.with_batch(size) for s in scenarios for size in batch]
    machine, engines = survey({target.engine for target in targets} if targets else None)
    for engine in engines:
        if engine.version is None and targets:
            raise Unavailable(engine.reason, engine.hint)
    if not targets and not any(engine.version and engine.computes for engine in engines):
        raise Unavailable("no engine is installed", "pip install 'edgewise[all]'")
    if limits.memory_bytes is None and machine.memory_bytes is not None:
        limits = replace(limits, memory_bytes=int(machine.memory_bytes * MEMORY_SHARE))
    found = tuple(find_model(name, limits) for name in models)
    return Request(found, targets, tuple(scenarios), machine, engines, limits)
