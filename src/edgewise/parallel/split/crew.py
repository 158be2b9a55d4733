"""The parts of a split at work: processes, the memory they share, and the ways of dividing a frame they have loaded."""

from __future__ import annotations

import mmap
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core.protocols import Array, Feeds, Outputs
from ...core.records import to_json
from ...core.types import Model, Target
from ..memory import create, fill
from ..process import Child
from .cover import Board, Covering, board_bytes
from .run import Clock, Part, Works, clock_bytes, view
from .ways import Divided

_PAGE = mmap.ALLOCATIONGRANULARITY


@dataclass
class Loaded:
    """A way that all parts have loaded, under a number. `busy_ns[part]` is how long each step of the last frame took
    a part; `frame` is the last one that was divided so."""

    number: int
    divided: Divided
    at: int
    bytes_: int
    inputs: dict[str, Array]
    outputs: dict[str, Array]
    busy_ns: Array
    own: Works | None
    frame: int = 0


class Crew:
    """The first part runs here, on the caller's core; the others in processes of their own.

    One thread may load while another runs frames.
    """

    def __init__(
        self,
        models: Sequence[Model],
        targets: Sequence[Target],
        cores: Sequence[tuple[int, ...]],
        timeout_s: float,
    ) -> None:
        self._models, self._targets, self._cores = tuple(models), tuple(targets), tuple(cores)
        self._timeout_s = timeout_s
        self._children: list[Child] = []
        self._loaded: dict[int, Loaded] = {}
        self._free: list[tuple[int, int]] = []
        self._frames = self._number = 0
        self._fd, self._pipes = create(), [os.pipe() for _ in targets]
        # A file of its own: a lock is gone as soon as its process closes any descriptor of the file it is on.
        self._lock_fd = create()
        self._peaks: dict[int, int | None] = {}
        self._end = -(-clock_bytes(len(targets)) // _PAGE) * _PAGE
        self._clock: Clock | None = None
        try:
            self._start()
        except BaseException:
            self.close()
            raise

    def _start(self) -> None:
        os.ftruncate(self._fd, self._end)
        self._clock = Clock(mmap.mmap(self._fd, self._end), 0, 0, self._pipes, self._alive)
        handed = (self._fd, self._lock_fd, *(fd for pipe in self._pipes for fd in pipe))
        for part, target in enumerate(self._targets[1:], 1):
            child = Child("edgewise.parallel.split.part", str(target), handed)
            self._children.append(child)
            child.tell(
                {
                    "model": to_json(self._models[part]),
                    "target": str(target),
                    "cores": list(self._cores[part] or target.cores),
                    "clock": self._end,
                    "part": part,
                }
            )

    @property
    def pids(self) -> list[int]:
        return [child.process.pid for child in self._children]

    @property
    def peak_bytes(self) -> int | None:
        found = [self._peaks.get(part) for part in range(1, len(self._targets))]
        return None if None in found else sum(each for each in found if each is not None)

    def load(self, divided: Divided, *, gently: bool = False) -> Loaded:
        """Everywhere at once; frames of other ways may go on meanwhile, and are disturbed less if it is done gently."""
        pieces, parts, covered = divided.pieces, len(self._targets), divided.way.kind == "covered"
        steps = len(pieces.steps[0])
        busy_at = -(-pieces.shared_bytes // 64) * 64
        line = -(-steps // 8) * 64
        board_at = busy_at + parts * line
        board = bytes(board_bytes(steps, parts) if covered else 0)
        at, bytes_ = self._place(board_at + len(board))
        memory = mmap.mmap(self._fd, bytes_, offset=at)
        # Another way may have been there.
        memory[board_at : board_at + len(board)] = board
        self._number += 1
        number = self._number
        for part, child in enumerate(self._children, 1):
            child.tell(
                {
                    "way": number,
                    "target": str(divided.targets[part]),
                    "steps": to_json(pieces.steps if covered else pieces.steps[part]),
                    "private_bytes": pieces.private_bytes,
                    "at": at,
                    "bytes": bytes_,
                    "busy": busy_at + part * line,
                    "board": board_at if covered else None,
                    "leads": part == divided.way.part,
                    "others": [each for each in divided.parts if each != part],
                    "gently": gently,
                }
            )
        busy = np.ndarray((parts, steps), np.int64, memory, busy_at, (line, 8))
        own: Works | None = None
        if covered:
            seen, leads = Board(memory, board_at, steps, parts, self._lock_fd), divided.way.part == 0
            target, model = divided.targets[0], self._models[0]
            own = Covering(pieces.steps, target, model, memory, seen, 0, leads=leads, gently=gently)
        elif 0 in divided.parts:
            others = [each for each in divided.parts if each]
            target, model = divided.targets[0], self._models[0]
            own = Part(pieces.steps[0], target, model, memory, pieces.private_bytes, busy[0], others, gently=gently)
        answers = [(part, self._answer(child, number)) for part, child in enumerate(self._children, 1)]
        for part, said in answers:
            if "error" in said:
                raise self._children[part - 1].told(said)
            self._peaks[part] = said["peak_bytes"]
        inputs = {each.name: view(each, memory) for each in pieces.inputs}
        outputs = {each.name: view(each, memory) for each in pieces.outputs}
        self._loaded[number] = Loaded(number, divided, at, bytes_, inputs, outputs, busy, own)
        return self._loaded[number]

    def _answer(self, child: Child, number: int) -> dict[str, Any]:
        """What a part says of a way. Of an earlier one, given up before it had answered, nobody wants to know."""
        while True:
            said = child.line(self._timeout_s, raw=True)
            if said.get("way", number) == number:
                return said

    def _place(self, wanted: int) -> tuple[int, int]:
        """Where nothing lies any more, or behind everything."""
        wanted = -(-max(1, wanted) // _PAGE) * _PAGE
        for place in self._free:
            if place[1] >= wanted:
                self._free.remove(place)
                return place
        at, self._end = self._end, self._end + wanted
        os.ftruncate(self._fd, self._end)
        return at, wanted

    def forget(self, way: Loaded) -> None:
        """Nobody may be at work on a frame of it; who comes late to one is waited for."""
        assert self._clock is not None
        if way.divided.way.kind == "covered" and way.frame:
            for part in way.divided.parts[1:]:
                self._clock.wait_left(part, way.frame)
        for child in self._children:
            child.tell({"forget": way.number})
        if way.own is not None:
            way.own.close()
        del self._loaded[way.number]
        self._free.append((way.at, way.bytes_))

    def run(self, way: Loaded, feeds: Feeds) -> Outputs:
        clock, parts = self._clock, way.divided.parts
        assert clock is not None
        if way.divided.way.kind == "single" and isinstance(way.own, Part):
            return way.own.alone(feeds)
        fill(way.inputs, feeds)
        self._frames += 1
        frame, steps = self._frames, len(way.divided.pieces.steps[0])
        clock.begin(frame, way.number, parts)
        way.frame = frame
        if way.own is not None:
            way.own.frame(clock, frame)
        if way.divided.way.kind == "covered":
            # Nobody was waited for, so nobody would be missed.
            self._alive()
            parts = ()
        for part in parts:
            if part:
                clock.wait(part, frame, steps)
        return {name: array.copy() for name, array in way.outputs.items()}

    def _alive(self) -> None:
        """Asked when nothing has moved for a while, and where nobody is waited for."""
        for child in self._children:
            if child.process.poll() is not None:
                child.line(0.1)

    def stop(self) -> None:
        """Ends the processes; whoever waits for an answer of theirs finds out."""
        for child in self._children:
            child.process.kill()

    def close(self) -> None:
        self.stop()
        for child in self._children:
            child.close()
        self._children.clear()
        for way in self._loaded.values():
            if way.own is not None:
                way.own.close()
        self._loaded.clear()
        if self._clock is not None:
            self._clock.close()
            self._clock = None
        for fd in (self._fd, self._lock_fd, *(end for pipe in self._pipes for end in pipe)):
            with suppress(OSError):
                os.close(fd)
        self._fd, self._lock_fd, self._pipes = -1, -1, []
