"""What pieces of a model take on each target, measured in a process per target, all at work at the same time: that is
how they will work together."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from ...core.errors import EdgewiseError, EngineFailure, Unsupported
from ...core.records import to_json
from ...core.types import Model, Target
from ..process import Child
from .pieces import Whole, piece

# A target whose process was lost so often has no part in anything further.
_MOST_LOST = 3
_COPIED_BYTES = 1 << 20
_TOLD = 9


@dataclass(frozen=True, slots=True)
class Handing:
    """What it takes to hand something over: to tell the other, and for each byte that it reads."""

    told_ns: float
    byte_ns: float

    def cost(self, size_bytes: int) -> float:
        return self.told_ns + self.byte_ns * size_bytes


class Trials:
    """Begun when it is made; to be left as a context."""

    def __init__(self, targets: Sequence[Target], cores: Sequence[tuple[int, ...]], timeout_s: float) -> None:
        self._targets, self._cores, self._timeout_s = targets, cores, timeout_s
        self._children: list[Child | None] = [None] * len(targets)
        self._lost = [0] * len(targets)
        # Why a target did not run a piece, the first reason of each.
        self.reasons: dict[int, EdgewiseError] = {}

    def __enter__(self) -> Trials:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for who in range(len(self._children)):
            self._end(who)

    def together(self, models: Sequence[Model | None]) -> list[float | None]:
        """A piece for each target, all at the same time: the second shortest of its runs in nanoseconds, None where it
        has none or does not run it. What bursts of others take is not the piece's; what they always take is."""
        asked = [
            self._ask(who, {"model": to_json(model)}) if model is not None else None for who, model in enumerate(models)
        ]
        found: list[float | None] = []
        for who, child in enumerate(asked):
            found.append(self._answer(who, child) if child is not None else None)
        return found

    def handing(self) -> Handing:
        """Between a process and this one, and back; copying at the pace of the slowest."""
        told, byte = [], []
        for who in range(len(self._targets)):
            child = self._ask(who, {"copy": _COPIED_BYTES})
            if child is None:
                continue
            byte.append(child.line(self._timeout_s)["ns"] / _COPIED_BYTES)
            for _ in range(_TOLD):
                begin = time.perf_counter_ns()
                child.tell({"copy": 1})
                child.line(self._timeout_s)
                told.append(time.perf_counter_ns() - begin)
        return Handing(min(told, default=0.0), max(byte, default=0.0))

    def _ask(self, who: int, message: dict[str, object]) -> Child | None:
        if self._lost[who] >= _MOST_LOST:
            return None
        child = self._children[who]
        try:
            if child is None:
                child = self._children[who] = Child("edgewise.parallel.stages.trial", str(self._targets[who]), ())
                child.tell({"target": str(self._targets[who]), "cores": list(self._cores[who])})
            child.tell(message)
        except EngineFailure as error:
            self._lose(who, error)
            return None
        return child

    def _answer(self, who: int, child: Child) -> float | None:
        try:
            said = child.line(self._timeout_s, raw=True)
        except EngineFailure as error:
            self._lose(who, error)
            return None
        if "error" in said:
            self.reasons.setdefault(who, child.told(said))
            return None
        return float(sorted(said["samples_ns"])[:2][-1])

    def _lose(self, who: int, error: EdgewiseError) -> None:
        self.reasons.setdefault(who, error)
        self._lost[who] += 1
        self._end(who)

    def _end(self, who: int) -> None:
        child = self._children[who]
        self._children[who] = None
        if child is not None:
            child.process.kill()
            child.close()


def measured(
    trials: Trials, whole: Whole, model: Model, pieces: Sequence[Sequence[int]], targets: int, folder: Path
) -> list[list[float | None]]:
    """`costs[piece][target]` of pieces, each alone, on every target. A target that runs none of them is refused."""
    costs = []
    for number, nodes in enumerate(pieces):
        made = piece(whole, model, nodes, folder / f"piece-{number}.onnx")
        costs.append(trials.together([made] * targets))
        Path(made.path).unlink()
    for who in range(targets):
        if all(row[who] is None for row in costs):
            raise trials.reasons[who]
    for row, nodes in zip(costs, pieces, strict=True):
        if all(cost is None for cost in row):
            operators = ", ".join(sorted({whole.graph.nodes[node].operator for node in nodes}))
            why = "; ".join(error.message for error in trials.reasons.values())
            raise Unsupported(f"no target runs the piece of {model.label} with {operators}: {why}")
    return costs
