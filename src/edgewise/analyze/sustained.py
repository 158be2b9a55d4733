"""Runs of minutes: does speed hold, drift or fall in steps, and is the order of the first minute that of the last?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean, median

from ..core import stats
from ..core.chart import Axis, Chart, Series
from ..core.stats.steps import Course, course
from ..core.types import Column, Finding, Measurement, Round, Scalar, Section
from . import trust
from .evidence import Evidence, absent

PLACE = 130
TITLE = "Sustained speed"
COLUMNS = (
    Column("machine"),
    Column("model"),
    Column("scenario"),
    Column("target"),
    Column("lasted", "ns"),
    Column("course"),
    Column("first_minute", "rate"),
    Column("last_minute", "rate"),
    Column("speed", "percent_change"),
    Column("p50_first", "ns", 2),
    Column("p50_last", "ns", 2),
    Column("rank_first", "count"),
    Column("rank_last", "count"),
    Column("clock_first", "hz", 3),
    Column("clock_last", "hz", 3),
    Column("hottest", "mc", 3),
)
COMMAND = "edgewise bench MODEL --scenario 'single(min_s=180, max_s=180)'"
_MINUTE_NS = 60_000_000_000
# So many windows show the shape; each then holds at least a second of a minute.
_WINDOWS = 60
_CLOCK_DROP = 0.05
_MORE_FOREIGN = 0.03
# Windows that differ by more than this hold no speed, even if none of the changes lasts.
_WIDE = 0.2
_MOST_CHARTS = 8


@dataclass(frozen=True, slots=True)
class Window:
    """Neighbouring rounds. `at_ns` is the middle, from the start; `cost_ns` is time per item, or latency under load."""

    at_ns: int
    cost_ns: float
    per_s: float
    clock_hz: float | None
    temperature_mc: int | None
    foreign: float | None


@dataclass(frozen=True, slots=True)
class Level:
    """A stretch of a run: its cost with an interval, what it did a second, its median latency."""

    cost: float
    low: float
    high: float
    per_s: float
    p50: float


@dataclass(frozen=True, slots=True)
class Run:
    """One process that ran long enough."""

    measurement: Measurement
    lasted_ns: int
    windows: tuple[Window, ...]
    course: Course
    first: Level
    last: Level

    @property
    def target(self) -> str:
        return str(self.measurement.task.placement)


def run(evidence: Evidence, *, min_s: float = 60.0) -> Section:
    groups: dict[tuple[str, str, str, str], list[Run]] = defaultdict(list)
    for m in evidence.measurements:
        found = _long(m, min_s)
        if found:
            groups[m.machine, m.task.subject, m.label, str(m.task.scenario)].append(found)
    if not groups:
        return absent(TITLE, f"no measurement lasted {min_s:g} s or more", COMMAND)
    rows: list[tuple[object, ...]] = []
    findings: list[Finding] = []
    charts: list[Chart] = []
    for (machine, _, label, scenario), group in groups.items():
        shown = evidence.machines[machine].label if machine in evidence.machines else machine
        told = [label, *([scenario] if len({key[3] for key in groups}) > 1 else [])]
        told += [shown] if len({key[0] for key in groups}) > 1 else []
        firsts, lasts = _ranks([r.first for r in group]), _ranks([r.last for r in group])
        for one, first, last in sorted(zip(group, firsts, lasts, strict=True), key=lambda each: each[0].last.cost):
            rows.append(_cells(one, shown, first, last))
            findings += _course(one)
        findings += _order(group, ", ".join(told))
        charts += _charts(group, ", ".join(told))
    return Section(TITLE, COLUMNS, tuple(rows), tuple(findings), tuple(charts[:_MOST_CHARTS]))


def _long(m: Measurement, min_s: float) -> Run | None:
    """The longest process of a measurement, where it is long enough: between two there was a pause."""
    best: tuple[int, list[Round]] = (0, [])
    for start in {r.start for r in m.measured}:
        # What spans a whole server's stream has no samples.
        rounds = [r for r in m.measured if r.start == start and r.samples_ns]
        if rounds:
            lasted = rounds[-1].started_ns + rounds[-1].elapsed_ns - rounds[0].started_ns
            best = max(best, (lasted, rounds), key=lambda each: each[0])
    lasted_ns, rounds = best
    if not rounds or lasted_ns < min_s * 1e9:
        return None
    part_ns = min(_MINUTE_NS, lasted_ns // 2)
    begin, end = rounds[0].started_ns, rounds[0].started_ns + lasted_ns
    first = [r for r in rounds if r.started_ns < begin + part_ns]
    last = [r for r in rounds if r.started_ns + r.elapsed_ns > end - part_ns]
    windows = tuple(_windows(m, rounds, lasted_ns))
    return Run(m, lasted_ns, windows, course([w.cost_ns for w in windows]), _level(m, first), _level(m, last))


def _windows(m: Measurement, rounds: Sequence[Round], lasted_ns: int) -> Iterator[Window]:
    begin, cpus = rounds[0].started_ns, m.starts[rounds[0].start].cpus or 1
    parts: dict[int, list[Round]] = defaultdict(list)
    for r in rounds:
        middle = r.started_ns + r.elapsed_ns // 2 - begin
        parts[min(_WINDOWS - 1, middle * _WINDOWS // lasted_ns)].append(r)
    for _, part in sorted(parts.items()):
        clocks = [r.clock_hz for r in part if r.clock_hz is not None]
        foreign = [(r.foreign_ns or 0) + (r.stolen_ns or 0) for r in part if r.foreign_ns is not None]
        elapsed = sum(r.elapsed_ns for r in part)
        yield Window(
            at_ns=(part[0].started_ns + part[-1].started_ns + part[-1].elapsed_ns) // 2 - begin,
            cost_ns=median(_costs(m, part)),
            per_s=sum(len(r.samples_ns) for r in part) * m.task.scenario.batch * 1e9 / elapsed,
            clock_hz=fmean(clocks) if clocks else None,
            temperature_mc=max((r.temperature_mc for r in part if r.temperature_mc is not None), default=None),
            foreign=sum(foreign) / (elapsed * cpus) if foreign else None,
        )


def _costs(m: Measurement, rounds: Sequence[Round]) -> list[float]:
    """Time per item of each round; of a server, which does as much as it is sent, the latencies."""
    if m.task.scenario.kind == "server":
        return [float(sample) for r in rounds for sample in r.samples_ns]
    return [r.elapsed_ns / (len(r.samples_ns) * m.task.scenario.batch) for r in rounds]


def _level(m: Measurement, rounds: Sequence[Round]) -> Level:
    costs = _costs(m, rounds)
    interval = stats.interval_at_stop(costs)
    low, high = stats.quantile(costs, 0.25), stats.quantile(costs, 0.75)
    if interval:
        low, high = interval.low, interval.high
    samples = [sample for r in rounds for sample in r.samples_ns]
    per_s = len(samples) * m.task.scenario.batch * 1e9 / sum(r.elapsed_ns for r in rounds)
    return Level(stats.quantile(costs, 0.5), low, high, per_s, stats.quantile(samples, 0.5))


def _ranks(levels: Sequence[Level]) -> list[int]:
    """1 + how many are demonstrably quicker."""
    return [1 + sum(other.high < level.low for other in levels) for level in levels]


def _cells(one: Run, machine: str, rank_first: int, rank_last: int) -> tuple[object, ...]:
    m, clocks = one.measurement, [w.clock_hz for w in one.windows if w.clock_hz is not None]
    steps = len(one.course.places)
    return (
        machine,
        m.label,
        str(m.task.scenario),
        one.target,
        one.lasted_ns,
        one.course.kind if not steps else "1 step" if steps == 1 else f"{steps} steps",
        one.first.per_s,
        one.last.per_s,
        _speed(one),
        one.first.p50,
        one.last.p50,
        rank_first,
        rank_last,
        clocks[0] if clocks else None,
        clocks[-1] if clocks else None,
        max((w.temperature_mc for w in one.windows if w.temperature_mc is not None), default=None),
    )


def _speed(one: Run) -> float:
    """How much faster the end is than the beginning; under load, which sets the throughput, by latency."""
    if one.measurement.task.scenario.kind == "server":
        return one.first.p50 / one.last.p50 - 1
    return one.last.per_s / one.first.per_s - 1


def _course(one: Run) -> Iterator[Finding]:
    about, found = trust.name(one.measurement), one.course
    if found.kind == "steady":
        costs = [w.cost_ns for w in one.windows]
        spread = (stats.quantile(costs, 0.95) - stats.quantile(costs, 0.05)) / stats.quantile(costs, 0.5)
        values = (("spread", spread), ("lasted_ns", one.lasted_ns))
        if spread > _WIDE:
            yield Finding("speed_varied", "caution", about, values)
        else:
            yield Finding("speed_held", "note", about, values)
    if found.kind == "drift":
        speed = found.levels[0] / found.levels[-1] - 1
        beside = _beside(one, 0, len(one.windows) // 2, None)
        drifted = (("change", speed), ("lasted_ns", one.lasted_ns), *beside)
        yield Finding("speed_drifted", "caution" if speed < 0 else "note", about, drifted)
    edges = (0, *found.places, len(one.windows))
    for i, place in enumerate(found.places):
        speed = found.levels[i] / found.levels[i + 1] - 1
        beside = _beside(one, edges[i], place, edges[i + 2])
        step = (("change", speed), ("at_ns", _border(one, place)), *beside)
        if speed > 0:
            yield Finding("speed_rose", "note", about, step)
        elif dict(beside)["clock_fell"]:
            yield Finding("throttled", "caution", about, step)
        else:
            yield Finding("speed_fell", "caution", about, step)


def _border(one: Run, place: int) -> int:
    """When a step happened: between the two windows it separates."""
    return (one.windows[place - 1].at_ns + one.windows[place].at_ns) // 2


def _beside(one: Run, begin: int, place: int, end: int | None) -> tuple[tuple[str, Scalar], ...]:
    """What the clock, the temperature and other processes did from before `place` to after it; None: not read."""
    before, after = one.windows[begin:place], one.windows[place:end]
    clock = _medians(before, after, lambda w: w.clock_hz)
    heat = _medians(before, after, lambda w: w.temperature_mc)
    foreign = _medians(before, after, lambda w: w.foreign)
    busier = foreign is not None and foreign[1] > foreign[0] + _MORE_FOREIGN
    return (
        ("clock_fell", clock is not None and clock[1] < clock[0] * (1 - _CLOCK_DROP)),
        ("before_hz", clock[0] if clock else None),
        ("after_hz", clock[1] if clock else None),
        ("before_mc", heat[0] if heat else None),
        ("after_mc", heat[1] if heat else None),
        ("before_foreign", foreign[0] if foreign and busier else None),
        ("after_foreign", foreign[1] if foreign and busier else None),
    )


def _medians(
    before: Sequence[Window], after: Sequence[Window], pick: Callable[[Window], float | None]
) -> tuple[float, float] | None:
    sides = [[value for w in side if (value := pick(w)) is not None] for side in (before, after)]
    return (median(sides[0]), median(sides[1])) if all(sides) else None


def _order(group: Sequence[Run], about: str) -> Iterator[Finding]:
    """Of each two: who was demonstrably ahead at first, and who is at the end."""
    told = [(a, b) for pair in combinations(group, 2) for a, b in (pair, pair[::-1]) if a.first.high < b.first.low]
    turned = [(a, b) for a, b in told if b.last.high < a.last.low]
    blurred = [(a, b) for a, b in told if a.last.high >= b.last.low]

    def widest(pairs: Sequence[tuple[Run, Run]]) -> tuple[tuple[str, Scalar], ...]:
        ahead, behind = max(pairs, key=lambda pair: pair[1].first.cost / pair[0].first.cost)
        return (
            ("first_ratio", behind.first.cost / ahead.first.cost),
            ("last_ratio", ahead.last.cost / behind.last.cost),
            ("ahead", ahead.target),
            ("behind", behind.target),
        )

    if turned:
        yield Finding("order_turned", "caution", about, widest(turned))
    elif blurred:
        yield Finding("order_blurred", "note", about, widest(blurred))
    elif told:
        yield Finding("order_held", "note", about, (("targets", len(group)),))


def _charts(group: Sequence[Run], about: str) -> Iterator[Chart]:
    under_load = group[0].measurement.task.scenario.kind == "server"
    time = Axis("time", "ns")
    series = tuple(
        Series(
            one.target,
            tuple(w.at_ns for w in one.windows),
            tuple(w.cost_ns if under_load else w.per_s for w in one.windows),
            stroke="line",
        )
        for one in group
    )
    y = Axis("median latency", "ns") if under_load else Axis("throughput", "rate")
    yield Chart("line", f"{y.name.capitalize()} over time: {about}", time, y, series)
    clocked = [one for one in group if any(w.clock_hz is not None for w in one.windows)]
    if clocked:
        clocks = tuple(
            Series(
                one.target,
                tuple(w.at_ns for w in one.windows),
                tuple(w.clock_hz for w in one.windows),
                stroke="line",
            )
            for one in clocked
        )
        yield Chart("line", f"Clock over time: {about}", time, Axis("clock", "hz"), clocks)
