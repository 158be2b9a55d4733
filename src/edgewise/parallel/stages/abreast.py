"""One inference whose branches run side by side on several targets, as one executable."""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...core.errors import EngineFailure, Unsupported, WorkerTimeout
from ...core.protocols import Array, Feeds, Outputs
from ...core.records import to_json
from ...core.types import Model, Placement, Ran
from ..memory import create, fill
from ..opening import pieces_of
from ..process import Child
from ..split.cut import Lies
from ..split.cut import Step as Loaded
from ..split.run import Clock, clock_bytes
from ..split.source import source_of
from .branches import Slot, bound, makespan, schedule
from .chains import Pieces, chains
from .costs import Trials, measured
from .lanes import lanes
from .pieces import Whole, piece, same_file
from .regions import regions
from .side import Side

_TIMEOUT_S = 120.0
_ALIGN = 64


@dataclass(frozen=True, slots=True)
class Planned:
    """Who does what when; no schedule of these pieces is below `bound_ns`. `alone_ns` is the whole model on each
    target, None where it does not run."""

    slots: tuple[Slot, ...]
    bound_ns: float
    alone_ns: tuple[float | None, ...] = ()


class Branches:
    """The first target's pieces run here, on the caller's core; the others' in processes of their own."""

    def __init__(
        self,
        parts: Sequence[tuple[Model, tuple[int, ...]]],
        placement: Placement,
        timeout_s: float = _TIMEOUT_S,
        planning: Callable[[Pieces], Planned] | None = None,
    ) -> None:
        """`planning` decides who does what; without it measured costs do."""
        self._timeout_s = timeout_s
        self._children: list[Child] = []
        self._own: Side | None = None
        self._frames, self._since_ns = 0, 0
        self._fd = create()
        self._pipes: list[tuple[int, int]] = []
        self._inputs: dict[str, Array] = {}
        self._outputs: dict[str, Array] = {}
        with pieces_of(self) as folder:
            self._open(parts, placement, planning, folder)

    def _open(
        self,
        parts: Sequence[tuple[Model, tuple[int, ...]]],
        placement: Placement,
        planning: Callable[[Pieces], Planned] | None,
        folder: Path,
    ) -> None:
        model = same_file(parts, placement)
        if any(part.share is not None for part in placement.parts):
            raise Unsupported("branches take no shares: what each target does follows from what the branches take")
        source = source_of(model, placement.targets, folder)
        self._targets, self._whole = placement.targets, (whole := Whole(source.graph))
        targets = source.targets
        self.pieces = chains(whole)
        if not self.pieces.branching:
            raise Unsupported(
                f"{model.label} has no branches: each operator needs the one before",
                "cut its operators: --on 'split(" + ", ".join(map(str, placement.targets)) + ")'",
            )
        cores = [own or target.cores for (_, own), target in zip(parts, targets, strict=True)]
        if planning is not None:
            self.planned = planning(self.pieces)
        else:
            with Trials(targets, cores, self._timeout_s) as trials:
                self.planned = planned(trials, whole, model, self.pieces, len(targets), folder)
        self.lanes = lanes(self.planned.slots, self.pieces.needs, len(targets))
        loaded, size = self._cut(model, folder)
        clock_at = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
        os.ftruncate(self._fd, clock_at + clock_bytes(len(targets)))
        self._memory = mmap.mmap(self._fd, clock_at + clock_bytes(len(targets)))
        self._pipes = [os.pipe() for _ in targets]
        self._clock = Clock(self._memory, clock_at, 0, self._pipes, self._alive)
        handed = (self._fd, *(fd for pipe in self._pipes for fd in pipe))
        self._totals = [len(lane) for lane in self.lanes]
        waits = [[step.waits for step in lane] for lane in self.lanes]
        for number, target in enumerate(targets[1:], 1):
            child = Child("edgewise.parallel.stages.side", str(placement.targets[number]), handed)
            self._children.append(child)
            child.tell(
                {
                    "model": to_json(model),
                    "target": str(target),
                    "cores": list(cores[number]),
                    "steps": to_json(loaded[number]),
                    "waits": waits[number],
                    "clock": clock_at,
                    "part": number,
                }
            )
        self._own = Side(loaded[0], waits[0], targets[0], model, self._memory)
        peaks = [child.line(self._timeout_s)["peak_bytes"] for child in self._children]
        self.peak_bytes: int | None = None if None in peaks else sum(peaks)
        self._inputs = {name: self._view(name) for name in whole.graph.inputs}
        constants = whole.graph.constants
        self._outputs = {n: constants[n] if n in constants else self._view(n) for n in whole.graph.outputs}

    def _cut(self, model: Model, folder: Path) -> tuple[list[list[Loaded]], int]:
        """A file for each step, and a place in memory for everything that steps hand to each other."""
        whole = self._whole
        models: list[list[Model]] = []
        for number, lane in enumerate(self.lanes):
            models.append([])
            for at, step in enumerate(lane):
                nodes = [node for each in step.pieces for node in self.pieces.nodes[each]]
                models[-1].append(piece(whole, model, nodes, folder / f"{number}-{at:03}.onnx"))
        made = (t.name for row in models for each in row for t in each.outputs)
        self._places: dict[str, Lies] = {}
        size = 0
        for name in dict.fromkeys((*whole.graph.inputs, *made)):
            value = whole.graph.values[name]
            sizes = tuple(each for each in value.shape or () if isinstance(each, int))
            self._places[name] = Lies(name, value.dtype, sizes, size)
            size += -(-(whole.size(name) or 0) // _ALIGN) * _ALIGN
        return [
            [
                Loaded(
                    each.path,
                    tuple(self._places[tensor.name] for tensor in each.inputs),
                    tuple(self._places[tensor.name] for tensor in each.outputs),
                )
                for each in row
            ]
            for row in models
        ], size

    def _view(self, name: str) -> Array:
        lies = self._places[name]
        count = int(np.prod(lies.shape, dtype=np.int64))
        return np.frombuffer(self._memory, lies.dtype, count, lies.offset).reshape(lies.shape)

    def run(self, feeds: Feeds) -> Outputs:
        own = self._own
        if own is None:
            raise EngineFailure("this executable is closed")
        fill(self._inputs, feeds)
        self._frames += 1
        self._since_ns = time.perf_counter_ns()
        clock = self._clock
        clock.begin(self._frames, 0, range(1, clock.parts))
        try:
            own.frame(clock, self._frames)
            for number, steps in enumerate(self._totals):
                if number and steps:
                    clock.wait(number, self._frames, steps)
        except BaseException:
            # The others are in the middle of a frame that nobody ends.
            self.close()
            raise
        return {name: array.copy() for name, array in self._outputs.items()}

    def _alive(self) -> None:
        """Asked when nothing has moved for a while."""
        for child in self._children:
            if child.process.poll() is not None:
                child.line(0.1)
        if time.perf_counter_ns() - self._since_ns > self._timeout_s * 1e9:
            names = " or ".join(map(str, self._targets[1:]))
            raise WorkerTimeout(f"{names} did not come back within {self._timeout_s:g} s", "raise the limit: --timeout")

    @property
    def pids(self) -> list[int]:
        return [child.process.pid for child in self._children]

    def ran(self) -> Ran:
        plan = self.planned
        found = [
            f"{target}: {sum(len(s.pieces) for s in lane)} of {len(self.pieces.nodes)} pieces in {len(lane)} steps"
            for target, lane in zip(self._targets, self.lanes, strict=True)
        ]
        found.append(f"{sum(len(step.waits) for lane in self.lanes for step in lane)} waits for another target")
        found.append(f"{len(regions(self._whole))} regions with branches")
        found.append(f"expected {round(makespan(plan.slots))} ns, at the least {round(plan.bound_ns)} ns")
        for target, alone in zip(self._targets, plan.alone_ns, strict=False):
            found.append(f"{target} alone: " + ("does not run it" if alone is None else f"{round(alone)} ns"))
        return Ran(devices=("cpu",), precisions=(), notes=tuple(found), expected_ns=makespan(plan.slots))

    def close(self) -> None:
        for child in self._children:
            child.process.kill()
            child.close()
        self._children.clear()
        if self._own is not None:
            self._own.close()
            self._own = None
        self._inputs = self._outputs = {}
        if hasattr(self, "_clock"):
            self._clock.close()
            del self._clock
        for fd in (self._fd, *(end for pipe in self._pipes for end in pipe)):
            with suppress(OSError):
                os.close(fd)
        self._fd, self._pipes = -1, []


def planned(trials: Trials, whole: Whole, model: Model, pieces: Pieces, targets: int, folder: Path) -> Planned:
    """By what each piece takes on each target, and what handing over takes."""
    costs = measured(trials, whole, model, pieces.nodes, targets, folder)
    handing = trials.handing()
    crossing = {
        (giver, taker): sum(
            whole.size(name) or 0
            for name in whole.gives(pieces.nodes[giver])
            if set(whole.readers.get(name, ())) & set(pieces.nodes[taker])
        )
        for taker, needs in pieces.needs.items()
        for giver in needs
    }
    slots = schedule(costs, pieces.needs, lambda giver, taker, there, here: handing.cost(crossing[giver, taker]))
    # One after another: alone is what they are to be compared with.
    all_of_it = piece(whole, model, range(len(whole.graph.nodes)), folder / "whole.onnx")
    alone = [
        trials.together([all_of_it if who == each else None for each in range(targets)])[who] for who in range(targets)
    ]
    return Planned(tuple(slots), bound(costs, pieces.needs), tuple(alone))
