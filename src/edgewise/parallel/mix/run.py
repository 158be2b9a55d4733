"""A mix on real processes: one for each target, with every network it can hold; decided by the simulated rules."""

from __future__ import annotations

import os
import select
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Self

from ...core.errors import EdgewiseError, EngineFailure
from ...core.mix import Block, Job, Served
from ...core.protocols import Array
from ..memory import Form, Slots, create, fill
from .desk import Desk, Rule
from .part import made_up
from .process import MixProcess, Place, Stuck
from .simulate import horizon_ns

_TIMEOUT_S = 120.0
# Before the first arrival of a block: what is being set up must not make it late.
_LEAD_NS = 2_000_000
_UNLIKE = "it takes or gives other arrays than the first target that serves it"


class Crew:
    """`reasons` has, by network and device, why it is not served there; `lost` why each process that is gone is."""

    def __init__(
        self,
        places: Sequence[Place],
        *,
        timeout_s: float = _TIMEOUT_S,
        memory_bytes: int | None = None,
        seed: int = 0,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.places, self._timeout_s, self._memory_bytes, self._seed = list(places), timeout_s, memory_bytes, seed
        self.processes: list[MixProcess] = []
        self.alive: list[bool] = []
        self.lost: list[EdgewiseError] = []
        self.reasons: dict[tuple[int, int], str] = {}
        self._count = len(places[0].networks)
        self._inputs_fds = [create() for _ in range(self._count)]
        self._outputs_fds = [[create() for _ in range(self._count)] for _ in places]
        self._slots: list[Slots] = []
        self._outputs: dict[tuple[int, int], Slots] = {}
        try:
            self._open(say)
        except BaseException:
            self.close()
            raise

    def _open(self, say: Callable[[str], None]) -> None:
        inputs: dict[int, list[Form]] = {}
        for device, place in enumerate(self.places):
            say(f"loading on {place.target}")
            for network, each in enumerate(place.networks):
                if isinstance(each, str):
                    self.reasons[network, device] = each
            forms = self._start(device, place)
            for network, (taken, given) in list(forms.items()):
                if network not in inputs:
                    inputs[network] = taken
                    self._fill(network, taken, place)
                elif inputs[network] != taken:
                    self.reasons[network, device] = _UNLIKE
                    del forms[network]
                    continue
                slots = Slots(self._outputs_fds[device][network], given, 1, grow=True)
                self._slots.append(slots)
                self._outputs[network, device] = slots
            self.processes[device].attach(list(forms), self._timeout_s)
            self.alive.append(True)

    def _start(self, device: int, place: Place) -> dict[int, tuple[list[Form], list[Form]]]:
        """A process that dies of a network is begun again without it."""
        without: list[int] = []
        handed = (*self._inputs_fds, *self._outputs_fds[device])
        while True:
            process = MixProcess(place, without, handed, self._seed, self._memory_bytes)
            try:
                forms, reasons = process.opened(self._timeout_s)
            except Stuck as stuck:
                process.kill()
                process.close()
                without.append(stuck.network)
                self.reasons[stuck.network, device] = stuck.error.message
                continue
            except BaseException:
                process.kill()
                process.close()
                raise
            self.processes.append(process)
            self.reasons |= {(network, device): reason for network, reason in reasons.items()}
            return forms

    def _fill(self, network: int, forms: list[Form], place: Place) -> None:
        slots = Slots(self._inputs_fds[network], forms, 1, grow=True)
        self._slots.append(slots)
        held = place.networks[network]
        assert not isinstance(held, str)
        fill(slots[0], made_up(held[0], self._seed))

    def serves(self, network: int, device: int) -> bool:
        return self.alive[device] and (network, device) in self._outputs

    def outputs(self, network: int, device: int) -> dict[str, Array]:
        """What the last run of a network on a device gave."""
        return self._outputs[network, device][0]

    def measure(self, network: int, device: int, seconds: float, least: int = 5) -> tuple[int, ...]:
        """What runs of a network take there while nothing else runs, from when it is asked until the answer is here."""
        samples: list[int] = []
        process, until = self.processes[device], time.perf_counter() + seconds
        while len(samples) < least or time.perf_counter() < until:
            begin = time.perf_counter_ns()
            try:
                process.give(network)
                while True:
                    if not select.select([process.answers_fd], [], [], self._timeout_s)[0]:
                        raise EngineFailure(f"{process.what} did not come back in time")
                    if process.answer() is not None:
                        break
            except EdgewiseError as error:
                self._lose(device, error)
                return ()
            samples.append(time.perf_counter_ns() - begin)
        return tuple(samples)

    def play(self, desk: Desk, rule: Rule, jobs: Sequence[Job], *, name: str = "", number: int = 0) -> Block:
        """One block of arrivals, to its end: when it returns no process works on anything."""
        return _Block(self, desk, rule, jobs).go(name, number)

    def _lose(self, device: int, error: EdgewiseError) -> None:
        self.lost.append(error)
        self.alive[device] = False
        self.processes[device].kill()

    def close(self) -> None:
        for process in self.processes:
            process.close()
        self.processes.clear()
        self._outputs.clear()
        for slots in self._slots:
            slots.close()
        self._slots.clear()
        for fd in (*self._inputs_fds, *(fd for fds in self._outputs_fds for fd in fds)):
            with suppress(OSError):
                os.close(fd)
        self._inputs_fds, self._outputs_fds = [], []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            # Nobody waits for what is under way.
            for process in self.processes:
                process.process.kill()
        self.close()


class _Block:
    def __init__(self, crew: Crew, desk: Desk, rule: Rule, jobs: Sequence[Job]) -> None:
        self._crew, self._desk, self._rule = crew, desk, rule
        self._coming, self._over_ns = deque(jobs), horizon_ns(jobs)
        # By device: when its job was sent, and the job.
        self._running: dict[int, tuple[int, Job]] = {}
        self._busy_ns = [0] * len(desk.devices)
        self._served: list[Served] = []
        for device, alive in enumerate(crew.alive):
            if not alive:
                desk.lose(device)

    def go(self, name: str, number: int) -> Block:
        begin_ns = time.perf_counter_ns() + _LEAD_NS

        def now() -> int:
            return time.perf_counter_ns() - begin_ns

        while True:
            self._arrivals(now())
            if now() <= self._over_ns:
                self._decide(now)
            if not self._running and (not self._coming or now() > self._over_ns):
                break
            self._wait(now)
        left = [Served(job) for job in (*self._desk.clear(), *self._coming)]
        served = sorted((*self._served, *left), key=lambda each: each.job.number)
        return Block(number, name, tuple(served), tuple(self._busy_ns), now())

    def _arrivals(self, now_ns: int) -> None:
        while self._coming and self._coming[0].arrival_ns <= now_ns:
            self._desk.arrive(self._coming.popleft())

    def _decide(self, now: Callable[[], int]) -> None:
        for job, device in self._rule(self._desk, now()):
            if device is None:
                self._desk.drop(job)
                self._served.append(Served(job, dropped=True))
            else:
                self._desk.give(job, device, now())
        for device, own in enumerate(self._desk.devices):
            if own.held and device not in self._running:
                own.since_ns = now()
                self._running[device] = (own.since_ns, own.held[0])
                try:
                    self._crew.processes[device].give(own.held[0].network)
                except EdgewiseError as error:
                    self._lose(device, error)

    def _wait(self, now: Callable[[], int]) -> None:
        """For the next arrival or answer, and no longer than a run may take."""
        crew = self._crew
        moments = [sent + round(crew._timeout_s * 1e9) for sent, _ in self._running.values()]
        moments += [self._coming[0].arrival_ns] if self._coming else []
        fds = {crew.processes[device].answers_fd: device for device in self._running}
        ready, _, _ = select.select(fds, [], [], max(0, min(moments) - now()) / 1e9)
        for fd in ready:
            self._answer(fds[fd], now)
        for device, (sent, _) in list(self._running.items()):
            if now() - sent > crew._timeout_s * 1e9:
                self._lose(device, EngineFailure(f"{crew.processes[device].what} did not come back in time"))

    def _answer(self, device: int, now: Callable[[], int]) -> None:
        try:
            if self._crew.processes[device].answer() is None:
                return
        except EdgewiseError as error:
            self._lose(device, error)
            return
        sent, job = self._running.pop(device)
        done = now()
        self._desk.finish(device, done, done - sent)
        self._busy_ns[device] += done - sent
        self._served.append(Served(job, device, sent, done))

    def _lose(self, device: int, error: EdgewiseError) -> None:
        """What it held waits for another; its process is not asked again."""
        self._running.pop(device, None)
        self._desk.lose(device)
        self._crew._lose(device, error)
