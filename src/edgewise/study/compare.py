"""Interleaved comparison: all sides alive at once, taking turns in short rounds, in random order, on the same cores.

Repeated over fresh processes, since two processes of the same program differ for as long as they live. Turns are short
because the speed of a shared machine changes within tens of milliseconds, and the cores are the same because on such a
machine one core can be a tenth slower than the next (docs/decisions/0001-process-pairs.md has the figures).
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace

from ..core.energy import Energy
from ..core.errors import EdgewiseError
from ..core.types import Failure, Measurement, Result, Round, Start
from ..measure.cell import Cell, Part, Session
from ..measure.energy import Metered, metering
from ..store.db import Store
from ..system.affinity import current
from ..system.machine import machine, physical_cores

# Fresh sets of processes. Five give Student's t four degrees of freedom; fewer make intervals useless, more cost time.
STARTS = 5
ROUNDS = 40
ROUND_NS = 5_000_000
# A process that was stopped finds its caches taken and its threads asleep: its first runs take up to half as long
# again, on some engines more than on others. They are not what anybody asked for, so a turn begins without the clock.
SETTLE_NS = 10_000_000
# A set of processes takes no longer than this over its turns, unless they are so slow that it would have had too few.
LONGEST_START_S = 30.0
FEWEST_ROUNDS = 5

Progress = Callable[[int, int], None]


class Side:
    """One of the things compared: what it has so far, and how it failed if it did."""

    def __init__(self, cell: Cell, store: Store, study: str = "compare") -> None:
        self.cell = cell
        self._store = store
        self._id = store.begin(cell.task, cell.machine, cell.versions, cell.inputs, cell.label, study)
        self.starts: list[Start] = []
        self.rounds: list[Round] = []
        self.energies: list[Energy] = []
        self.failure: Failure | None = None
        self.session: Session | None = None

    def enter(self, stack: ExitStack, cores: tuple[int, ...]) -> None:
        """A fresh process, on these cores unless the target names its own."""
        cell = replace(self.cell, cores=self.cell.cores or cores)
        self.session = stack.enter_context(Session(cell, len(self.starts))) if self.failure is None else None

    def begin(self) -> None:
        self._attempt("load", lambda session: session.begin())

    def open(self) -> None:
        self._attempt("load", lambda session: self._keep(session.open()))

    def warm_up(self, warmup_ns: int | None = None) -> None:
        """Until steady, or for so long."""
        if warmup_ns is None:
            self._attempt("run", lambda session: session.warm_up(self._keep))
        else:
            self._attempt("run", lambda session: self._keep(session.round(warmup=True, duration_ns=warmup_ns)))
        self._attempt("run", lambda session: session.worker.pause())

    def turn(self, round_ns: int, meters: Sequence[Metered] = ()) -> None:
        """Only the side whose turn it is runs at all: idle threads of an engine may spin for a while."""
        self._attempt("run", lambda session: session.worker.go_on())
        if meters:
            self._attempt("run", lambda session: self._metered(session, round_ns, meters))
        else:
            self._attempt("run", lambda session: self._keep(session.round(duration_ns=round_ns, settle_ns=SETTLE_NS)))
        self._attempt("run", lambda session: session.worker.pause())

    def _metered(self, session: Session, round_ns: int, meters: Sequence[Metered]) -> None:
        """As long as the meters need, so no turn to compare times by: it counts as warm-up."""
        taken: list[Round] = []
        with metering(meters, session.index, lambda: sum(len(r.samples_ns) for r in taken), self._keep):
            taken.append(session.round(warmup=True, duration_ns=round_ns))
        self._keep(taken[0])

    def _attempt(self, stage: str, action: Callable[[Session], None]) -> None:
        if self.session is None or self.failure is not None:
            return
        try:
            action(self.session)
        except EdgewiseError as error:
            self.failure = Failure.of(error, self.cell.task, self.cell.machine, stage, self.cell.label)

    def _keep(self, part: Part) -> None:
        self._store.add(self._id, part)
        if isinstance(part, Start):
            self.starts.append(part)
        elif isinstance(part, Round):
            self.rounds.append(part)
        else:
            self.energies.append(part)

    def result(self) -> Result:
        """What it came to; nothing is added from here on."""
        self._store.finish(self._id, self.failure)
        return self.failure or self.measured()

    def measured(self) -> Measurement:
        """What there is of it, however it ended."""
        c = self.cell
        parts = tuple(self.starts), tuple(self.rounds)
        return Measurement(
            c.task, c.machine, c.versions, c.inputs, *parts, self.failure is None, c.label, tuple(self.energies)
        )


def compare(
    cells: Sequence[Cell],
    store: Store,
    progress: Progress,
    *,
    starts: int = STARTS,
    rounds: int = ROUNDS,
    round_ns: int = ROUND_NS,
    seed: int = 0,
    study: str = "compare",
    warmup_ns: int | None = None,
) -> list[Result]:
    """A result per cell. A side that fails is a Failure, and the others go on without it."""
    order = random.Random(seed)
    sides = [Side(cell, store, study) for cell in cells]
    for index in range(starts):
        with ExitStack() as stack:
            cores = shared_cores(cells, index)
            for side in sides:
                side.enter(stack, cores)
            # Loading is not timed against the others, so the sides may load together; but not beside one that finds out
            # what its pieces take while it loads.
            together = [side for side in sides if side.cell.task.placement.kind in ("single", "deal")]
            for side in together:
                side.begin()
            for side in together:
                side.open()
            for side in sides:
                if side not in together:
                    side.open()
            for side in sides:
                side.warm_up(warmup_ns)
            deadline = time.monotonic() + LONGEST_START_S
            for number in range(rounds):
                for side in order.sample(sides, len(sides)):
                    side.turn(round_ns)
                progress(index, number)
                if number + 1 >= FEWEST_ROUNDS and time.monotonic() > deadline:
                    break
    return [side.result() for side in sides]


def shared_cores(cells: Sequence[Cell], index: int) -> tuple[int, ...]:
    """Where all sides sit: as many cores as the widest needs, others at each start; free where it needs all."""
    usable = physical_cores(machine(), current())
    widest = max(
        sum(target.threads or len(usable) for target in cell.task.placement.targets) * cell.task.scenario.n
        for cell in cells
    )
    if widest >= len(usable):
        return ()
    return tuple(sorted(usable[(index + i) % len(usable)] for i in range(widest)))
