"""Heats: several candidates alive at once, taking short turns; who is surely worse than the best so far goes home.

The rule is in core/stats/racing.py; why it is this one, in docs/decisions/0011-racing.md.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from statistics import fmean, median, stdev

from ..analyze import trust
from ..core import stats
from ..core.energy import Used, by_meter, whole
from ..core.race import Status, Wanted, turn_cost
from ..core.stats.racing import ERROR_RATE, MARGIN, Gap, Seen, Standings, level, side
from ..core.stats.special import t_quantile
from ..core.types import Measurement
from ..measure.cell import Cell
from ..measure.energy import Metered, least_s
from ..store.db import Store
from .compare import Side, shared_cores

# One of them is the best so far. More alive at once would share the caches and the memory of a small device.
GROUP = 6
TURN_NS = 5_000_000
# Turns of a heat: first to see who is far off, then to tell close ones apart.
SCREENING_TURNS, CLOSE_TURNS = 12, 24
# Slow models get fewer turns than that, but never fewer than can show a spread.
LONGEST_TURNS_S = 4.0
FEWEST_TURNS = 3
WARMUP_NS = 200_000_000
# All of a side's turns above all of the best's, by this factor: further turns would only say it again.
HOPELESS = 1.5
# Who costs this many times as much as another in every start, of two at least, goes home however much its starts
# differ from each other: an engine whose threads wait for each other on a busy machine has no spread to speak of.
FAR = 2.0
# Who seems to be behind by this share is not called a tie for want of a start that would tell.
NO_TIE = 0.1
# A meter's window: as long as it needs, within reason.
METERED_S, LONGEST_METERED_S = 1.0, 10.0
_LEVEL = 0.95

Progress = Callable[[int, Sequence["Contender"], int], None]


class Contender:
    """A candidate in the race. It is in while `status` is None."""

    def __init__(self, number: int, cell: Cell, store: Store) -> None:
        self.number = number
        self.cell = cell
        self.side = Side(cell, store, "race")
        self.status: Status | None = None
        self.heat: int | None = None
        self.reason = ""
        self.looks = 0

    @property
    def name(self) -> str:
        """The target, and what was made of the model where something was."""
        recipe = self.cell.label.partition(" | ")[2]
        return f"{recipe} on {self.cell.task.placement}" if recipe else str(self.cell.task.placement)

    @property
    def measured(self) -> Measurement:
        return self.side.measured()

    def energy_uj(self, start: int | None = None) -> tuple[float, str] | None:
        """Of one inference beyond idling (all of it for a declared power), and who says so; of one start, or all."""
        found = self._used(start)
        if found is None:
            return None
        joules = found.active_uj if found.active_uj is not None and found.active_uj > 0 else found.total_uj
        return None if joules is None else (joules, found.source)

    def unmetered(self) -> str:
        """Why nothing is known of its energy."""
        found = self._used()
        return (found.reason if found else None) or "no meter was read"

    def _used(self, start: int | None = None) -> Used | None:
        chosen = [e for e in self.side.energies if start is None or e.start == start]
        used = by_meter(chosen, self.cell.task.scenario.batch)
        return whole(used, self.cell.task.placement.targets[0].device) or next(iter(used), None)


class Heats:
    """The race: heat after heat, each in fresh processes, everything saved as it comes."""

    def __init__(
        self,
        cells: Sequence[Cell],
        store: Store,
        wanted: Wanted,
        progress: Progress,
        *,
        meters: Sequence[Metered] = (),
        starts: int = 5,
        group: int = GROUP,
        error_rate: float = ERROR_RATE,
        seed: int = 0,
    ) -> None:
        self.contenders = [Contender(number, cell, store) for number, cell in enumerate(cells)]
        self.heats = 0
        self.seen: list[Seen] = []
        self.standings = Standings(())
        self.best: Contender | None = None
        self._wanted, self._progress, self._meters = wanted, progress, meters
        self._starts, self._group, self._error_rate = starts, max(2, group), error_rate
        self._order = random.Random(seed)

    @property
    def alive(self) -> list[Contender]:
        return [c for c in self.contenders if c.status is None]

    def screen(self) -> None:
        """Everybody once, in groups, each beside the best so far."""
        waiting = list(self.contenders)
        while waiting:
            count = self._group - (self.best is not None)
            fresh, waiting = waiting[:count], waiting[count:]
            self.heat(([self.best] if self.best else []) + fresh, SCREENING_TURNS)
            self.judge(fresh)
        self.judge(self.alive)

    def decide(self) -> None:
        """Further starts for those that may still be better than the best by more than the margin, or are too far
        behind to be called a tie, until there are none or all have had theirs."""
        while self.best is not None and (close := self._close()):
            chosen = [self.best, *close[: self._group - 1]]
            self.heat(chosen, CLOSE_TURNS)
            self.judge(chosen)

    def _close(self) -> list[Contender]:
        """Whom another start may tell from the best: fewest starts first, then the nearest."""
        found = [
            (len(c.side.starts), gap.estimate if (gap := self.gap(c)) else 0.0, c.number)
            for c in self.alive
            if c is not self.best and len(c.side.starts) < self._starts and self._open(c)
        ]
        return [self.contenders[number] for *_, number in sorted(found)]

    def gap(self, contender: Contender) -> Gap | None:
        """How far behind the best."""
        return self.standings.gap(contender.number, self.best.number) if self.best else None

    def _open(self, contender: Contender) -> bool:
        """Whether another start is worth its time."""
        gap = self.gap(contender)
        if gap is None or gap.estimate > math.log1p(NO_TIE):
            return True
        return not gap.exceeds(math.log1p(-MARGIN), self._level(max(contender.looks, 1)))

    def ratio(self, contender: Contender) -> tuple[float, float, float] | None:
        """Its cost over the best's, with a 95 % interval; of one that is still in, with the interval it is judged by,
        which allows for all others and all looks: that one reaches 1 where it was not told from the best."""
        gap = self.gap(contender)
        judged = contender.status is None and contender is not self.best
        return gap.ratio(2 * self._level(max(contender.looks, 1)) - 1 if judged else 0.95) if gap else None

    def settle(self, best: Contender) -> None:
        """The last judgement, beside the one that is chosen. Who could never be set beside it did not really run."""
        best.status = best.heat = None
        self.best = best
        self._send_home(self.alive)
        for c in self.alive:
            if self.gap(c) is None:
                self.out(c, "failed", "nothing could be measured of it beside the others")

    def judge(self, those: Sequence[Contender]) -> None:
        """Find the best so far, and send home who is surely worse."""
        self.standings = Standings(self.seen)
        number = self.standings.first(c.number for c in self._reachable())
        self.best = None if number is None else self.contenders[number]
        self._send_home(those)

    def _send_home(self, those: Sequence[Contender]) -> None:
        for c in those:
            gap = self.gap(c)
            if c.status is None and c is not self.best and gap is not None:
                c.looks += 1
                if gap.exceeds(0.0, self._level(c.looks)) or self._far(c):
                    self.out(c, "slower", "")

    def _far(self, contender: Contender) -> bool:
        """Whether in each of its heats one that may win was better by a factor."""
        own = {s.heat: s.value for s in self.seen if s.who == contender.number}
        least = dict[int, float]()
        for s in self.seen:
            # Below 0 is who was no candidate.
            if s.heat in own and s.who >= 0 and self.contenders[s.who].status in (None, "slower"):
                least[s.heat] = min(s.value, least.get(s.heat, s.value))
        behind = [value - least[heat] > math.log(FAR) for heat, value in own.items() if heat in least]
        return len(behind) > 1 and all(behind)

    def _reachable(self) -> list[Contender]:
        """Of those in the race, whom a chain of heats connects with the latest."""
        last = next((s.who for s in reversed(self.seen) if self.contenders[s.who].status is None), None)
        return [c for c in self.alive if last is not None and self.standings.gap(c.number, last) is not None]

    def _level(self, look: int) -> float:
        return level(len(self.contenders), look, self._error_rate)

    def out(self, contender: Contender, status: Status, reason: str) -> None:
        contender.status, contender.heat, contender.reason = status, self.heats, reason

    def without(self, those: Sequence[Contender], status: Status, reason: str) -> None:
        """These may not win after all. Who went home only for being slower is judged again: it may be the best now."""
        for c in those:
            if c.status in (None, "slower"):
                self.out(c, status, reason)
        for c in self.contenders:
            if c.status == "slower":
                c.status = c.heat = None
        self.best = None
        self.judge(self.alive)

    def learn(self, fresh: Heats) -> None:
        """What others measured afresh beside the best counts too: who is surely worse by now goes home."""
        numbers = {c.cell.task: c.number for c in self.contenders}
        for s in fresh.seen:
            # One that was no candidate still ties the others together.
            who = numbers.get(fresh.contenders[s.who].cell.task, -1 - s.who)
            self.seen.append(replace(s, heat=self.heats + s.heat, who=who))
        self.heats += fresh.heats
        self.standings = Standings(self.seen)
        met = {c.cell.task for c in fresh.contenders}
        self._send_home([c for c in self.alive if c.cell.task in met])

    def heat(self, chosen: Sequence[Contender], turns: int, *, all_turns: bool = False) -> None:
        """One fresh set of processes. Who is far off need not take all turns, unless they are asked for."""
        self.heats += 1
        self._progress(self.heats, chosen, 0)
        costs: dict[int, list[float]] = {c.number: [] for c in chosen}
        with ExitStack() as stack:
            cores = shared_cores([c.cell for c in chosen], self.heats)
            for c in chosen:
                c.side.enter(stack, cores)
            # Loading is not timed against the others, so they may load together.
            for c in chosen:
                c.side.begin()
            for c in chosen:
                c.side.open()
                self._admit(c)
            for c in chosen:
                if c.status is None:
                    c.side.warm_up(WARMUP_NS)
            running = self._standing(chosen)
            deadline = time.monotonic() + LONGEST_TURNS_S
            for number in range(turns):
                for c in self._order.sample(running, len(running)):
                    c.side.turn(TURN_NS)
                    if c.side.failure is None:
                        costs[c.number].append(turn_cost(c.side.rounds[-1], c.cell.task.scenario, self._wanted.prefer))
                running = self._standing(running)
                self._progress(self.heats, chosen, number + 1)
                if number + 1 >= FEWEST_TURNS:
                    if time.monotonic() > deadline:
                        break
                    running = running if all_turns else self._hopeful(running, costs)
            if self._wanted.prefer == "energy":
                for c in self._standing(chosen):
                    c.side.turn(int(max(METERED_S, least_s(self._meters, LONGEST_METERED_S)) * 1e9), self._meters)
                    if c.side.failure is None and c.energy_uj(len(c.side.starts) - 1) is None:
                        self.out(c, "failed", c.unmetered())
            for c in self._standing(chosen):
                self._admit(c)
        self._record(self._standing(chosen), costs)

    def _admit(self, c: Contender) -> None:
        """Whether it answers right and fits: known before the first turn, and asked again after the last."""
        bound = self._wanted.memory_bytes
        peak = c.measured.peak_bytes
        if c.side.failure is None and trust.wrong(c.measured):
            self.out(c, "wrong", "")
        elif c.side.failure is None and bound is not None and peak is not None and peak > bound:
            self.out(c, "memory", "")
        if c.status is not None and c.side.session is not None:
            c.side.session.worker.pause()

    def _standing(self, those: Sequence[Contender]) -> list[Contender]:
        for c in those:
            if c.side.failure is not None and c.status is None:
                self.out(c, "failed", c.side.failure.message)
        return [c for c in those if c.status is None]

    def _hopeful(self, running: list[Contender], costs: dict[int, list[float]]) -> list[Contender]:
        """All but those far off: what they took is known, and the others need not wait for them."""
        if not running:
            return []
        best = min(running, key=lambda c: median(costs[c.number]))
        worst = max(costs[best.number])
        return [c for c in running if c in (best, self.best) or min(costs[c.number]) <= HOPELESS * worst]

    def _record(self, those: Sequence[Contender], costs: dict[int, list[float]]) -> None:
        """One number each, relative to one that took all turns."""
        those = [c for c in those if costs[c.number]]
        if not those:
            return
        first = max(those, key=lambda c: (len(costs[c.number]), c is self.best))
        self.seen.append(Seen(self.heats, first.number, 0.0))
        for c in those:
            if c is not first:
                found = self._seen(c, first, costs)
                if found is not None:
                    self.seen.append(found)

    def _seen(self, c: Contender, first: Contender, costs: dict[int, list[float]]) -> Seen | None:
        if self._wanted.prefer == "memory":
            peaks = [each.side.starts[-1].peak_bytes for each in (c, first)]
            return Seen(self.heats, c.number, math.log(peaks[0] / peaks[1])) if peaks[0] and peaks[1] else None
        if self._wanted.prefer == "energy":
            used = [each.energy_uj(len(each.side.starts) - 1) for each in (c, first)]
            return Seen(self.heats, c.number, math.log(used[0][0] / used[1][0])) if used[0] and used[1] else None
        return side(self.heats, c.number, costs[c.number], costs[first.number])

    def close(self) -> None:
        """Nothing is added from here on."""
        for c in self.contenders:
            c.side.result()


def ratio_afresh(fresh: Heats, c: Contender, first: Contender) -> tuple[float, float, float] | None:
    """Its cost over the first's, heat by heat, with Student's interval over the heats."""
    values = {(s.heat, s.who): s.value for s in fresh.seen}
    logs = [
        values[heat, c.number] - values[heat, first.number]
        for heat in range(1, fresh.heats + 1)
        if (heat, c.number) in values and (heat, first.number) in values
    ]
    found = stats.ratio([[(math.exp(each), 1.0)] for each in logs])
    return (found.low, found.estimate, found.high) if found else None


def p50_afresh(c: Contender) -> tuple[float, float, float] | None:
    """Of all fresh processes: Student's interval over the logarithms of their medians, which cannot fall below 0."""
    m = c.measured
    logs = [
        math.log(median(s for r in m.measured if r.start == start for s in r.samples_ns))
        for start in range(len(m.starts))
        if any(r.start == start and r.samples_ns for r in m.measured)
    ]
    if len(logs) < 2:
        return None
    half = t_quantile(0.5 + _LEVEL / 2, len(logs) - 1) * stdev(logs) / len(logs) ** 0.5
    centre = fmean(logs)
    return math.exp(centre - half), math.exp(centre), math.exp(centre + half)
