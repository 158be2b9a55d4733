"""Interleaved comparison: all sides alive at once, taking turns in short rounds, in random order.

Repeated over fresh processes, since two processes of the same program differ for as long as they live.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

from ..core.errors import EdgewiseError, WorkerCrashed
from ..core.types import Failure, Measurement, Result, Round, Start
from ..measure.cell import Cell, Session
from ..store.db import Store

# Fresh sets of processes. Five give Student's t four degrees of freedom; fewer make intervals useless, more cost time.
STARTS = 5
ROUNDS = 8
ROUND_NS = 50_000_000

Progress = Callable[[int, int], None]


def compare(
    cells: Sequence[Cell],
    store: Store,
    progress: Progress,
    *,
    starts: int = STARTS,
    rounds: int = ROUNDS,
    round_ns: int = ROUND_NS,
    seed: int = 0,
) -> list[Result]:
    """A result per cell. A side that fails is a Failure, and the others go on without it."""
    order = random.Random(seed)
    ids = [store.begin(c.task, c.machine, c.versions, c.inputs, c.label) for c in cells]
    parts: list[list[Start | Round]] = [[] for _ in cells]
    failures: dict[int, Failure] = {}

    def keep(side: int, part: Start | Round) -> None:
        store.add(ids[side], part)
        parts[side].append(part)

    def attempt(side: int, stage: str, action: Callable[[], None]) -> None:
        if side in failures:
            return
        try:
            action()
        except EdgewiseError as error:
            stderr = error.stderr if isinstance(error, WorkerCrashed) else ""
            cell = cells[side]
            failures[side] = Failure(
                cell.task,
                cell.machine,
                stage,
                type(error).__name__,
                error.message,
                error.hint,
                stderr,
                cell.label,
            )

    for index in range(starts):
        with ExitStack() as stack:
            sessions = {
                s: stack.enter_context(Session(cell, index)) for s, cell in enumerate(cells) if s not in failures
            }
            # Loading is not timed against the other side, so the sides may load together.
            with ThreadPoolExecutor(2) as pool:
                opened = {s: pool.submit(session.open) for s, session in sessions.items()}
            for side, session in sessions.items():
                attempt(side, "load", lambda s=side: keep(s, opened[s].result()))  # type: ignore[misc]
                attempt(
                    side,
                    "run",
                    lambda s=side, w=session: w.warm_up(lambda part: keep(s, part)),  # type: ignore[misc]
                )
            for number in range(rounds):
                for side in order.sample(sorted(sessions), len(sessions)):
                    attempt(
                        side,
                        "run",
                        lambda s=side: keep(s, sessions[s].round(duration_ns=round_ns)),  # type: ignore[misc]
                    )
                progress(index, number)
    results: list[Result] = []
    for side, cell in enumerate(cells):
        store.finish(ids[side], failures.get(side))
        results.append(failures.get(side) or _measurement(cell, parts[side]))
    return results


def _measurement(cell: Cell, parts: Sequence[Start | Round]) -> Measurement:
    return Measurement(
        cell.task,
        cell.machine,
        cell.versions,
        cell.inputs,
        tuple(part for part in parts if isinstance(part, Start)),
        tuple(part for part in parts if isinstance(part, Round)),
        True,
        cell.label,
    )
