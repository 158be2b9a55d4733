"""The parts at work: the first in this process, the others in processes of their own, all over one piece of memory.

Between steps they wait for each other by looking at numbers in that memory: who looks finds out within a microsecond,
and who sleeps is woken within fifty. But on a core that others want too, looking uses up the turns that the work needs:
then a part looks for a moment only and sleeps until it is woken. It finds out which is the case by what it got: time
that passed while it neither slept nor ran was taken by somebody else. Only looking tells: who sleeps gets its turns at
once. So one that was kept waiting goes on sleeping, and looks for a frame now and then, each time later.

Parts can hold several ways of dividing a frame; which of them it is for is told with every frame.
"""

from __future__ import annotations

import mmap
import os
import select
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from ...core.protocols import Array, Binds, Executable, Feeds, Outputs
from ...core.types import Model, Target, Tensor
from ...system.process import take_turns_of
from ..memory import fill
from ..opening import opened
from .cut import Lies, Step

# What parts ask for: longer than most steps, so that one is not interrupted, and shorter than what others take where
# nobody asked.
TURN_NS = 1_000_000
# A number per part, each in a cache line of its own, so that nobody's looking disturbs another's writing.
_LINE = 8
# How long to look before sleeping: where the core is free, and where others want it.
_FREE_NS = 2_000_000
_WANTED_NS = 20_000
# More than this share of the time taken by others makes a core a wanted one, for so many frames at first and at most.
_TAKEN = 0.05
_WARY, _WARIEST = 8, 128
# A sleeper looks up in any case after so long: a wake-up may have crossed its falling asleep.
_NAP_S = 0.005
# A frame's number and the way it is divided, or a step of it, are one number, which is read and written at once.
_BITS = 16
_ALL = (1 << _BITS) - 1
# How long nobody may move before it is asked whether they still live.
_PATIENCE_NS = 500_000_000


class Clock:
    """How far everybody is: frames that were begun, steps each part has done since the beginning; and who sleeps.

    `pipes` has for each part the descriptors it is woken by: one to read, one to write.
    """

    def __init__(
        self, memory: mmap.mmap, at: int, own: int, pipes: Sequence[tuple[int, int]], alive: Callable[[], None]
    ) -> None:
        self.parts, self._own, self._alive = len(pipes), own, alive
        self._numbers = memoryview(memory)[at : at + clock_bytes(self.parts)].cast("q")
        self._read = pipes[own][0]
        self._wake = [(part, write) for part, (_, write) in enumerate(pipes) if part != own]
        self._look_ns = _FREE_NS
        # Frames until it looks again, and how many that are after the next one that is disturbed.
        self._left, self._wary = 0, _WARY
        self._count()

    def begin(self, frame: int, way: int, parts: Collection[int]) -> None:
        """A frame, and the parts that have something to do in it."""
        self._count()
        self._numbers[0] = frame << _BITS | way
        self._wake_sleepers(parts)

    def move(self, frame: int, done: int) -> None:
        """This part has done so many steps of a frame."""
        self._numbers[(1 + self._own) * _LINE] = frame << _BITS | done
        self._wake_sleepers()

    def leave(self, frame: int) -> None:
        """This part has nothing to do with a frame any more."""
        self.move(frame, _ALL)

    def wait_left(self, part: int, frame: int) -> None:
        """Until another part has nothing to do with a frame any more, or is past it."""
        self.wait(part, frame, _ALL)

    def wait(self, part: int, frame: int, done: int) -> None:
        """Until another part has done so many steps of a frame."""
        self._until((1 + part) * _LINE, frame << _BITS | done)

    def wait_for_frame(self, after: int) -> tuple[int, int]:
        """A later frame than this one, and its way. Frames in which a part has nothing to do may pass unseen."""
        self._until(0, (after + 1) << _BITS)
        self._count()
        said = self._numbers[0]
        return said >> _BITS, said & _ALL

    def _count(self) -> None:
        """From the beginning of a frame: between frames nobody may have wanted anything."""
        self._ran_ns, self._since_ns, self._slept_ns = time.process_time_ns(), time.perf_counter_ns(), 0

    def adapt(self) -> None:
        """At the end of a frame: whether others want this core, as far as that can be told."""
        if self._left:
            self._left -= 1
            self._look_ns = _WANTED_NS if self._left else _FREE_NS
            return
        passed = time.perf_counter_ns() - self._since_ns
        taken = passed - self._slept_ns - (time.process_time_ns() - self._ran_ns)
        if taken > _TAKEN * passed:
            self._look_ns, self._left = _WANTED_NS, self._wary
            self._wary = min(_WARIEST, 2 * self._wary)
        else:
            # A short frame may go undisturbed beside others, too.
            self._wary = max(_WARY, self._wary - 1)

    def _until(self, place: int, number: int) -> None:
        numbers = self._numbers
        # Most waits are over before it is worth asking what time it is.
        for _ in range(100):
            if numbers[place] >= number:
                return
        self.until(lambda: numbers[place] >= number)

    def until(self, ready: Callable[[], bool], deadline_ns: int | None = None) -> bool:
        """Whether it came to that before the deadline; those who bring it about have to move."""
        since = asked = time.perf_counter_ns()
        while not ready():
            now = time.perf_counter_ns()
            if deadline_ns is not None and now >= deadline_ns:
                return False
            if now - since < self._look_ns:
                continue
            self._sleep(ready, _NAP_S if deadline_ns is None else min(_NAP_S, (deadline_ns - now) / 1e9))
            if now - asked > _PATIENCE_NS:
                self._alive()
                asked = now
        return True

    def furthest(self, frame: int) -> int:
        """Steps of a frame that others have seen done; of one that is over, more than it has."""
        if self._numbers[0] >> _BITS > frame:
            return _ALL
        seen = [self._numbers[(1 + part) * _LINE] - (frame << _BITS) for part, _ in self._wake]
        return min(_ALL, max(0, *seen))

    def _sleep(self, ready: Callable[[], bool], nap_s: float) -> None:
        asleep = (1 + self.parts + self._own) * _LINE
        begin = time.perf_counter_ns()
        self._numbers[asleep] = 1
        if not ready() and select.select([self._read], [], [], nap_s)[0]:
            os.read(self._read, 64)
        self._numbers[asleep] = 0
        self._slept_ns += time.perf_counter_ns() - begin

    def _wake_sleepers(self, parts: Collection[int] | None = None) -> None:
        for part, write in self._wake:
            if parts is not None and part not in parts:
                continue
            if self._numbers[(1 + self.parts + part) * _LINE]:
                self._numbers[(1 + self.parts + part) * _LINE] = 0
                os.write(write, b".")

    def close(self) -> None:
        self._numbers.release()


def clock_bytes(parts: int) -> int:
    return (1 + 2 * parts) * _LINE * 8


class Works(Protocol):
    """A way as one part has it loaded; `turn_ns` are the turns it asks for (0: those that everybody has)."""

    turn_ns: int

    def frame(self, clock: Clock, frame: int) -> None: ...

    def close(self) -> None: ...


class Part:
    """The steps of one part, loaded and bound to their places in memory. `busy` is where it writes how long each step
    took it, in ns; `others` are the parts it waits for between steps. Loaded `gently`, beside frames that run, it
    rests as long as it works."""

    turn_ns = TURN_NS

    def __init__(
        self,
        steps: Sequence[Step],
        target: Target,
        model: Model,
        shared: Any,
        private_bytes: int,
        busy: Array | None = None,
        others: Sequence[int] = (),
        *,
        gently: bool = False,
    ) -> None:
        self._busy = np.zeros(len(steps), np.int64) if busy is None else busy
        self._others = tuple(others)
        self._executables: list[Executable] = []
        private = bytearray(private_bytes)
        self.runs: list[Callable[[], object] | None] = []
        for number, step in enumerate(steps):
            if not step.path:
                self.runs.append(None)
                continue
            inputs, copied_in = arrays(step.inputs, shared, private)
            outputs, copied_out = arrays(step.outputs, shared, private)
            executable = piece(step, number, target, model, among=len(steps) > 1, gently=gently)
            self._executables.append(executable)
            run = bound(executable, inputs, outputs)
            if copied_in or copied_out:
                run = between(copied_in, run, [(b, a) for a, b in copied_out])
            self.runs.append(run)

    def frame(self, clock: Clock, frame: int) -> None:
        """All steps of one frame. Where there is nothing to do, there is nothing to wait for."""
        now, busy = time.perf_counter_ns, self._busy
        for done, run in enumerate(self.runs):
            if run is not None:
                for other in self._others if done else ():
                    clock.wait(other, frame, done)
                begin = now()
                run()
                busy[done] = now() - begin
            clock.move(frame, done + 1)
        clock.adapt()

    def alone(self, feeds: Feeds) -> Outputs:
        """The only step of the only part: what nobody shares need not pass through shared memory."""
        begin = time.perf_counter_ns()
        outputs = self._executables[0].run(feeds)
        self._busy[0] = time.perf_counter_ns() - begin
        # The caller's own, as they are when several parts run: an engine told to copy little may use them again.
        return {name: np.array(array) for name, array in outputs.items()}

    def close(self) -> None:
        for executable in self._executables:
            executable.close()
        self._executables.clear()
        self.runs.clear()


def piece(step: Step, number: int, target: Target, model: Model, *, among: bool, gently: bool) -> Executable:
    """What a part does in a step, loaded; `gently`, beside frames that run."""
    found = Model(
        digest=f"{model.digest}-{number}",
        label=f"step {number} of {model.label}",
        path=step.path,
        inputs=tuple(Tensor(each.name, each.dtype, each.shape) for each in step.inputs),
        outputs=tuple(Tensor(each.name, each.dtype, each.shape) for each in step.outputs),
        precision=model.precision,
    )
    begin = time.perf_counter()
    executable = opened(found, target, among=among)
    if gently:
        time.sleep(time.perf_counter() - begin)
    return executable


def arrays(all_: Sequence[Lies], shared: Any, private: Any) -> tuple[dict[str, Array], list[tuple[Array, Array]]]:
    """The arrays a model is bound to; and those of them that are its own, each with its place in memory."""
    found, own = {}, []
    for lies in all_:
        memory = private if lies.private else shared
        if not lies.pitch:
            found[lies.name] = view(lies, memory)
            continue
        array = np.zeros(lies.shape, lies.dtype)
        found[lies.name] = array
        own.append(pitched(lies, array, memory))
    return found, own


def pitched(lies: Lies, array: Array, memory: Any) -> tuple[Array, Array]:
    """What of an array of its own lies in memory, and where it lies there."""
    runs = array.reshape(lies.runs, -1)[:, lies.skip : lies.skip + lies.length]
    strides = (lies.pitch, array.itemsize)
    return runs, np.ndarray((lies.runs, lies.length), lies.dtype, memory, lies.offset, strides)


def view(lies: Lies, memory: Any) -> Array:
    count = int(np.prod(lies.shape, dtype=np.int64))
    return np.frombuffer(memory, lies.dtype, count, lies.offset).reshape(lies.shape)


def between(
    before: list[tuple[Array, Array]], run: Callable[[], object], after: list[tuple[Array, Array]]
) -> Callable[[], object]:
    """A run with copies before and after it, each to the first array from the second."""

    def all_() -> None:
        for to, of in before:
            np.copyto(to, of)
        run()
        for to, of in after:
            np.copyto(to, of)

    return all_


def bound(executable: Executable, inputs: dict[str, Array], outputs: dict[str, Array]) -> Callable[[], object]:
    """A run from these arrays into those; by copying, where the engine does not write where it is told."""
    if isinstance(executable, Binds):
        return executable.bind(inputs, outputs)
    return lambda: fill(outputs, executable.run(inputs))


def follow(ways: Mapping[int, Works], clock: Clock) -> None:
    """The life of a part that is not the first: frame after frame, until the process is ended."""
    frame, turn_ns = 0, TURN_NS
    while True:
        frame, way = clock.wait_for_frame(frame)
        if (own := ways.get(way)) is not None:
            if own.turn_ns != turn_ns:
                turn_ns = own.turn_ns
                take_turns_of(turn_ns)
            own.frame(clock, frame)
            clock.leave(frame)
        else:
            # It has gone by, and nothing of it was done here.
            clock.move(frame, 0)
