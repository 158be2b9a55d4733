"""Which granularity wins here: every way over some targets, expected and measured, under every load asked for."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

from ..analyze.compare import cost_ns, speed
from ..core import stats
from ..core.errors import EdgewiseError, InputError
from ..core.records import to_json
from ..core.types import Contention, Failure, Measurement, Part, Placement, Result, Scenario, Target
from ..core.ways import Capped, Use, Way, Ways, chosen
from ..measure import isolate
from ..measure.cell import Cell, Session, run_cell
from ..measure.contend import competing
from ..measure.foreground import Foreground
from ..parallel.search import Costs, expected_ns, ways
from ..store.db import Store
from .compare import ROUND_NS, compare
from .prepare import completed
from .request import Request

KINDS = ("split", "branches", "deal", "stages")
# A first look at each target alone, from which the others are expected.
_LOOK = Scenario(min_runs=10, min_s=0.3, max_s=1.5)
# A stream takes a while until all hands are at work again; and who shares a core with others gets it in slices of
# milliseconds. Both are looked at for longer than one inference, and by the mean: half of all runs may be undisturbed.
_LONG_ROUND_NS = 300_000_000
_LONG_ROUNDS = 8
_FOREGROUND_S = 4.0
# What is kept from running all the time runs for so long and then pauses: about the period of what it disturbs.
_CAPPED_ROUND_NS = 10_000_000
# Parts of a split that look at each other's numbers in memory, both at work on cores of their own.
_EXCHANGE_NS = 5_000.0

# Who hears what is being done, and how far it is.
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Asked:
    """`loads`: numbers of competing processes. `foreground_hz`: a task beside each way, that may miss deadlines."""

    over: tuple[Target, ...]
    uses: tuple[Use, ...] = ("latency", "throughput")
    kinds: tuple[str, ...] = KINDS
    loads: tuple[int, ...] = (0,)
    contention: str = "compute"
    cores: tuple[int, ...] = ()
    foreground_hz: float | None = None
    caps: tuple[float, ...] = ()
    starts: int = 3
    rounds: int = 20


@dataclass(frozen=True, slots=True)
class Found:
    """Beside the record, the cells by placement and use: what a plan is written from."""

    ways: Ways
    cells: dict[tuple[Use, str], Cell]


def explore(asked: Asked, request: Request, store: Store, tell: Tell, detail: Tell) -> Found:
    model = request.models[0]
    if len(asked.over) < 2:
        raise InputError("several targets are needed, found one", "--over ort:cpu@1#0 --over ort:cpu@1#1")
    over = tuple(
        completed(Placement.single(target), request.engines, request.machine, model).targets[0] for target in asked.over
    )
    search = _Search(replace(asked, over=over), request, store, tell, detail)
    found = [way for load in asked.loads for use in asked.uses for way in search.under(use, load)]
    idle = search.foreground(None) if asked.foreground_hz else None
    names = tuple(str(target) for target in over)
    capped = tuple(search.capped(tuple(found))) if asked.foreground_hz else ()
    return Found(Ways(model.digest, model.label, request.machine.id, names, tuple(found), idle, capped), search.cells)


class _Search:
    def __init__(self, asked: Asked, request: Request, store: Store, tell: Tell, detail: Tell) -> None:
        self._asked, self._request, self._store, self._tell, self._detail = asked, request, store, tell, detail
        self._model = request.models[0]
        self.cells: dict[tuple[Use, str], Cell] = {}
        self._failed: dict[tuple[Use, str], Failure] = {}
        self._exchanges: int | None = None
        self._looked = False

    def under(self, use: Use, load: int) -> Iterator[Way]:
        asked, placements = self._asked, ways(self._asked.over, use, self._asked.kinds)
        for placement in placements:
            self._prepare(use, placement)
        cells = [self.cells[use, str(p)] for p in placements if (use, str(p)) in self.cells]
        contention = Contention(asked.contention, load, asked.cores) if load else None
        by_mean = use == "throughput" or load > 0
        with competing(contention):
            costs = self._costs(cells, load, by_mean)
            self._tell(f"{use} under {load} competing: {len(cells)} ways in turns")
            results = compare(
                cells,
                self._store,
                lambda start, number: self._detail(
                    f"set of processes {start + 1} of {asked.starts}, turn {number + 1}"
                ),
                starts=asked.starts,
                rounds=min(asked.rounds, _LONG_ROUNDS) if by_mean else asked.rounds,
                round_ns=_LONG_ROUND_NS if by_mean else ROUND_NS,
                study="parallel",
            )
            by_name = {str(cell.task.placement): result for cell, result in zip(cells, results, strict=True)}
            best = _best([result for result in results if isinstance(result, Measurement)], by_mean)
            for placement in placements:
                name = str(placement)
                result: Result = by_name.get(name) or self._failed[use, name]
                way = _way(use, load, placement, result, best, by_mean)
                way = replace(way, predicted_ns=expected_ns(placement, costs) or _expected_ns(result))
                if asked.foreground_hz and way.cost_ns is not None:
                    way = replace(way, dropped=self.foreground(self.cells[use, name]))
                yield way

    def _prepare(self, use: Use, placement: Placement) -> None:
        name = str(placement)
        if (use, name) in self.cells or (use, name) in self._failed:
            return
        scenario = Scenario(kind="offline" if use == "throughput" else "single", batch=self._request.scenarios[0].batch)
        cell = self._request.cell(self._model, placement, scenario)
        if isinstance(cell, Failure):
            self._failed[use, name] = cell
        else:
            self.cells[use, name] = cell

    def _costs(self, cells: Sequence[Cell], load: int, by_mean: bool) -> Costs:
        """Each target alone, as it is now, and what the cuts look like."""
        alone: dict[Target, float] = {}
        for cell in cells:
            if cell.task.placement.kind == "single":
                self._tell(f"{cell.task.placement} alone under {load} competing")
                seen = run_cell(replace(cell, task=replace(cell.task, scenario=_LOOK)), lambda part: None)
                if isinstance(seen, Measurement) and seen.samples_ns:
                    alone[cell.task.placement.targets[0]] = _cost_ns(seen, by_mean)
        return Costs(alone, self._exchanged(), _EXCHANGE_NS)

    def _exchanged(self) -> int | None:
        """How often the parts of a split wait for each other; None where it cannot be cut."""
        cell = self.cells.get(("latency", str(Placement("split", tuple(map(Part, self._asked.over))))))
        if cell is None:
            return None
        if not self._looked:
            try:
                found = isolate.call(
                    "edgewise.parallel.split.outline:outline",
                    timeout_s=cell.timeout_s,
                    memory_bytes=cell.memory_bytes,
                    model=to_json(cell.model),
                    placement=str(cell.task.placement),
                )
                self._exchanges = int(found["exchanges"])
            except EdgewiseError:
                self._exchanges = None
            self._looked = True
        return self._exchanges

    def capped(self, found: tuple[Way, ...]) -> Iterator[Capped]:
        """The best way without competitors, at work for only a share of the time, beside the foreground task."""
        assert self._asked.foreground_hz is not None
        best = chosen(found, self._asked.uses[0], self._asked.loads[0])
        for cap in self._asked.caps if best else ():
            assert best is not None
            self._tell(f"{best.placement} for {cap:.0%} of the time beside a task at {self._asked.foreground_hz:g} Hz")
            with (
                Foreground(self._asked.foreground_hz) as task,
                Session(self.cells[best.use, str(best.placement)]) as at,
            ):
                at.open()
                at.round(warmup=True, duration_ns=_LONG_ROUND_NS)
                task.dropped()
                runs, begin = 0, time.perf_counter()
                while time.perf_counter() - begin < _FOREGROUND_S:
                    round = at.round(duration_ns=_CAPPED_ROUND_NS)
                    runs += len(round.samples_ns)
                    time.sleep(round.elapsed_ns / 1e9 * (1 - cap) / cap)
                passed = time.perf_counter() - begin
                yield Capped(best.placement, cap, runs / passed, task.dropped())

    def foreground(self, cell: Cell | None) -> float | None:
        """The share of deadlines that a task misses beside this, or beside nothing."""
        assert self._asked.foreground_hz is not None
        self._tell(f"a task at {self._asked.foreground_hz:g} Hz beside {cell.task.placement if cell else 'nothing'}")
        with Foreground(self._asked.foreground_hz) as task, ExitStack() as stack:
            if cell is None:
                time.sleep(_FOREGROUND_S)
                return task.dropped()
            session = stack.enter_context(Session(cell))
            session.open()
            session.round(warmup=True, duration_ns=_LONG_ROUND_NS)
            task.dropped()
            session.round(duration_ns=int(_FOREGROUND_S * 1e9))
            return task.dropped()


def _expected_ns(result: Result) -> float | None:
    """What a placement said it would come to, before it was timed."""
    return result.starts[0].ran.expected_ns if isinstance(result, Measurement) and result.starts else None


def _best(measured: Sequence[Measurement], by_mean: bool) -> Measurement | None:
    """The quickest single target, by its own turns."""
    singles = [m for m in measured if m.task.placement.kind == "single" and m.samples_ns]
    return min(singles, key=lambda m: _cost_ns(m, by_mean), default=None)


def _cost_ns(measurement: Measurement, by_mean: bool) -> float:
    return stats.quantile([cost_ns(round, by_mean) for round in measurement.measured], 0.5)


def _way(use: Use, load: int, placement: Placement, result: Result, best: Measurement | None, by_mean: bool) -> Way:
    if isinstance(result, Failure):
        return Way(use, load, placement, reason=result.message)
    found = Way(use, load, placement, _cost_ns(result, by_mean))
    if best is None or best is result:
        return found
    ratio = speed(best, result, frames=by_mean)
    than = str(best.task.placement)
    return replace(found, than=than, ratio=(ratio.low, ratio.estimate, ratio.high) if ratio else None)
