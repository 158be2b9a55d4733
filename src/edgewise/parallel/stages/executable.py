"""A model cut into stages on different targets, as one executable whose real use is `stream`.

Each frame has a slot, in which everything that crosses a cut has a place. A stage works in the slots it is given in
their order, and so do all: frames come out in the order they went in.
"""

from __future__ import annotations

import os
import select
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ...core.errors import EdgewiseError, EngineFailure, InputError, WorkerTimeout
from ...core.protocols import EVERYBODY, Array, Feeds, Outputs
from ...core.records import to_json
from ...core.types import Model, Placement, Ran
from ..memory import Form, Slots, create, fill
from ..opening import pieces_of
from ..process import PartProcess
from ..split.source import source_of
from .choose import Chosen, choose
from .costs import Trials
from .pieces import Whole, piece, same_file
from .pipeline import slowest
from .units import Units

_TIMEOUT_S = 120.0
# For each stage, frames under way: one that it works on, and the next, so that it never waits to be told.
_DEPTH = 2


@dataclass(frozen=True, slots=True)
class Delivered:
    """A frame that came out of the last stage; its delay is from when the first began with it."""

    number: int
    delay_ns: int
    outputs: Mapping[str, Array]
    who: int = EVERYBODY


class StageProcess(PartProcess):
    module = "edgewise.parallel.stages.part"

    def join(self, forms: Sequence[Form], model: Model, slots: int, timeout_s: float) -> None:
        takes, gives = ([tensor.name for tensor in tensors] for tensors in (model.inputs, model.outputs))
        self.tell({"forms": to_json(forms), "takes": takes, "gives": gives, "slots": slots})
        self.line(timeout_s)


class Stages:
    def __init__(
        self,
        parts: Sequence[tuple[Model, tuple[int, ...]]],
        placement: Placement,
        timeout_s: float = _TIMEOUT_S,
        choosing: Callable[[Units], Chosen] | None = None,
    ) -> None:
        """`choosing` decides where to cut; without it shares do, or measured costs."""
        self._timeout_s = timeout_s
        self._fd = create()
        self._broken: EdgewiseError | None = None
        self.parts: list[StageProcess] = []
        self.lost: list[EdgewiseError] = []
        with pieces_of(self) as folder:
            self._open(parts, placement, choosing, folder)

    def _open(
        self,
        parts: Sequence[tuple[Model, tuple[int, ...]]],
        placement: Placement,
        choosing: Callable[[Units], Chosen] | None,
        folder: Path,
    ) -> None:
        model = same_file(parts, placement)
        # Alike, they take pieces of the graph as their engine has optimized it: then nothing is fused less for the cut.
        source = source_of(model, placement.targets, folder)
        whole, targets = Whole(source.graph), source.targets
        cores = [own or target.cores for (_, own), target in zip(parts, placement.targets, strict=True)]
        with Trials(targets, cores, self._timeout_s) as trials:
            self.chosen = choose(whole, model, placement, trials, folder, choosing)
        self._targets = placement.targets
        pieces = []
        for number, stage in enumerate(self.chosen.stages):
            made = piece(
                whole, model, self.chosen.units.nodes(stage.first, stage.last), folder / f"stage-{number}.onnx"
            )
            pieces.append(made)
            self.parts.append(StageProcess(made, targets[stage.target], (self._fd,), cores[stage.target]))
        for part in self.parts:
            part.opened(self._timeout_s)
        crossing = dict.fromkeys((*whole.graph.inputs, *(t.name for made in pieces for t in made.outputs)))
        values = whole.graph.values
        forms = [Form(name, values[name].dtype, _sizes(whole, name)) for name in crossing]
        window = _DEPTH * len(pieces)
        self._slots = Slots(self._fd, forms, window, grow=True)
        self._inputs = tuple(whole.graph.inputs)
        self._outputs = tuple(whole.graph.outputs)
        # An answer that is computed from nothing is known already.
        self._constants = {n: whole.graph.constants[n] for n in self._outputs if n in whole.graph.constants}
        for part, made in zip(self.parts, pieces, strict=True):
            part.join(forms, made, window, self._timeout_s)

    @property
    def window(self) -> int:
        return len(self._slots)

    @property
    def pids(self) -> list[int]:
        return [part.process.pid for part in self.parts]

    @property
    def peak_bytes(self) -> int | None:
        """Of all stages, when they had run once."""
        peaks = [part.peak_bytes for part in self.parts]
        return None if None in peaks else sum(peak for peak in peaks if peak is not None)

    def run(self, feeds: Feeds) -> Outputs:
        """One frame, through all stages in turn."""
        (only,) = self.stream([feeds])
        return {name: array.copy() for name, array in only.outputs.items()}

    def stream(self, frames: Iterable[Feeds]) -> Iterator[Delivered]:
        """The answers in the order of the frames. What comes out is valid until the next is asked for."""
        if self._broken is not None:
            raise self._broken
        if not self.parts:
            raise EngineFailure("this executable is closed")
        one = _Stream(self, iter(frames))
        try:
            yield from one.go()
        finally:
            one.drain()

    def broke(self, error: EdgewiseError) -> EdgewiseError:
        """A stage is gone, and what the others have in hand is of no use to anybody."""
        self._broken = error
        self.close()
        return error

    def ran(self) -> Ran:
        parts = self.parts
        return Ran(
            tuple(dict.fromkeys(device for part in parts for device in part.ran.devices)),
            tuple(dict.fromkeys(pair for part in parts for pair in part.ran.precisions)),
            (*self.chosen.notes(self._targets), *(f"{p.target}: {note}" for p in parts for note in p.ran.notes)),
            slowest(self.chosen.stages) if self.chosen.timed else None,
        )

    def close(self) -> None:
        for part in self.parts:
            # A stage may be at work for long: it is not waited for.
            part.process.kill()
            part.close()
        self.parts.clear()
        if hasattr(self, "_slots"):
            self._slots.close()
        with suppress(OSError):
            os.close(self._fd)
        self._fd = -1


class _Stream:
    """One stream, from its first frame to its last."""

    def __init__(self, stages: Stages, frames: Iterator[Feeds]) -> None:
        self._stages, self._frames = stages, frames
        # What each stage holds, the oldest first.
        self._held: list[deque[int]] = [deque() for _ in stages.parts]
        self._begun: dict[int, int] = {}
        self._read = self._delivered = 0
        self._ended = False

    def go(self) -> Iterator[Delivered]:
        parts = self._stages.parts
        while True:
            self._fill()
            if self._ended and self._delivered == self._read:
                return
            for number in self._wait([part.answers_fd for part in parts]):
                for frame in self._done(number):
                    if number + 1 < len(parts):
                        self._give(number + 1, frame)
                    else:
                        yield self._out(frame)
                        self._delivered += 1

    def _done(self, number: int) -> list[int]:
        """The frames a stage has done; none of them is its own any more, whatever becomes of them."""
        try:
            answers = self._stages.parts[number].answers()
        except EdgewiseError as error:
            raise self._stages.broke(error) from None
        frames = [self._held[number].popleft() for _ in answers]
        if number == 0:
            self._begun |= {frame: began for frame, (began, _) in zip(frames, answers, strict=True)}
        return frames

    def drain(self) -> None:
        """Whoever asked may have seen enough: what is under way is finished, so that nobody answers the next stream
        with it."""
        for number, part in enumerate(list(self._stages.parts)):
            held = self._held[number]
            while held:
                if not select.select([part.answers_fd], [], [], self._stages._timeout_s)[0]:
                    self._stages.broke(self._late())
                    return
                try:
                    for _ in part.answers():
                        held.popleft()
                except EdgewiseError as error:
                    self._stages.broke(error)
                    return

    def _fill(self) -> None:
        """As many frames as there are slots for."""
        stages = self._stages
        while not self._ended and self._read < self._delivered + stages.window:
            frame = next(self._frames, None)
            if frame is None:
                self._ended = True
                return
            missing = [name for name in stages._inputs if name not in frame]
            if missing:
                raise InputError(f"input {missing[0]!r} is missing; expected {', '.join(stages._inputs)}")
            slot = stages._slots[self._read % stages.window]
            fill({name: slot[name] for name in stages._inputs}, frame)
            self._give(0, self._read)
            self._read += 1

    def _give(self, number: int, frame: int) -> None:
        self._held[number].append(frame)
        try:
            self._stages.parts[number].give([frame % self._stages.window])
        except EngineFailure as error:
            raise self._stages.broke(error) from None

    def _wait(self, fds: list[int]) -> list[int]:
        """The stages that have something to say. The last come first: what is done makes room."""
        ready = select.select(fds, [], [], self._stages._timeout_s)[0]
        if not ready:
            raise self._stages.broke(self._late())
        return sorted((fds.index(fd) for fd in ready), reverse=True)

    def _late(self) -> WorkerTimeout:
        busy = [str(part.target) for part, held in zip(self._stages.parts, self._held, strict=True) if held]
        return WorkerTimeout(
            f"{' and '.join(busy)} did not come back within {self._stages._timeout_s:g} s", "raise the limit: --timeout"
        )

    def _out(self, frame: int) -> Delivered:
        stages = self._stages
        slot = stages._slots[frame % stages.window]
        outputs = {n: stages._constants[n] if n in stages._constants else slot[n] for n in stages._outputs}
        delay = time.perf_counter_ns() - self._begun.pop(frame)
        return Delivered(frame, delay, outputs)


def _sizes(whole: Whole, name: str) -> tuple[int, ...]:
    return tuple(size for size in whole.graph.values[name].shape or () if isinstance(size, int))
