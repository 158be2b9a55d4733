"""Joules per inference: beyond idle and in all, inferences per joule, as the meters saw it; estimates stay apart."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ..core.chart import Axis, Chart, Series
from ..core.energy import Used
from ..core.types import Column, Finding, Measurement, Section
from . import trust
from ._figures import figures
from ._joules import beside, estimated, meters, used
from .evidence import Evidence, absent

__all__ = ["COLUMNS", "PLACE", "Row", "estimated", "meters", "ranked", "run", "used"]

PLACE = 120
TITLE = "Energy"
COLUMNS = (
    Column("rank", "count"),
    Column("machine"),
    Column("model"),
    Column("scenario"),
    Column("target"),
    Column("source"),
    Column("covers", spare=1),
    Column("beyond_idle", "uj"),
    Column("interval", "uj_range"),
    Column("in_all", "uj"),
    Column("per_joule", "per_joule"),
    Column("per_joule_beyond_idle", "per_joule", 3),
    Column("idle", "share", 2),
    Column("power", "uw", 2),
    Column("inferences", "count", 4),
    Column("reason", spare=5),
)
# Where idling takes more than this of an inference's energy, doing more at a time saves more than doing it better.
_MOSTLY_IDLE = 0.5
_MOST_CHARTS = 8


@dataclass(frozen=True, slots=True)
class Row:
    """One measurement: what its inferences used as read (None: not read), what each meter saw, and how long they
    took, in nanoseconds, by what they are ranked by. `cost` (a value and its bounds) is what it is ranked by."""

    measurement: Measurement
    used: Used | None
    meters: tuple[Used, ...]
    took_ns: float
    cost: tuple[float, float, float] | None = None

    @property
    def target(self) -> str:
        return str(self.measurement.task.placement)


def run(evidence: Evidence) -> Section:
    measured = [m for m in evidence.measurements if m.samples_ns]
    if not any(m.energies for m in measured):
        what = "no meter was read and no power declared during these measurements"
        return absent(TITLE, what, "edgewise bench MODEL --energy, or with a declared power --power 15W")
    groups: dict[tuple[str, str, str, str], list[Row]] = defaultdict(list)
    for m in measured:
        row = Row(m, used(m), meters(m), figures(m).cost.estimate)
        groups[m.machine, m.task.subject, m.label, str(m.task.scenario)].append(row)
    rows: list[tuple[object, ...]] = []
    findings: list[Finding] = []
    charts: list[Chart] = []
    for (machine, _, label, scenario), group in groups.items():
        shown = evidence.machines[machine].label if machine in evidence.machines else machine
        order = ranked(group)
        for rank, row in order:
            rows += _cells(rank, row, shown)
        told = [label, *([scenario] if len({key[3] for key in groups}) > 1 else [])]
        told += [shown] if len({key[0] for key in groups}) > 1 else []
        findings += _findings(order, ", ".join(told))
        charts += _charts([row for _, row in order], ", ".join(told))
    return Section(TITLE, COLUMNS, tuple(rows), tuple(findings), tuple(charts[:_MOST_CHARTS]))


def ranked(group: Sequence[Row]) -> list[tuple[int | None, Row]]:
    """Rank = 1 + how many demonstrably use less; those whose bounds overlap share one.

    No rank: estimates, wrong answers, what a meter could not tell, and what differs from idling by less than the error.
    """
    read = [row.used for row in group if row.used and row.used.total_uj is not None]
    # Like with like: with other processor packages read, or none, the sums mean something else.
    packages = [beside(used) for used in read]
    common = max(packages, key=packages.count, default=frozenset())
    by_idle = all(used.active_uj is not None for used in read)
    costed = [
        replace(row, cost=_cost(row.used, by_idle) if row.used and beside(row.used) == common else None)
        for row in group
    ]
    bounds = [row.cost for row in costed if row.cost and _counts(row)]
    ranks: list[tuple[int | None, Row]] = []
    for row in costed:
        better = sum(high < row.cost[1] for _, _, high in bounds) if row.cost else 0
        ranks.append((1 + better if _counts(row) else None, row))

    def place(pair: tuple[int | None, Row]) -> tuple[bool, int, float]:
        rank, row = pair
        return rank is None, rank or 0, row.cost[0] if row.cost else 0.0

    return sorted(ranks, key=place)


def _counts(row: Row) -> bool:
    return row.cost is not None and row.cost[1] > 0 and not trust.wrong(row.measurement)


def _cost(used: Used, by_idle: bool) -> tuple[float, float, float] | None:
    value, bounds = (used.active_uj, used.active_range) if by_idle else (used.total_uj, used.total_range)
    if value is None:
        return None
    return (value, *(bounds or (value, value)))


def _cells(rank: int | None, row: Row, machine: str) -> Iterator[tuple[object, ...]]:
    m = row.measurement
    about = (machine, m.label, str(m.task.scenario), row.target)
    if row.used:
        yield (rank, *about, *_figures(row.used))
    for meter in row.meters:
        # One meter alone is the whole already; one of something else knows nothing of an inference.
        elsewhere = row.used is not None and row.used.total_uj is None and not meter.estimate
        if not elsewhere and (not row.used or (meter.source, meter.covers) != (row.used.source, row.used.covers)):
            yield (None, *about, *_figures(meter))
    if not row.meters:
        yield (None, *about, *[None] * 10, "no meter was read")


def _figures(used: Used) -> tuple[object, ...]:
    return (
        used.source,
        used.covers,
        used.active_uj,
        used.active_range,
        used.total_uj,
        used.per_joule,
        used.active_per_joule,
        used.idle_share,
        used.power_uw,
        used.inferences,
        used.reason,
    )


def _findings(order: Sequence[tuple[int | None, Row]], about: str) -> Iterator[Finding]:
    for _, row in order:
        yield from _of_one(row)
    best = [row for rank, row in order if rank == 1]
    if not best or len([rank for rank, _ in order if rank]) < 2:
        return
    first = best[0]
    assert first.cost and first.used
    said = (("target", first.target), ("uj", first.cost[0]), ("source", first.used.source))
    if len(best) > 1:
        yield Finding("efficiency_tie", "note", about, (*said, ("ties", ", ".join(row.target for row in best[1:]))))
    else:
        yield Finding("most_efficient", "note", about, (*said, ("per_joule", 1e6 / first.cost[0])))
    fastest = min((row for rank, row in order if rank), key=lambda row: row.took_ns)
    assert fastest.cost
    if any(fastest is row for row in best):
        yield Finding("fastest_is_efficient", "note", about, (("target", fastest.target),))
        return
    values = (
        ("energy", fastest.cost[0] / first.cost[0]),
        ("speed", first.took_ns / fastest.took_ns),
        ("fastest", fastest.target),
        ("efficient", first.target),
    )
    yield Finding("faster_uses_more", "note", about, values)


def _of_one(row: Row) -> Iterator[Finding]:
    about = trust.name(row.measurement)
    power = next((meter.power_uw for meter in row.meters if meter.estimate), None)
    if power is not None:
        yield Finding("energy_estimated", "note", about, (("power_uw", power),))
    if not row.used:
        return
    if row.used.reason:
        yield Finding("no_energy", "note", about, (("reason", row.used.reason),))
    bounds, share = row.used.active_range, row.used.idle_share
    if bounds and bounds[0] <= 0:
        yield Finding("like_idle", "caution", about, (("low_uj", bounds[0]), ("high_uj", bounds[1])))
    elif share is not None and share > _MOSTLY_IDLE:
        yield Finding("mostly_idle", "note", about, (("share", share),))


def _charts(rows: Sequence[Row], about: str) -> Iterator[Chart]:
    """Bars with the bounds of what was read; what was only declared is a series of its own."""
    targets = tuple(row.target for row in rows)
    read = [row.used for row in rows]
    guessed = [next((meter for meter in row.meters if meter.estimate), None) for row in rows]
    series = []
    if any(used and used.active_uj is not None for used in read):
        active = tuple(used.active_uj if used else None for used in read)
        series.append(
            Series("beyond idle", targets, active, *_ends([used.active_range if used else None for used in read]))
        )
    if any(used and used.total_uj is not None for used in read):
        total = tuple(used.total_uj if used else None for used in read)
        series.append(Series("in all", targets, total, *_ends([used.total_range if used else None for used in read])))
    if any(guessed):
        total = tuple(used.total_uj if used else None for used in guessed)
        series.append(Series("estimate from a declared power", targets, total, stroke="dash"))
    if series:
        axes = Axis("target"), Axis("energy per inference", "uj")
        yield Chart("bar", f"Energy per inference: {about}", *axes, tuple(series))


def _ends(ranges: Sequence[tuple[float, float] | None]) -> tuple[tuple[float | None, ...], tuple[float | None, ...]]:
    return tuple(r[0] if r else None for r in ranges), tuple(r[1] if r else None for r in ranges)
