"""A dealt stream on a clock that is made up: the same rule as `deal.stream`, with workers that only take time.

A worker has a pace. What it would do alone is a given mean with a given spread; what it does beside others is what
`contention` leaves of that, and it changes the moment somebody begins or stops. Nothing here waits: the clock goes from
one event to the next, and with the same seed always in the same way.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...core.errors import InputError
from ..deal.dealer import MOST_SLOTS, Dealer, Line, burst_ns, enough, hands_for

# What a minute or two suffices for.
_MOST_FRAMES = 1_000_000
# Given the frames per second each would do now if it were alone (0: it does nothing), the part of it that remains.
Contention = Callable[[Sequence[float]], Sequence[float]]


def free(rates: Sequence[float]) -> list[float]:
    """Nobody is in anybody's way."""
    return [1.0] * len(rates)


@dataclass(frozen=True, slots=True)
class Worker:
    """`frame_ns` is the mean alone. From `slower_ns` on everything takes `slower` times as long; at `dies_ns` it is
    gone, with what it held."""

    name: str
    frame_ns: float
    slower: float = 1.0
    slower_ns: int | None = None
    dies_ns: int | None = None

    def __post_init__(self) -> None:
        for what, value in (("frame_ns", self.frame_ns), ("slower", self.slower)):
            if not (math.isfinite(value) and value > 0):
                raise InputError(f"{what} of {self.name} is {value}, expected a number above 0")

    def slowed(self, now_ns: int) -> float:
        return self.slower if self.slower_ns is not None and now_ns >= self.slower_ns else 1.0


@dataclass(frozen=True, slots=True)
class Worked:
    """What one worker did. `busy_ns` is the time it had a frame to work on, whatever its pace."""

    name: str
    frames: int
    busy_ns: int
    alive: bool


@dataclass(frozen=True, slots=True)
class Streamed:
    """`delays_ns` are those of the frames in order, as `deal.stream` has them. `bound_ns` is the least the stream could
    have taken, were everybody always at the pace that contention leaves when all work, without spread."""

    frames: int
    elapsed_ns: int
    bound_ns: float
    window: int
    workers: tuple[Worked, ...]
    delays_ns: tuple[int, ...]

    @property
    def per_s(self) -> float:
        return self.frames * 1e9 / self.elapsed_ns

    @property
    def settled(self) -> bool:
        """Long enough for its beginning and its end to matter little."""
        return self.frames > 4 * self.window

    def share(self, who: int) -> float:
        return self.workers[who].frames / self.frames

    def busy(self, who: int) -> float:
        return self.workers[who].busy_ns / self.elapsed_ns

    def delay_ns(self, quantile: float) -> int:
        """Of the frames after the first two windows, where there are as many: by then it is known who is how quick."""
        begun = 2 * self.window if self.settled else 0
        ordered = sorted(self.delays_ns[begun:])
        return ordered[min(len(ordered) - 1, math.ceil(quantile * len(ordered)) - 1)]


def simulate(
    workers: Sequence[Worker],
    frames: int,
    *,
    jitter: float = 0.0,
    seed: int = 0,
    contention: Contention = free,
) -> Streamed:
    """`frames` frames, there from the beginning. `jitter` is the standard deviation of what a frame takes, over its
    mean."""
    if not workers:
        raise InputError("a stream needs somebody to work on it, found no worker")
    if not 1 <= frames <= _MOST_FRAMES:
        raise InputError(f"a stream to simulate has from 1 to {_MOST_FRAMES:,} frames, found {frames:,}")
    if not (math.isfinite(jitter) and 0 <= jitter <= 2):
        raise InputError(f"jitter is a standard deviation over a mean, from 0 to 2, found {jitter}")
    return _Run(workers, frames, jitter, random.Random(seed), contention).go()


@dataclass(slots=True)
class _Job:
    """The chunk a worker is at: what is left of it, in nanoseconds alone."""

    left_ns: float
    began_ns: int


class _Run:
    def __init__(
        self, workers: Sequence[Worker], frames: int, jitter: float, chance: random.Random, contention: Contention
    ) -> None:
        self._workers, self._frames, self._chance, self._contention = workers, frames, chance, contention
        # Logarithms of times are drawn from a normal distribution: no time is negative, and the mean stays.
        self._spread = math.sqrt(math.log1p(jitter * jitter))
        hands = hands_for([worker.frame_ns for worker in workers])
        self._dealer = Dealer(hands, min(MOST_SLOTS, enough(hands)))
        self._jobs: list[_Job | None] = [None] * len(workers)
        self._busy_ns = [0] * len(workers)
        self._now_ns = 0
        self._line = Line()
        self._delays_ns: list[int] = []

    def go(self) -> Streamed:
        dealer = self._dealer
        while True:
            self._die()
            self._read()
            for _ in dealer.give(self._now_ns):
                pass
            if dealer.complete:
                return self._result()
            for who in range(len(self._workers)):
                self._begin(who)
            if not any(self._jobs):
                raise InputError(
                    f"nobody is left after {len(self._delays_ns)} of {self._frames} frames: every worker has died"
                )
            self._pass()
            for who, job in enumerate(self._jobs):
                if job is not None and job.left_ns <= 0:
                    self._finish(who, job)

    def _read(self) -> None:
        """As `deal.stream` reads: the end is known only when a frame is asked for that is not there."""
        dealer = self._dealer
        if room := dealer.room:
            count = min(room, self._frames - dealer.read)
            dealer.add(count)
            if count < room:
                dealer.end()

    def _begin(self, who: int) -> None:
        held = self._dealer.hands[who].held
        if held and self._jobs[who] is None:
            drawn = sum(self._drawn() for _ in held[0])
            self._jobs[who] = _Job(drawn * self._workers[who].frame_ns, self._now_ns)

    def _drawn(self) -> float:
        if not self._spread:
            return 1.0
        return math.exp(self._chance.gauss(-self._spread * self._spread / 2, self._spread))

    def _pass(self) -> None:
        """On to the next moment at which a chunk is done or somebody's pace changes by itself."""
        slowed = [worker.slowed(self._now_ns) for worker in self._workers]
        rates = [
            1e9 / (worker.frame_ns * slow) if job else 0.0
            for worker, slow, job in zip(self._workers, slowed, self._jobs, strict=True)
        ]
        paces = [left / slow for left, slow in zip(self._contention(rates), slowed, strict=True)]
        steps = [math.ceil(job.left_ns / pace) for job, pace in zip(self._jobs, paces, strict=True) if job]
        for worker in self._workers:
            for moment in (worker.slower_ns, worker.dies_ns):
                if moment is not None and moment > self._now_ns:
                    steps.append(moment - self._now_ns)
        step = max(1, min(steps))
        self._now_ns += step
        for who, (job, pace) in enumerate(zip(self._jobs, paces, strict=True)):
            if job:
                job.left_ns -= step * pace
                self._busy_ns[who] += step

    def _finish(self, who: int, job: _Job) -> None:
        self._jobs[who] = None
        dealer = self._dealer
        self._line.worked(dealer.hands[who].held[0], job.began_ns, self._now_ns)
        for number in dealer.finish(who, self._now_ns):
            self._delays_ns.append(self._line.delay_ns(number, self._now_ns))

    def _die(self) -> None:
        for who, worker in enumerate(self._workers):
            if worker.dies_ns is not None and self._now_ns >= worker.dies_ns and self._dealer.hands[who].alive:
                self._dealer.lose(who)
                self._jobs[who] = None

    def _result(self) -> Streamed:
        rates = [1e9 / worker.frame_ns for worker in self._workers]
        paces = self._contention(rates)
        hands = [(0.0, worker.frame_ns / pace) for worker, pace in zip(self._workers, paces, strict=True)]
        did = (
            Worked(worker.name, hand.finished, busy, hand.alive)
            for worker, hand, busy in zip(self._workers, self._dealer.hands, self._busy_ns, strict=True)
        )
        return Streamed(
            self._frames,
            self._now_ns,
            burst_ns(self._frames, hands),
            self._dealer.window,
            tuple(did),
            tuple(self._delays_ns),
        )
