"""A model split over targets, as one executable."""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from ...core.errors import EdgewiseError, EngineFailure, Unsupported
from ...core.protocols import Feeds, Outputs
from ...core.records import to_json
from ...core.types import Model, Placement, Ran
from ..memory import create, fill
from ..process import Child
from .cut import Pieces, cut
from .plan import Plan, plan
from .run import Clock, Part, clock_bytes, view
from .source import source_of

_TIMEOUT_S = 120.0


class Split:
    """The first part runs here, on the caller's core; the others in processes of their own."""

    def __init__(
        self, parts: Sequence[tuple[Model, tuple[int, ...]]], placement: Placement, timeout_s: float = _TIMEOUT_S
    ) -> None:
        self._children: list[Child] = []
        self._own: Part | None = None
        self._frames = 0
        self._timeout_s = timeout_s
        self._folder = tempfile.TemporaryDirectory(prefix="edgewise-")
        self._fd = create()
        self._pipes: list[tuple[int, int]] = []
        try:
            self._open([model for model, _ in parts], [cores for _, cores in parts], placement)
        except BaseException:
            self.close()
            raise

    def _open(self, models: Sequence[Model], cores: Sequence[tuple[int, ...]], placement: Placement) -> None:
        if len({model.digest for model in models}) > 1:
            raise Unsupported("a split takes targets that load the same file", "choose targets of the same precision")
        model, folder = models[0], Path(self._folder.name)
        if model.precision == "int8":
            raise Unsupported(
                f"{model.label} is quantized, and this version splits float models",
                "deal its frames: --on 'deal(" + ", ".join(map(str, placement.targets)) + ")'",
            )
        found = source_of(model, placement.targets, folder)
        targets = found.targets
        shares = [part.share or 1.0 / len(placement.parts) for part in placement.parts]
        self.plan: Plan = plan(found.graph, [shares], "auto")
        self.pieces: Pieces = cut(self.plan, folder, found.blocks)
        clock_at = -(-self.pieces.shared_bytes // mmap.PAGESIZE) * mmap.PAGESIZE
        os.ftruncate(self._fd, clock_at + clock_bytes(len(targets)))
        self._memory = mmap.mmap(self._fd, clock_at + clock_bytes(len(targets)))
        self._pipes = [os.pipe() for _ in targets]
        self._clock = Clock(self._memory, clock_at, 0, self._pipes, self._alive)
        handed = (self._fd, *(fd for pipe in self._pipes for fd in pipe))
        for number, target in enumerate(targets[1:], 1):
            child = Child("edgewise.parallel.split.part", str(placement.targets[number]), handed)
            self._children.append(child)
            child.tell(
                {
                    "model": to_json(model),
                    "target": str(target),
                    "cores": list(cores[number] or target.cores),
                    "steps": to_json(self.pieces.steps[number]),
                    "private_bytes": self.pieces.private_bytes,
                    "clock": clock_at,
                    "part": number,
                }
            )
        self._own = Part(self.pieces.steps[0], targets[0], model, self._memory, self.pieces.private_bytes)
        peaks = [child.line(self._timeout_s)["peak_bytes"] for child in self._children]
        self.peak_bytes: int | None = None if None in peaks else sum(peaks)
        self._inputs = {each.name: view(each, self._memory) for each in self.pieces.inputs}
        self._outputs = {each.name: view(each, self._memory) for each in self.pieces.outputs}

    def run(self, feeds: Feeds) -> Outputs:
        own = self._own
        if own is None:
            raise EngineFailure("this executable is closed")
        fill(self._inputs, feeds)
        self._frames += 1
        clock, steps = self._clock, self.plan.steps
        clock.begin(self._frames)
        own.frame(clock, 0, (self._frames - 1) * steps)
        for number in range(1, clock.parts):
            clock.wait(number, self._frames * steps)
        return {name: array.copy() for name, array in self._outputs.items()}

    def _alive(self) -> None:
        """Asked when nothing has moved for a while."""
        for child in self._children:
            if child.process.poll() is not None:
                try:
                    child.line(0.1)
                except EdgewiseError as error:
                    self.close()
                    raise error from None

    @property
    def pids(self) -> list[int]:
        return [child.process.pid for child in self._children]

    def ran(self) -> Ran:
        shared = sum(work.edges is not None for work in self.plan.works)
        notes = (
            f"{self.plan.steps} exchanges",
            f"{shared} of {len(self.plan.works)} operators are split, the others are computed by every part",
        )
        return Ran(devices=("cpu",), precisions=(), notes=notes)

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
        self._folder.cleanup()
