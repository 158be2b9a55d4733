"""One cell from beginning to end, seen from the parent: open a worker, warm up, round after round until enough."""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Self

from ..core.chooser import Ready
from ..core.energy import Energy
from ..core.errors import EdgewiseError, EngineFailure
from ..core.records import from_json, to_json
from ..core.stats import Stopping, steady
from ..core.types import Failure, Measurement, Model, Result, Round, Start, Task
from .contend import competing
from .energy import Metered, least_s, metering
from .isolate import Worker
from .pictures import Pictures
from .serving import Generator, poisson, read_answers

# Long enough to be cheap to ask for, short enough to lose little and to interleave finely.
ROUND_NS = 100_000_000
# Warm-up may take this share of the time allowed in all; beyond it, the series is what it is, and says so.
WARMUP_SHARE = 0.3
_WARMUP_RUNS = 10
_MANY = 1 << 40
# Time an engine under overload gets to answer what was already asked.
_DRAIN_S = 20.0
# How long the load generator's thread may have to wait for this process's other one.
_SWITCH_S = 1e-4

Part = Start | Round | Energy
Save = Callable[[Part], None]
SaveRound = Callable[[Round], None]


@dataclass(frozen=True, slots=True)
class Cell:
    """A task ready to run: the prepared model (sizes fixed), the cores to sit on, the reference to agree with.

    `parts`, where several targets share the work: the model as each of them loads it, and the cores it sits on. `kept`
    is a file for what they find out about sharing it. `plan`, where one of several models is chosen for each image: it
    is run on `pictures`.
    """

    task: Task
    model: Model
    machine: str
    versions: tuple[tuple[str, str], ...]
    inputs: str
    label: str
    cores: tuple[int, ...] = ()
    reference: str | None = None
    memory_bytes: int | None = None
    timeout_s: float = 120.0
    parts: tuple[tuple[Model, tuple[int, ...]], ...] = ()
    kept: str | None = None
    plan: Ready | None = None
    pictures: Pictures | None = None


@dataclass
class Session:
    """A worker with the cell's executable open in it. Rounds can be taken one at a time, in any order with others'."""

    cell: Cell
    index: int = 0
    exclude: list[int] = field(default_factory=list)
    began: bool = False

    def __enter__(self) -> Self:
        self.worker = Worker(memory_bytes=self.cell.memory_bytes, timeout_s=self.cell.timeout_s)
        self.worker.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.worker.__exit__(kind, error, trace)

    def begin(self) -> None:
        """Let the worker load, without waiting for it."""
        self.began = True
        self.worker.start(
            "open",
            model=to_json(self.cell.model),
            placement=str(self.cell.task.placement),
            scenario=str(self.cell.task.scenario),
            cores=list(self.cell.cores),
            reference=self.cell.reference,
            parts=to_json(self.cell.parts),
            kept=self.cell.kept,
            plan=to_json(self.cell.plan),
            pictures=to_json(self.cell.pictures),
        )

    def open(self) -> Start:
        """Load, or wait for what `begin` began, and say what it came to."""
        if not self.began:
            self.begin()
        return from_json(Start, self.worker.result("open"))

    def round(
        self, *, warmup: bool = False, duration_ns: int = ROUND_NS, max_runs: int = _MANY, settle_ns: int = 0
    ) -> Round:
        """`settle_ns`: how long it runs before it is timed, at least once."""
        answer = self.worker.call(
            "round",
            start=self.index,
            warmup=warmup,
            duration_ns=duration_ns,
            max_runs=max_runs,
            exclude=self.exclude,
            settle_ns=settle_ns,
            timeout_s=self.cell.timeout_s + (duration_ns + settle_ns) / 1e9,
        )
        return from_json(Round, answer)

    def warm_up(self, save: SaveRound) -> None:
        """Until the series is steady, or as many runs as the scenario says."""
        scenario = self.cell.task.scenario
        if scenario.warmup is not None:
            left = scenario.warmup
            while left > 0:
                round = self.round(warmup=True, max_runs=left)
                save(round)
                left -= len(round.samples_ns)
            return
        samples: list[int] = []
        deadline = time.monotonic() + scenario.max_s * WARMUP_SHARE
        while True:
            # Few runs at a time while they are slow and changing; a round's worth once they are quick.
            round = self.round(warmup=True, max_runs=max(_WARMUP_RUNS, len(samples)))
            save(round)
            samples += round.samples_ns
            if steady(samples) is not None or time.monotonic() > deadline:
                return


def run_cell(cell: Cell, save: Save, before: Measurement | None = None, *, meters: Sequence[Metered] = ()) -> Result:
    """Measure a cell. `save` sees each part the moment it is there; `before` is what an interrupted run had saved.

    Each of `meters` has a window over the measured rounds, and the measurement lasts as long as the meter needs where
    the scenario allows.
    """
    starts = list(before.starts) if before else []
    rounds = list(before.rounds) if before else []
    energies = list(before.energies) if before else []

    def keep(part: Part) -> None:
        save(part)
        if isinstance(part, Start):
            starts.append(part)
        elif isinstance(part, Round):
            rounds.append(part)
        else:
            energies.append(part)

    def runs() -> int:
        return sum(len(r.samples_ns) for r in rounds if r.start == session.index and not r.warmup)

    stage = "load"
    session = Session(cell, index=len(starts))
    try:
        with session:
            keep(session.open())
            stage = "run"
            with competing(cell.task.scenario.contention) as competitors:
                session.exclude = competitors
                session.warm_up(keep)
                least = least_s(meters, _left_s(cell, rounds))
                with metering(meters, session.index, runs, keep):
                    if cell.task.scenario.kind == "server":
                        _serve(session, rounds, keep, least)
                    else:
                        _closed_loop(session, rounds, keep, least)
    except EdgewiseError as error:
        return Failure.of(error, cell.task, cell.machine, stage, cell.label)
    about = (cell.task, cell.machine, cell.versions, cell.inputs)
    return Measurement(*about, tuple(starts), tuple(rounds), True, cell.label, tuple(energies))


def _left_s(cell: Cell, rounds: Sequence[Round]) -> float:
    """What the scenario's longest time leaves for this start; a server's clock starts anew with each."""
    scenario = cell.task.scenario
    before_ns = 0 if scenario.kind == "server" else sum(r.elapsed_ns for r in rounds if not r.warmup)
    return scenario.max_s - before_ns / 1e9


class _Looks:
    """The stopping rule, asked at planned sample counts only: looking at every round would cost time and certainty."""

    def __init__(self, cell: Cell, least_s: float) -> None:
        s = cell.task.scenario
        min_s = min(max(s.min_s, least_s), s.max_s)
        self._rule = Stopping(width=s.width, min_runs=s.min_runs, max_runs=s.max_runs, min_s=min_s, max_s=s.max_s)
        self._planned = self._rule.next_look(0)
        self._looks = 0

    def enough(self, samples: Sequence[int], elapsed_s: float) -> bool:
        if len(samples) < self._planned and elapsed_s < self._rule.max_s:
            return False
        self._looks += 1
        self._planned = self._rule.next_look(len(samples))
        return self._rule.decide(samples, elapsed_s, self._looks).stop


def _closed_loop(session: Session, rounds: list[Round], keep: SaveRound, least_s: float) -> None:
    scenario = session.cell.task.scenario
    samples = [sample for r in rounds if not r.warmup for sample in r.samples_ns]
    elapsed_ns = sum(r.elapsed_ns for r in rounds if not r.warmup)
    # A meter sees nothing of what an interrupted run had already done.
    looks = _Looks(session.cell, elapsed_ns / 1e9 + least_s)
    while not samples or not looks.enough(samples, elapsed_ns / 1e9):
        left = scenario.max_runs - len(samples) if scenario.max_runs is not None else _MANY
        round = session.round(max_runs=left)
        keep(round)
        samples += round.samples_ns
        elapsed_ns += round.elapsed_ns


def _serve(session: Session, rounds: list[Round], keep: SaveRound, least_s: float) -> None:
    """An uninterrupted stream of requests; its answers are cut into rounds by the second they come back in."""
    scenario, looks = session.cell.task.scenario, _Looks(session.cell, least_s)
    assert scenario.rate_hz is not None
    worker = session.worker
    seed = scenario.seed + session.index
    generator = Generator(poisson(scenario.rate_hz, seed), worker.requests_fd, scenario.n)
    samples: list[int] = [sample for r in rounds if not r.warmup for sample in r.samples_ns]
    answered, serving = 0, True

    def wait(seconds: float) -> bool:
        return bool(select.select([worker.answers_fd], [], [], seconds)[0])

    def take(until_ns: int) -> None:
        nonlocal answered, serving
        started, begin = time.time_ns(), time.perf_counter_ns()
        answers, serving = read_answers(worker.answers_fd, wait, until_ns)
        answered += len(answers)
        if not answers:
            return
        latencies = tuple(end - generator.intended[number] for number, _, end in answers)
        late = max(generator.late[number] for number, _, _ in answers)
        samples.extend(latencies)
        elapsed = time.perf_counter_ns() - begin
        keep(Round(session.index, False, started, elapsed, latencies, late_ns=late))

    # The generator is a thread of this process: what it takes was ordered, and it must not wait for the other one.
    worker.start("serve", exclude=[*session.exclude, os.getpid()])
    switching = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_S)
    generator.start()
    begin = time.perf_counter_ns()
    try:
        while serving:
            take(time.perf_counter_ns() + 10 * ROUND_NS)
            elapsed_s = (time.perf_counter_ns() - begin) / 1e9
            if looks.enough(samples, elapsed_s):
                break
            if not answered and elapsed_s > session.cell.timeout_s:
                raise EngineFailure(f"no request was answered within {session.cell.timeout_s:g} s")
    finally:
        generator.stop()
        sys.setswitchinterval(switching)
    deadline = time.perf_counter_ns() + int(_DRAIN_S * 1e9)
    while serving and answered < len(generator.intended) and time.perf_counter_ns() < deadline:
        generator.end()
        take(min(deadline, time.perf_counter_ns() + ROUND_NS // 10))
    if serving and answered < len(generator.intended):
        waiting = len(generator.intended) - answered
        raise EngineFailure(
            f"overloaded: {waiting} of {len(generator.intended)} requests at {scenario.rate_hz:g} Hz still waited "
            f"{_DRAIN_S:g} s after the last one was sent",
            "lower rate_hz below what --scenario offline reaches",
        )
    generator.end()
    whole = from_json(Round, worker.result("serve"))
    if not samples:
        raise EngineFailure(
            f"no request arrived within {scenario.max_s:g} s at {scenario.rate_hz:g} Hz",
            "allow more time: --scenario 'server(rate_hz=..., max_s=60)'",
        )
    # What the meters saw covers the whole stream; it is kept as one empty round that carries it.
    keep(replace(whole, start=session.index, samples_ns=()))
