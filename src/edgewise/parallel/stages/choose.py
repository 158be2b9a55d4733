"""Where a model is cut into stages: by the shares somebody gave, or by what its units take on each target."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...core.errors import InputError, Unsupported
from ...core.types import Model, Part, Placement, Target
from .costs import Trials, measured
from .pieces import Whole, piece
from .pipeline import Stage, by_shares, refined, slowest
from .units import MOST, Units, units

# Every unit is loaded on every target: so many take seconds.
_MOST_MEASURED = 24
# Of a share, so that the nearest place to cut is this one.
_DIGITS = 6


@dataclass(frozen=True, slots=True)
class Chosen:
    """`how` is what decided: shares, or costs; then a stage's cost is in nanoseconds."""

    units: Units
    stages: tuple[Stage, ...]
    how: str = ""
    timed: bool = False

    def placement(self, targets: Sequence[Target]) -> Placement | None:
        """This cut as somebody can ask for it: with shares, stages in their order. None where a stage has nothing that
        multiplies, or is the only one."""
        done = [sum(self.units.multiply_adds[stage.first : stage.last]) for stage in self.stages]
        if len(done) < 2 or not all(done):
            return None
        parts = [
            Part(targets[stage.target], round(each / sum(done), _DIGITS))
            for stage, each in zip(self.stages, done, strict=True)
        ]
        return Placement("stages", tuple(parts))

    def notes(self, targets: Sequence[Target]) -> tuple[str, ...]:
        found = []
        for stage in self.stages:
            last = self.units.whole.graph.nodes[self.units.edges[stage.last] - 1].name
            took = f", {round(stage.cost)} ns when tried" if self.timed else ""
            found.append(
                f"{targets[stage.target]}: units {stage.first} to {stage.last - 1} of {len(self.units)}, "
                f"from {self.units.name(stage.first)} to {last}{took}"
            )
        for stage in self.stages[:-1]:
            live = self.units.cuts[stage.last - 1]
            found.append(f"after unit {stage.last - 1}: {len(live.values)} values, {live.size_bytes} bytes handed over")
        if self.timed:
            found.append(f"the slowest stage limits the stream: {round(slowest(self.stages))} ns")
            if (same := self.placement(targets)) is not None:
                found.append(f"the same cut, without measuring: {same}")
        left = {*range(len(targets))} - {stage.target for stage in self.stages}
        found += [f"{targets[who]} has no part: with one, the slowest stage would take longer" for who in sorted(left)]
        return (*found, self.how) if self.how else tuple(found)


def choose(
    whole: Whole,
    model: Model,
    placement: Placement,
    trials: Trials,
    folder: Path,
    choosing: Callable[[Units], Chosen] | None = None,
) -> Chosen:
    given = [part.share for part in placement.parts if part.share is not None]
    timed = not given and choosing is None
    row = units(whole, _MOST_MEASURED if timed else MOST)
    if len(row) < 2:
        raise Unsupported(
            f"{model.label} cannot be cut into stages: it has {len(whole.graph.nodes)} operator(s), "
            "and no place between two of them where all sizes are known",
            "deal its frames: --on 'deal(" + ", ".join(map(str, placement.targets)) + ")'",
        )
    if choosing is not None:
        return choosing(row)
    if given:
        return _shared(row, placement, given)
    return _measured(row, model, placement.targets, trials, folder)


def _shared(row: Units, placement: Placement, given: Sequence[float]) -> Chosen:
    if len(given) < len(placement.parts) or min(given) <= 0:
        raise InputError(
            f"either every target of {placement} has a share above 0, or none has one",
            f"--on 'stages({', '.join(f'{target}=0.5' for target in placement.targets)})'",
        )
    # A network without multiply-adds is cut by the number of its units.
    work = row.multiply_adds if any(row.multiply_adds) else (1,) * len(row)
    stages = by_shares(work, given)
    if not stages:
        raise Unsupported(
            f"{len(placement.parts)} targets cannot have a part each of {len(row)} units",
            f"--on 'stages({', '.join(map(str, placement.targets[: len(row)]))})'",
        )
    return Chosen(row, tuple(stages), "cut by multiply-adds, as the shares say")


def _measured(row: Units, model: Model, targets: Sequence[Target], trials: Trials, folder: Path) -> Chosen:
    alone = measured(trials, row.whole, model, [row.nodes(n, n + 1) for n in range(len(row))], len(targets), folder)
    handing = trials.handing()

    def transfer(after: int, giver: int, taker: int) -> float:
        return handing.cost(row.cuts[after].size_bytes)

    def check(stages: Sequence[Stage]) -> list[float | None]:
        models: list[Model | None] = [None] * len(targets)
        for number, stage in enumerate(stages):
            path = folder / f"trial-{number}.onnx"
            models[stage.target] = piece(row.whole, model, row.nodes(stage.first, stage.last), path)
        found = trials.together(models)
        return [found[stage.target] for stage in stages]

    costs = [[one[who] for one in alone] for who in range(len(targets))]
    stages, tries = refined(costs, transfer, check)
    if not stages:
        why = "; ".join(error.message for error in trials.reasons.values())
        raise Unsupported(
            f"no cut of {model.label} runs on {', '.join(map(str, targets))}: {why or 'each rejects a unit'}"
        )
    return Chosen(row, tuple(stages), f"the best of {tries} cuts tried, by costs of {len(row)} units", timed=True)
