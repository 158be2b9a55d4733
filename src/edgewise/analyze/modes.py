"""Latencies that live at several levels: where, how much of the time, and how they move between them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from ..core import stats
from ..core.chart import Axis, Chart, Series
from ..core.types import Column, Finding, Section
from . import trust
from ._figures import Figures, Group, about, groups
from .evidence import Evidence, absent
from .summary import spread_series

PLACE = 40

COLUMNS = (
    Column("machine"),
    Column("model"),
    Column("scenario"),
    Column("target"),
    Column("mode", "count"),
    Column("centre", "ns"),
    Column("vs_fastest", "ratio"),
    Column("share", "share"),
    Column("range", "ns_range", 1),
    Column("alternation"),
    Column("dwell", "number"),
)
_MOST_CHARTS = 4
_MOST_SERIES = 8
# Fewer samples cannot show a level of 5 %.
_FEWEST = 20


def run(evidence: Evidence) -> Section:
    """One row for each mode of each latency that has several."""
    found = groups(evidence)
    if not found:
        return absent("Modes", "nothing was measured", "edgewise bench MODEL")
    rows: list[tuple[object, ...]] = []
    findings: list[Finding] = []
    several: dict[Group, list[Figures]] = {}
    for group in found:
        for row in group.members:
            if len(row.modes.modes) > 1:
                several.setdefault(group, []).append(row)
                rows += _cells(row, group)
                findings.append(trust.several_modes(row, trust.name(row.measurement)))
    measured = sum(len(group.members) for group in found)
    short = sum(row.samples.size < _FEWEST for group in found for row in group.members)
    few = f"; {short} of {measured} measurements have fewer than {_FEWEST} runs, too few to tell" if short else ""
    if not rows:
        return absent("Modes", "every latency has one mode" + few, "")
    many = sum(len(each) for each in several.values())
    findings.insert(0, Finding("modes_found", "note", "Modes", (("several", many), ("measured", measured))))
    charts = (*_spreads(several, found), *_phases(several, found))
    return Section("Modes", COLUMNS, tuple(rows), tuple(findings), charts)


def _cells(row: Figures, group: Group) -> list[tuple[object, ...]]:
    key = (group.machine, group.label, group.scenario, group.names[row])
    fastest = row.modes.modes[0].center
    return [
        (
            *key,
            number,
            mode.center,
            mode.center / fastest,
            mode.share,
            (mode.low, mode.high),
            row.modes.alternation,
            row.modes.mean_dwell,
        )
        for number, mode in enumerate(row.modes.modes, 1)
    ]


def _drawn(several: dict[Group, list[Figures]]) -> Sequence[tuple[Group, list[Figures]]]:
    return sorted(several.items(), key=lambda item: -len(item[1]))[:_MOST_CHARTS]


def _spreads(several: dict[Group, list[Figures]], found: Sequence[Group]) -> list[Chart]:
    return [
        Chart(
            "spread",
            f"{about(group, found)}: latencies with several modes",
            Axis("target"),
            Axis("latency", "ns"),
            tuple(spread_series(group.names[row], row) for row in rows[:_MOST_SERIES]),
        )
        for group, rows in _drawn(several)
    ]


def _phases(several: dict[Group, list[Figures]], found: Sequence[Group]) -> list[Chart]:
    """Medians of rounds over time; only of those that stay in a mode long enough for a round to show it."""
    charts = []
    phased = {group: own for group, rows in several.items() if (own := [row for row in rows if _stays(row)])}
    for group, rows in _drawn(phased):
        series = tuple(_over_time(group.names[row], row) for row in rows[:_MOST_SERIES])
        title = f"{about(group, found)}: medians of rounds over time"
        charts.append(Chart("line", title, Axis("time", "ns"), Axis("latency", "ns"), series))
    return charts


def _stays(row: Figures) -> bool:
    rounds = [len(r.samples_ns) for r in row.measurement.measured if r.samples_ns]
    return row.modes.alternation == "phases" and row.modes.mean_dwell >= stats.quantile(rounds, 0.5)


def _over_time(name: str, row: Figures) -> Series:
    """Each start begins anew, with a gap where one process ended and the next had to load."""
    rounds = [r for r in row.measurement.measured if r.samples_ns]
    x: list[float] = []
    y: list[float | None] = []
    first = rounds[0].started_ns
    for _, of_start in groupby(rounds, key=lambda r: r.start):
        if x:
            x.append(x[-1])
            y.append(None)
        for each in of_start:
            x.append(each.started_ns - first)
            y.append(stats.quantile(each.samples_ns, 0.5))
    return Series(name, tuple(x), tuple(y), stroke="line")
