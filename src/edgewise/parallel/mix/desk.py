"""What a scheduler knows: the jobs that wait, what each device holds, and what each network takes where.

It has no clock and no processes, so that a simulation and a real run are decided by the same code.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ...core.mix import Job

# Of a new observation in what a run is expected to take (Band's estimator has the same).
SMOOTHING = 0.1
# By how much a dropped job brings what is hoped for nearer to the quickest that was seen.
_FORGETTING = 0.05

# A job and where it goes; to no device where it is dropped.
Decision = tuple[Job, int | None]
Rule = Callable[["Desk", int], list[Decision]]


@dataclass(slots=True)
class Device:
    """`held` are its jobs in order: it works on the first since `since_ns`."""

    held: deque[Job] = field(default_factory=deque)
    since_ns: int = 0
    alive: bool = True


class Desk:
    """`expected[network][device]` is what a run is expected to take, in nanoseconds; None where it cannot be served."""

    def __init__(self, expected: Sequence[Sequence[float | None]], deadlines_ns: Sequence[int]) -> None:
        self.expected = [list(row) for row in expected]
        # The quickest that was ever seen: what a run takes when nothing is in its way.
        self._least = [list(row) for row in expected]
        self._hoped = [list(row) for row in expected]
        self.deadlines_ns = list(deadlines_ns)
        self.devices = [Device() for _ in self.expected[0]]
        self.waiting: list[Job] = []
        self.gap_ns: list[float | None] = [None] * len(self.expected)
        self.last_ns: list[int | None] = [None] * len(self.expected)

    def arrive(self, job: Job) -> None:
        last, gap = self.last_ns[job.network], self.gap_ns[job.network]
        if last is not None:
            seen = float(job.arrival_ns - last)
            self.gap_ns[job.network] = seen if gap is None else gap + SMOOTHING * (seen - gap)
        self.last_ns[job.network] = job.arrival_ns
        self.waiting.append(job)

    def able(self, network: int) -> list[int]:
        """The devices that serve a network."""
        return [
            place
            for place, (device, ns) in enumerate(zip(self.devices, self.expected[network], strict=True))
            if device.alive and ns is not None
        ]

    def takes(self, network: int, device: int) -> float:
        expected = self.expected[network][device]
        assert expected is not None
        return expected

    def least(self, network: int, device: int) -> float:
        """The quickest that was ever seen."""
        least = self._least[network][device]
        assert least is not None
        return least

    def hoped(self, network: int, device: int) -> float:
        """What is expected, and less with every job that is dropped: what is never served is never seen to be quick
        again, and one slow run could shut a network out for good."""
        hoped = self._hoped[network][device]
        assert hoped is not None
        return hoped

    def idle(self) -> list[int]:
        return [place for place, device in enumerate(self.devices) if device.alive and not device.held]

    def free_ns(self, device: int, now_ns: int) -> float:
        """When it will be done with all it holds; one that is late is expected to be done at any moment."""
        own = self.devices[device]
        if not own.held:
            return now_ns
        first, *rest = own.held
        begun = max(own.since_ns + self.takes(first.network, device), now_ns)
        return begun + sum(self.takes(job.network, device) for job in rest)

    def give(self, job: Job, device: int, now_ns: int) -> None:
        self.waiting.remove(job)
        own = self.devices[device]
        if not own.held:
            own.since_ns = now_ns
        own.held.append(job)

    def drop(self, job: Job) -> None:
        self.waiting.remove(job)
        for device in self.able(job.network):
            hoped = self.hoped(job.network, device)
            self._hoped[job.network][device] = hoped + _FORGETTING * (self.least(job.network, device) - hoped)

    def finish(self, device: int, now_ns: int, took_ns: int) -> Job:
        own = self.devices[device]
        job = own.held.popleft()
        own.since_ns = now_ns
        expected = self.takes(job.network, device)
        self.expected[job.network][device] = expected + SMOOTHING * (took_ns - expected)
        self._hoped[job.network][device] = self.expected[job.network][device]
        self._least[job.network][device] = min(self.least(job.network, device), took_ns)
        return job

    def lose(self, device: int) -> None:
        """A device is gone: what it held waits for another, in its place."""
        own = self.devices[device]
        own.alive = False
        for job in own.held:
            insort(self.waiting, job, key=lambda each: each.number)
        own.held.clear()

    def clear(self) -> list[Job]:
        """The block is over: what still waits or was not begun, and a desk without a job."""
        left = self.waiting
        for device in self.devices:
            left += device.held
            device.held.clear()
        self.waiting = []
        self.last_ns = [None] * len(self.last_ns)
        return left
