"""What one image costs each candidate: all of them alive at once, taking turns, each on the same real images.

As in `compare`, over several sets of fresh processes, with only the one whose turn it is running at all: the speed of a
shared machine changes between one minute and the next, and a difference in cost must not be made of that.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

from ..core.energy import Energy, by_meter, whole
from ..core.errors import EdgewiseError
from ..core.records import from_json, to_json
from ..core.types import Failure, Round, Start
from ..measure.accuracy import Exam
from ..measure.cell import Session
from ..measure.energy import Metered, least_s, metering
from ..measure.pictures import Pictures
from ..measure.pricing import Priced
from ..store.db import Store
from .compare import SETTLE_NS, shared_cores
from .contenders import Contender

STARTS = 3
TURNS = 20
TURN_NS = 10_000_000
WARMUP_NS = 300_000_000
# Turns of slow candidates are long: they end after this, unless there would be too few.
LONGEST_START_S = 60.0
FEWEST_TURNS = 3
# Images whose preparing and running is timed: enough of their sizes, few enough to hold.
IMAGES = 256
# The longest an energy meter is waited for.
_METERING_S = 10.0

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Price:
    """Of one image, on average over turns (the median of their means). Memory is what loading and running it added to
    a process with its engine; energy is of preparing and running, None without a meter."""

    run_ns: float
    prepare_ns: float
    memory_bytes: int | None
    energy_uj: float | None


@dataclass
class Side:
    """A candidate in its own process: what it has so far, and how it failed if it did."""

    contender: Contender
    store: Store | None = None
    turns: list[Priced] = field(default_factory=list)
    starts: list[Start] = field(default_factory=list)
    energies: list[Energy] = field(default_factory=list)
    failure: Failure | None = None
    session: Session | None = None

    def __post_init__(self) -> None:
        cell = self.contender.cell
        if self.store is not None:
            about = (cell.task, cell.machine, cell.versions, cell.inputs, cell.label, "select")
            self._id = self.store.begin(*about)

    def enter(self, stack: ExitStack, cores: tuple[int, ...]) -> None:
        cell = replace(self.contender.cell, cores=self.contender.cell.cores or cores)
        self.session = stack.enter_context(Session(cell, len(self.starts))) if self.failure is None else None

    def begin(self) -> None:
        self._attempt("load", lambda session: session.begin())

    def open(self, pictures: Pictures) -> None:
        def opened(session: Session) -> None:
            self._keep(session.open())
            session.worker.call(
                "begin_pricing",
                model=to_json(session.cell.model),
                preprocess=self.contender.exam.preprocess,
                pictures=to_json(pictures),
            )

        self._attempt("load", opened)

    def warm_up(self, warmup_ns: int = WARMUP_NS) -> None:
        self._attempt("run", lambda session: self._price(session, warmup_ns, 0))
        self._attempt("run", lambda session: session.worker.pause())

    def turn(self, turn_ns: int = TURN_NS) -> None:
        def taken(session: Session) -> None:
            priced = self._price(session, turn_ns, SETTLE_NS)
            self.turns.append(priced)
            about = (session.index, False, priced.started_ns, priced.elapsed_ns, priced.run_ns)
            self._keep(Round(*about))

        self._attempt("run", lambda session: session.worker.go_on())
        self._attempt("run", taken)
        self._attempt("run", lambda session: session.worker.pause())

    def meter(self, meters: Sequence[Metered]) -> None:
        def metered(session: Session) -> None:
            runs = 0
            with metering(meters, session.index, lambda: runs, self._keep):
                runs = len(self._price(session, int(least_s(meters, _METERING_S) * 1e9), 0).run_ns)

        self._attempt("run", lambda session: session.worker.go_on())
        self._attempt("run", metered)
        self._attempt("run", lambda session: session.worker.pause())

    def price(self) -> Price | Failure:
        """What it came to; nothing is added from here on."""
        if self.store is not None:
            self.store.finish(self._id, self.failure)
        if self.failure is not None:
            return self.failure
        run_ns = statistics.median(statistics.fmean(turn.run_ns) for turn in self.turns)
        prepare_ns = statistics.median(statistics.fmean(turn.prepare_ns) for turn in self.turns)
        added = [
            start.peak_bytes - start.baseline_bytes
            for start in self.starts
            if start.peak_bytes is not None and start.baseline_bytes is not None
        ]
        used = whole(by_meter(self.energies, 1), self.contender.target.device)
        return Price(run_ns, prepare_ns, max(added, default=None), used.total_uj if used else None)

    def _price(self, session: Session, duration_ns: int, settle_ns: int) -> Priced:
        limit_s = session.cell.timeout_s + (duration_ns + settle_ns) / 1e9
        answer = session.worker.call("price", duration_ns=duration_ns, settle_ns=settle_ns, timeout_s=limit_s)
        return from_json(Priced, answer)

    def _attempt(self, stage: str, action: Callable[[Session], object]) -> None:
        if self.session is None or self.failure is not None:
            return
        try:
            action(self.session)
        except EdgewiseError as error:
            cell = self.contender.cell
            self.failure = Failure.of(error, cell.task, cell.machine, stage, cell.label)

    def _keep(self, part: Start | Round | Energy) -> None:
        if self.store is not None:
            self.store.add(self._id, part)
        if isinstance(part, Start):
            self.starts.append(part)
        elif isinstance(part, Energy):
            self.energies.append(part)


def prices(
    contenders: Sequence[Contender],
    pictures: Pictures,
    store: Store | None,
    progress: Progress,
    *,
    starts: int = STARTS,
    turns: int = TURNS,
    turn_ns: int = TURN_NS,
    warmup_ns: int = WARMUP_NS,
    meters: Sequence[Metered] = (),
    seed: int = 0,
) -> list[Price | Failure]:
    """One for each, on `pictures`. `progress` hears which set of processes is at which turn."""
    order = random.Random(seed)
    sides = [Side(contender, store) for contender in contenders]
    for index in range(starts):
        with ExitStack() as stack:
            cores = shared_cores([contender.cell for contender in contenders], index)
            for side in sides:
                side.enter(stack, cores)
            for side in sides:
                side.begin()
            for side in sides:
                side.open(pictures)
            for side in sides:
                side.warm_up(warmup_ns)
            deadline = time.monotonic() + LONGEST_START_S
            for number in range(turns):
                for side in order.sample(sides, len(sides)):
                    side.turn(turn_ns)
                progress(index, number)
                if number + 1 >= FEWEST_TURNS and time.monotonic() > deadline:
                    break
            for side in sides if meters and index + 1 == starts else ():
                side.meter(meters)
    return [side.price() for side in sides]


def some(exam: Exam, indices: Sequence[int], count: int = IMAGES) -> Pictures:
    """Of the images of an exam, `count` from all over it."""
    step = max(1, len(indices) // count)
    return Pictures(exam.data, exam.labels, tuple(indices[::step][:count]))
