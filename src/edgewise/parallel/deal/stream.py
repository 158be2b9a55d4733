"""The dealt stream itself: frames into slots, chunks to processes, answers in order."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import repeat
from typing import Literal, get_args

import numpy as np
import psutil

from ...core.errors import EdgewiseError, EngineFailure, Unsupported
from ...core.protocols import Array, Feeds, Outputs
from ...core.types import Model, Placement, Ran, Target
from ..memory import Slots, create, fill
from ..options import said
from ..process import PartProcess, Worker
from . import gate
from .dealer import MOST_SLOTS, Dealer, Hand, Line, enough, hands_for, too_slow
from .thread import PartThread, alike

_TIMEOUT_S = 120.0
# Options of the first target: whether targets have processes of their own, or threads of this one; and whether one that
# the stream is no quicker with rests.
Workers = Literal["processes", "threads"]
Gate = Literal["off", "on"]
# What frames that wait may take of memory, in all and of what is free.
_MOST_BYTES, _MOST_OF_FREE = 2 << 30, 0.25
# What a turn of the gate takes: frames of the slowest, within limits of seconds.
_TURN_FRAMES, _SHORTEST_S, _LONGEST_S = 6, 0.25, 1.5


@dataclass(frozen=True, slots=True)
class Delivered:
    """A frame that came out: its number, who worked on it, from when it and all before it were begun until it came
    out."""

    number: int
    who: int
    delay_ns: int
    outputs: Mapping[str, Array]


class Deal:
    """One model on several targets at once; an Executable whose real use is `stream`."""

    def __init__(
        self, parts: Sequence[tuple[Model, tuple[int, ...]]], placement: Placement, timeout_s: float = _TIMEOUT_S
    ) -> None:
        gated, _ = said(placement, "gate", get_args(Gate), "who may rest")
        workers, _ = said(placement, "workers", get_args(Workers), "who works")
        targets = placement.alone
        self._threads = workers == "threads"
        if self._threads:
            alike(targets)
        self._fds = [create(), create()]
        self.parts: list[PartProcess | PartThread] = []
        self.lost: list[EdgewiseError] = []
        # Who gets no frames, and why.
        self.resting: dict[int, str] = {}
        self._timeout_s = timeout_s
        try:
            begin: type[PartProcess] | type[PartThread] = PartThread if self._threads else PartProcess
            for (model, cores), target in zip(parts, targets, strict=True):
                self.parts.append(begin(model, target, self._fds, cores))
            for part in self.parts:
                part.opened(timeout_s)
            self._check()
            self._alive = [True] * len(self.parts)
            window = self._window()
            self.inputs = Slots(self._fds[0], self.parts[0].inputs, window, grow=True)
            self.outputs = Slots(self._fds[1], self.parts[0].outputs, window, grow=True)
            for part in self.parts:
                part.attach(part.inputs, part.outputs, window, timeout_s)
            if gated == "on":
                self._ask_the_gate(targets)
        except BaseException:
            self.close()
            raise

    def hands(self) -> list[Hand]:
        """As a stream begins with them."""
        return hands_for([part.frame_ns for part in self.parts])

    def _window(self) -> int:
        """How many frames there is room for: what the stream needs, within what memory allows. Those rest that need
        more than that."""
        first, hands = self.parts[0], self.hands()
        frame_bytes = sum(form.size for form in (*first.inputs, *first.outputs))
        room_bytes = min(_MOST_BYTES, int(_MOST_OF_FREE * psutil.virtual_memory().available))
        most = max(2, min(MOST_SLOTS, room_bytes // max(1, frame_bytes)))
        why = f"while it works the others finish more than the {most:,} frames there is room for"
        self.resting = dict.fromkeys(too_slow(hands, most), why)
        return min(most, enough([hand for who, hand in enumerate(hands) if who not in self.resting]))

    def _ask_the_gate(self, targets: Sequence[Target]) -> None:
        """Whom the stream is no quicker with rests, too."""
        working = [who for who in range(len(targets)) if who not in self.resting]
        if len(working) == 1:
            return
        groups = gate.groups([targets[who] for who in working], [self.parts[who].frame_ns for who in working])
        slow = frozenset(self.resting)
        found = gate.resting(groups, lambda idle: self._rate(slow.union(working[place] for place in idle)))
        for place, gained in found.items():
            self.resting[working[place]] = f"with it and its like the stream is {gained:.2f} times as fast"

    def _rate(self, resting: frozenset[int]) -> float:
        """Frames per second of a stream of nothing while these rest."""
        slowest_s = max(hand.service_ns for who, hand in enumerate(self.hands()) if who not in resting) / 1e9
        seconds = min(_LONGEST_S, max(_SHORTEST_S, _TURN_FRAMES * slowest_s))
        blank = {form.name: np.zeros(form.shape, form.dtype) for form in self.parts[0].inputs}
        stream = _Stream(self, repeat(blank), resting)
        begin, before = time.perf_counter(), 0
        with closing(stream.go()) as frames:
            for _ in frames:
                now = time.perf_counter()
                if not before and stream.settled:
                    begin, before = now, stream.finished
                elif now - begin > seconds:
                    break
            passed, done = time.perf_counter() - begin, stream.finished - before
        stream.drain()
        return max(1, done) / passed

    def _check(self) -> None:
        first = self.parts[0]
        for part in self.parts[1:]:
            if (part.inputs, part.outputs) != (first.inputs, first.outputs):
                raise Unsupported(
                    f"{part.target} answers with {_shown(part)}, and {first.target} with {_shown(first)}: "
                    "frames of one stream must look alike whoever worked on them"
                )

    @property
    def window(self) -> int:
        return len(self.inputs)

    @property
    def pids(self) -> list[int]:
        """Of processes beside this one; threads have none."""
        return [part.process.pid for part in self.parts if isinstance(part, PartProcess)]

    @property
    def peak_bytes(self) -> int | None:
        """Of all processes beside this one, when they had run once."""
        if self._threads:
            return 0
        peaks = [part.peak_bytes for part in self.parts]
        return None if None in peaks else sum(peak for peak in peaks if peak is not None)

    def run(self, feeds: Feeds) -> Outputs:
        """One frame, by whoever is quickest."""
        (only,) = self.stream([feeds])
        return {name: array.copy() for name, array in only.outputs.items()}

    def stream(self, frames: Iterable[Feeds]) -> Iterator[Delivered]:
        """The answers in the order of the frames. What comes out is valid until the next is asked for."""
        one = _Stream(self, iter(frames), frozenset(self.resting))
        try:
            yield from one.go()
        finally:
            one.drain()

    def ran(self) -> Ran:
        """Of all parts together that work."""
        working = [part for who, part in enumerate(self.parts) if who not in self.resting]
        rests = []
        for why in dict.fromkeys(self.resting.values()):
            first, *others = (who for who, each in self.resting.items() if each == why)
            more = f" (and {len(others)} more)" if others else ""
            rests.append(f"{self.parts[first].target}{more} rests: {why}")
        return Ran(
            tuple(dict.fromkeys(device for part in working for device in part.ran.devices)),
            tuple(dict.fromkeys(pair for part in working for pair in part.ran.precisions)),
            (*(f"{part.target}: {note}" for part in working for note in part.ran.notes), *rests),
        )

    def close(self) -> None:
        for part in self.parts:
            part.close()
        self.parts.clear()
        for slots in (getattr(self, "inputs", None), getattr(self, "outputs", None)):
            if slots is not None:
                slots.close()
        for fd in self._fds:
            with suppress(OSError):
                os.close(fd)
        self._fds.clear()


class _Stream:
    """One stream, from its first frame to its last."""

    def __init__(self, deal: Deal, frames: Iterator[Feeds], resting: frozenset[int]) -> None:
        self._deal, self._frames, self._resting = deal, frames, resting
        self._dealer = Dealer(deal.hands(), len(deal.inputs))
        for who, alive in enumerate(deal._alive):
            if not alive or who in resting:
                self._dealer.lose(who)
        self._who: dict[int, int] = {}
        self._line = Line()

    @property
    def finished(self) -> int:
        """Frames, delivered or not."""
        return sum(hand.finished for hand in self._dealer.hands)

    @property
    def settled(self) -> bool:
        """Everybody who works has finished something."""
        return all(hand.finished for hand in self._dealer.hands if hand.alive)

    def go(self) -> Generator[Delivered]:
        dealer, deal = self._dealer, self._deal
        while True:
            self._read()
            self._give()
            if dealer.complete:
                return
            busy = {deal.parts[who].answers_fd: who for who, hand in enumerate(dealer.hands) if hand.held}
            if not busy:
                raise self._nobody()
            ready, _, _ = select.select(busy, [], [], deal._timeout_s)
            if not ready:
                self._late(busy.values())
            for fd in ready:
                yield from self._answers(busy[fd])

    def drain(self) -> None:
        """Whoever asked may have seen enough: what is under way is finished, so that nobody answers the next stream
        with it."""
        for who, hand in enumerate(self._dealer.hands):
            while hand.held:
                part = self._deal.parts[who]
                if not select.select([part.answers_fd], [], [], self._deal._timeout_s)[0]:
                    self._late([who])
                    break
                try:
                    for _ in part.answers():
                        hand.held.popleft()
                except EdgewiseError as error:
                    self._lose(who, error)

    def _read(self) -> None:
        """As many frames as there is room for."""
        slots, dealer = self._deal.inputs, self._dealer
        for _ in range(dealer.room):
            frame = next(self._frames, None)
            if frame is None:
                dealer.end()
                return
            fill(slots[dealer.read % len(slots)], frame)
            dealer.add()

    def _give(self) -> None:
        """What the dealer gives goes to the workers; one that cannot be reached is lost."""
        dealer, deal = self._dealer, self._deal
        for who, chunk in dealer.give(time.perf_counter_ns()):
            for number in chunk:
                self._who[number] = who
            try:
                deal.parts[who].give([number % len(deal.inputs) for number in chunk])
            except EngineFailure as error:
                self._lose(who, error)

    def _answers(self, who: int) -> Iterator[Delivered]:
        deal, dealer = self._deal, self._dealer
        try:
            answers = deal.parts[who].answers()
        except EdgewiseError as error:
            self._lose(who, error)
            return
        # All of them before the first is handed out: who asked may not come back, and what has been read stays read.
        ready = []
        for began, ended in answers:
            self._line.worked(dealer.hands[who].held[0], began, ended)
            ready += dealer.finish(who, ended)
        for number in ready:
            delay = self._line.delay_ns(number, time.perf_counter_ns())
            yield Delivered(number, self._who.pop(number), delay, deal.outputs[number % len(deal.outputs)])

    def _lose(self, who: int, error: EdgewiseError) -> None:
        """What it held goes to the others; it is not asked again."""
        self._deal.lost.append(error)
        self._deal._alive[who] = False
        for chunk in self._dealer.hands[who].held:
            for number in chunk:
                self._who.pop(number, None)
        self._dealer.lose(who)
        self._deal.parts[who].kill()
        # With one less it is another question, and whoever rests may be needed.
        self._deal.resting.clear()
        for other in self._resting:
            self._dealer.hands[other].alive = self._deal._alive[other]

    def _late(self, those: Iterable[int]) -> None:
        for who in list(those):
            self._lose(who, EngineFailure(f"{self._deal.parts[who].target} did not come back in time"))

    def _nobody(self) -> EdgewiseError:
        lost = self._deal.lost
        return lost[-1] if lost else EngineFailure("nobody is left to work on the stream")


def _shown(part: Worker) -> str:
    return ", ".join(f"{form.name} {form.dtype} {'x'.join(map(str, form.shape))}" for form in part.outputs)
