"""Parts that do each other's shares: for cores that others want too, of which nobody knows how much there will be in
the next milliseconds.

Everybody has all shares of every step loaded, and begins with its own. Who is done takes one that nobody has begun. And
one part leads: where another is late, it computes that share itself, for whoever began it may have lost its core, and
would be waited for until it gets it back. Nobody does so for the leader, which therefore computes right where answers
belong. The others compute into memory of their own, and what comes out is copied to its place under a lock, unless it
has been brought already: who comes late changes nothing, whatever has become of the memory meanwhile. For who loses its
core while it copies, everybody waits.
"""

from __future__ import annotations

import fcntl
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from ...core.errors import EngineFailure
from ...core.protocols import Array, Executable
from ...core.types import Model, Target
from .cut import Lies, Pieces, Step
from .run import Clock, arrays, between, bound, piece, pitched, view

_ALIGN = 64
# A share is late when it takes longer than it usually does by so much, and that before anybody knows what is usual.
_LATE, _GRACE_NS, _UNKNOWN_NS = 1.2, 50_000, 2_000_000
# How much of what a share took longer this time goes into what it usually takes; what it took less counts at once.
_SLOWER = 0.05
# What is written down of a share: the frame it was begun in and when, those it was being brought and was brought in.
_BEGUN, _SINCE, _BRINGING, _BROUGHT, _NUMBERS = range(5)


def in_common(pieces: Pieces) -> Pieces:
    """With the memory of each part where all can use it: the next of its shares may be another's to do."""
    at, each = _aligned(pieces.shared_bytes), _aligned(pieces.private_bytes)

    def moved(all_: Sequence[Lies], part: int) -> tuple[Lies, ...]:
        begin = at + part * each
        return tuple(
            replace(lies, private=False, offset=begin + lies.offset) if lies.private else lies for lies in all_
        )

    steps = tuple(
        tuple(replace(step, inputs=moved(step.inputs, part), outputs=moved(step.outputs, part)) for step in row)
        for part, row in enumerate(pieces.steps)
    )
    return replace(pieces, steps=steps, shared_bytes=at + each * len(steps), private_bytes=0)


class Board:
    """Of each share of each step: the frame it was last begun in, when that was, and the frame it was last brought in.

    Two may begin the same one in the same moment; then both compute it, and nothing else comes of it. It begins with
    nothing but zeros.
    """

    def __init__(self, memory: Any, at: int, steps: int, parts: int, lock_fd: int) -> None:
        self._row = _row(parts)
        self._numbers = memoryview(memory)[at : at + board_bytes(steps, parts)].cast("q")
        self._lock_fd = lock_fd

    def _at(self, what: int, step: int, share: int) -> int:
        return (_NUMBERS * step + what) * self._row + share

    def begin(self, step: int, share: int, frame: int, now_ns: int) -> None:
        self._numbers[self._at(_SINCE, step, share)] = now_ns
        self._numbers[self._at(_BEGUN, step, share)] = frame

    def begun(self, step: int, share: int, frame: int) -> bool:
        return self._numbers[self._at(_BEGUN, step, share)] >= frame or self.brought(step, share, frame)

    def since_ns(self, step: int, share: int) -> int:
        return self._numbers[self._at(_SINCE, step, share)]

    def brought(self, step: int, share: int, frame: int) -> bool:
        return self._numbers[self._at(_BROUGHT, step, share)] >= frame

    @contextmanager
    def bringing(self, step: int, share: int, frame: int) -> Iterator[bool]:
        """Whether it is still wanted. Meanwhile nobody else brings it, and afterwards nobody will."""
        if self.brought(step, share, frame):
            yield False
            return
        numbers, begun, place = self._numbers, self._at(_BRINGING, step, share), step * self._row + share
        fcntl.lockf(self._lock_fd, fcntl.LOCK_EX, 1, place)
        try:
            if wanted := not self.brought(step, share, frame):
                if numbers[begun] == frame:
                    # What it is made of may lie where it is written to.
                    raise EngineFailure("a part of the split ended while it brought its share")
                numbers[begun] = frame
            yield wanted
            if wanted:
                numbers[self._at(_BROUGHT, step, share)] = frame
        finally:
            fcntl.lockf(self._lock_fd, fcntl.LOCK_UN, 1, place)


def board_bytes(steps: int, parts: int) -> int:
    return _NUMBERS * steps * _row(parts) * 8


def _row(parts: int) -> int:
    """Whole cache lines, so that nobody's looking at one step disturbs who writes about another."""
    return -(-parts // 8) * 8


def _aligned(size: int) -> int:
    return -(-size // _ALIGN) * _ALIGN


class Covering:
    """All shares of all parts, as one of them has them loaded; `steps[part]` are those of each. What it is busy with
    tells nothing of its own share, and is not written down."""

    # Those that everybody has, which are longer than a split's: who is interrupted has begun a share for nothing.
    turn_ns = 0

    def __init__(
        self,
        steps: Sequence[Sequence[Step]],
        target: Target,
        model: Model,
        shared: Any,
        board: Board,
        own: int,
        *,
        leads: bool,
        gently: bool = False,
    ) -> None:
        self._board, self._leads = board, leads
        self._executables: list[Executable] = []
        room = max((sum(map(_room, step.outputs)) for row in steps for step in row), default=0)
        self._memory = None if leads else np.empty(room, np.uint8)
        # By step and share, its own first: what to run, and what to copy where when it is brought.
        self._shares: list[dict[int, tuple[Callable[[], object], list[tuple[Array, Array]]]]] = []
        order = [own, *(part for part in range(len(steps)) if part != own)]
        for number, shares in enumerate(zip(*steps, strict=True)):
            loaded = {}
            for share in order:
                if not shares[share].path:
                    continue
                inputs, copied = arrays(shares[share].inputs, shared, None)
                outputs, brings = self._outputs(shares[share].outputs, shared)
                executable = piece(shares[share], number, target, model, among=True, gently=gently)
                self._executables.append(executable)
                run = bound(executable, inputs, outputs)
                loaded[share] = (between(copied, run, []) if copied else run, brings)
            self._shares.append(loaded)
        self._usual_ns: list[dict[int, float]] = [{} for _ in self._shares]

    def _outputs(self, all_: Sequence[Lies], shared: Any) -> tuple[dict[str, Array], list[tuple[Array, Array]]]:
        """Where a share's outputs are computed, and what of that to copy to where it belongs."""
        if self._memory is None:
            found, own = arrays(all_, shared, None)
            return found, [(there, runs) for runs, there in own]
        found, brings, at = {}, [], 0
        for lies in all_:
            # One share after another uses the same memory: it stays in the cache.
            array = found[lies.name] = view(replace(lies, offset=at), self._memory)
            at += _room(lies)
            runs, there = pitched(lies, array, shared) if lies.pitch else (array, view(lies, shared))
            brings.append((there, runs))
        return found, brings

    def frame(self, clock: Clock, frame: int) -> None:
        """What is left of a frame, together with the others; it ends with the frame, whoever did how much of it."""
        step, steps = 0, len(self._shares)
        while (step := max(step, clock.furthest(frame))) < steps:
            share = self._left(step, frame)
            if share is None:
                if self._done(step, frame):
                    step += 1
                    clock.move(frame, step)
                    continue
                share = self._late(clock, step, frame)
            if share is not None:
                self._do(step, share, frame)
        clock.move(frame, steps)
        clock.adapt()

    def _left(self, step: int, frame: int) -> int | None:
        return next((share for share in self._shares[step] if not self._board.begun(step, share, frame)), None)

    def _done(self, step: int, frame: int) -> bool:
        return all(self._board.brought(step, share, frame) for share in self._shares[step])

    def _late(self, clock: Clock, step: int, frame: int) -> int | None:
        """A share that somebody has been at for too long, if this part leads; none if all is done before that."""
        usual_ns, since_ns = self._usual_ns[step], self._board.since_ns
        until_ns = {
            share: since_ns(step, share) + _GRACE_NS + int(_LATE * usual_ns.get(share, _UNKNOWN_NS))
            for share in self._shares[step]
            if not self._board.brought(step, share, frame)
        }
        if not until_ns:
            return None
        first = min(until_ns, key=lambda share: until_ns[share])
        done = clock.until(
            lambda: self._done(step, frame) or clock.furthest(frame) > step, until_ns[first] if self._leads else None
        )
        return None if done else first

    def _do(self, step: int, share: int, frame: int) -> None:
        run, brings = self._shares[step][share]
        begin = time.perf_counter_ns()
        self._board.begin(step, share, frame, begin)
        if not self._leads:
            try:
                run()
            except Exception:
                # Who is late may have read what was not meant for it, and engines raise anything.
                if self._board.brought(step, share, frame):
                    return
                raise
        with self._board.bringing(step, share, frame) as wanted:
            if not wanted:
                return
            if self._leads:
                run()
            for to, of in brings:
                np.copyto(to, of)
        took = time.perf_counter_ns() - begin
        usual = self._usual_ns[step].get(share, took)
        self._usual_ns[step][share] = min(took, usual + _SLOWER * (took - usual))

    def close(self) -> None:
        for executable in self._executables:
            executable.close()
        self._executables.clear()
        self._shares.clear()


def _room(lies: Lies) -> int:
    return _aligned(int(np.prod(lies.shape, dtype=np.int64)) * np.dtype(lies.dtype).itemsize)
