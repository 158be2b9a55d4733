"""The parts at work: the first in this process, the others in processes of their own, all over one piece of memory.

Between steps they wait for each other by looking at numbers in that memory: who looks finds out within a microsecond,
and who sleeps is woken within fifty. But on a core that others want too, looking uses up the turns that the work needs:
then a part looks for a moment only and sleeps until it is woken. It finds out which is the case by what it got: time
that passed while it neither slept nor ran was taken by somebody else.
"""

from __future__ import annotations

import mmap
import os
import select
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...core.protocols import Array, Binds, Executable
from ...core.types import Model, Target, Tensor
from ..memory import fill
from ..opening import opened
from .cut import Lies, Step

# A number per part, each in a cache line of its own, so that nobody's looking disturbs another's writing.
_LINE = 8
# How long to look before sleeping: where the core is free, and where others want it.
_FREE_NS = 2_000_000
_WANTED_NS = 20_000
# More than this share of the time taken by others makes a core a wanted one.
_TAKEN = 0.05
# A sleeper looks up in any case after so long: a wake-up may have crossed its falling asleep.
_NAP_S = 0.005
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
        self._look_ns, self._slept_ns = _FREE_NS, 0
        self._ran_ns, self._since_ns = time.process_time_ns(), time.perf_counter_ns()

    def begin(self, frame: int) -> None:
        self._numbers[0] = frame
        self._wake_sleepers()

    def move(self, done: int) -> None:
        """This part has done so many steps."""
        self._numbers[(1 + self._own) * _LINE] = done
        self._wake_sleepers()

    def wait(self, part: int, done: int) -> None:
        """Until another part has done so many steps."""
        self._until((1 + part) * _LINE, done)

    def wait_for_frame(self, frame: int) -> None:
        self._until(0, frame)

    def adapt(self) -> None:
        """Once per frame: whether others want this core."""
        ran, now = time.process_time_ns(), time.perf_counter_ns()
        passed = now - self._since_ns
        taken = passed - self._slept_ns - (ran - self._ran_ns)
        self._look_ns = _WANTED_NS if taken > _TAKEN * passed else _FREE_NS
        self._ran_ns, self._since_ns, self._slept_ns = ran, now, 0

    def _until(self, place: int, number: int) -> None:
        numbers = self._numbers
        # Most waits are over before it is worth asking what time it is.
        for _ in range(100):
            if numbers[place] >= number:
                return
        since = asked = time.perf_counter_ns()
        while numbers[place] < number:
            now = time.perf_counter_ns()
            if now - since < self._look_ns:
                continue
            self._sleep(place, number)
            if now - asked > _PATIENCE_NS:
                self._alive()
                asked = now

    def _sleep(self, place: int, number: int) -> None:
        asleep = (1 + self.parts + self._own) * _LINE
        begin = time.perf_counter_ns()
        self._numbers[asleep] = 1
        if self._numbers[place] < number and select.select([self._read], [], [], _NAP_S)[0]:
            os.read(self._read, 64)
        self._numbers[asleep] = 0
        self._slept_ns += time.perf_counter_ns() - begin

    def _wake_sleepers(self) -> None:
        for part, write in self._wake:
            if self._numbers[(1 + self.parts + part) * _LINE]:
                self._numbers[(1 + self.parts + part) * _LINE] = 0
                os.write(write, b".")

    def close(self) -> None:
        self._numbers.release()


def clock_bytes(parts: int) -> int:
    return (1 + 2 * parts) * _LINE * 8


class Part:
    """The steps of one part, loaded and bound to their places in memory."""

    def __init__(self, steps: Sequence[Step], target: Target, model: Model, shared: Any, private_bytes: int) -> None:
        self._executables: list[Executable] = []
        self._private = bytearray(private_bytes)
        self.runs: list[Callable[[], object] | None] = []
        for number, step in enumerate(steps):
            if not step.path:
                self.runs.append(None)
                continue
            inputs = {each.name: self._array(each, shared) for each in step.inputs}
            outputs = {each.name: self._array(each, shared) for each in step.outputs}
            piece = Model(
                digest=f"{model.digest}-{number}",
                label=f"step {number} of {model.label}",
                path=step.path,
                inputs=tuple(Tensor(each.name, each.dtype, each.shape) for each in step.inputs),
                outputs=tuple(Tensor(each.name, each.dtype, each.shape) for each in step.outputs),
                precision=model.precision,
            )
            executable = opened(piece, target)
            self._executables.append(executable)
            self.runs.append(bound(executable, inputs, outputs))

    def _array(self, lies: Lies, shared: Any) -> Array:
        memory = self._private if lies.private else shared
        count = int(np.prod(lies.shape, dtype=np.int64))
        return np.frombuffer(memory, lies.dtype, count, lies.offset).reshape(lies.shape)

    def frame(self, clock: Clock, part: int, before: int) -> None:
        """All steps of one frame; `before` is how many steps were done when it began."""
        others = [each for each in range(clock.parts) if each != part]
        for done, run in enumerate(self.runs, before):
            if done > before:
                for other in others:
                    clock.wait(other, done)
            if run is not None:
                run()
            clock.move(done + 1)
        clock.adapt()

    def close(self) -> None:
        for executable in self._executables:
            executable.close()
        self._executables.clear()
        self.runs.clear()


def bound(executable: Executable, inputs: dict[str, Array], outputs: dict[str, Array]) -> Callable[[], object]:
    """A run from these arrays into those; by copying, where the engine does not write where it is told."""
    if isinstance(executable, Binds):
        return executable.bind(inputs, outputs)
    return lambda: fill(outputs, executable.run(inputs))


def follow(own: Part, clock: Clock, part: int) -> None:
    """The life of a part that is not the first: frame after frame, until the process is ended."""
    frames = 0
    while True:
        clock.wait_for_frame(frames + 1)
        own.frame(clock, part, frames * len(own.runs))
        frames += 1
