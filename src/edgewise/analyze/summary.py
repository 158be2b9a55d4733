"""Ranked latencies: quantiles with intervals, throughput, load, first run, memory, agreement."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np

from ..core import stats
from ..core.chart import Axis, Chart, Series
from ..core.types import Column, Finding, Section
from . import trust
from ._figures import Figures, Group, about, figures, groups, ranks, sampled
from .evidence import Evidence, absent

PLACE = 20

__all__ = ["COLUMNS", "PLACE", "Figures", "brief", "figures", "ranked", "run", "spread_charts"]

# What only a report has room for.
_REPORT_ONLY = 9
COLUMNS = (
    Column("rank", "count"),
    Column("model"),
    Column("scenario"),
    Column("target"),
    Column("machine"),
    Column("p50", "ns"),
    Column("interval", "ns_range"),
    Column("vs_best", "ratio"),
    Column("p90", "ns"),
    Column("p99", "ns", 1),
    Column("per_s", "rate", 2),
    Column("runs", "count", 4),
    Column("load", "ns", 4),
    Column("first", "ns", 4),
    Column("memory", "bytes", 3),
    Column("error", "error"),
    Column("p90_interval", "ns_range", _REPORT_ONLY),
    Column("p99_interval", "ns_range", _REPORT_ONLY),
    Column("mean", "ns", _REPORT_ONLY),
    Column("std", "ns", _REPORT_ONLY),
    Column("min", "ns", _REPORT_ONLY),
    Column("max", "ns", _REPORT_ONLY),
)
# More distributions than this side by side, and more drawings than that below one another, nobody reads.
_MOST_SERIES = 24
_MOST_CHARTS = 8
# Order statistics that draw a distribution as well as all samples do.
_MOST_SAMPLES = 1000


def ranked(rows: Sequence[Figures]) -> list[tuple[int | None, Figures]]:
    """Rank = 1 + how many are demonstrably better, so those whose intervals overlap share one.

    Wrong answers have no rank, however quick, and come last.
    """
    right = [row for row in rows if not trust.wrong(row.measurement)]
    found: list[tuple[int | None, Figures]] = list(zip(ranks([row.cost for row in right]), right, strict=True))
    found.sort(key=lambda pair: (pair[0] or 0, pair[1].cost.estimate))
    return found + [(None, row) for row in rows if trust.wrong(row.measurement)]


def run(evidence: Evidence, *, bound: tuple[float, float] | None = None) -> Section:
    """One table of all, ranked where a machine, a model and a load are the same. `bound` is a claim to certify."""
    found = groups(evidence)
    if not found:
        return absent("Summary", "nothing was measured", "edgewise bench MODEL")
    findings: list[Finding] = []
    measured = [m for m in evidence.measurements if sampled(m)]
    often = Counter((m.machine, trust.name(m)) for m in measured)
    for m in measured:
        # Measured twice, under protocols that differ: the whole text tells which of them it is.
        twice = often[m.machine, trust.name(m)] > 1
        findings += trust.findings(m, f"{m.label} on {m.task.placement}, {m.task.scenario}" if twice else None)
        if bound:
            findings.append(_certified(figures(m), *bound))
    rows: list[tuple[object, ...]] = []
    for group in found:
        order = ranked(group.members)
        for rank, row in order:
            rows.append(_cells(rank, row, order[0][1], group))
        findings += _answers(order, group, about(group, found))
    charts, cut = spread_charts(found)
    return Section("Summary", COLUMNS, tuple(rows), (*findings, *cut), charts)


def brief(section: Section) -> Section:
    """Without what only a report has room for."""
    kept = [index for index, column in enumerate(section.columns) if column.spare < _REPORT_ONLY]
    columns = tuple(section.columns[index] for index in kept)
    rows = tuple(tuple(row[index] for index in kept) for row in section.rows)
    return replace(section, columns=columns, rows=rows)


def _cells(rank: int | None, row: Figures, best: Figures, group: Group) -> tuple[object, ...]:
    m, samples = row.measurement, row.samples
    start = m.starts[0]
    return (
        rank,
        m.label,
        group.scenario,
        group.names[row],
        group.machine,
        row.p50,
        (row.median.low, row.median.high) if row.median else None,
        row.cost.estimate / best.cost.estimate,
        *(stats.quantile(samples, p) if stats.carries(samples.size, p) else None for p in (0.9, 0.99)),
        row.per_s,
        samples.size,
        start.load_ns,
        start.first_ns,
        m.peak_bytes,
        start.agreement.error if start.agreement else None,
        row.interval(0.9),
        row.interval(0.99),
        float(samples.mean()),
        float(samples.std(ddof=1)) if samples.size > 1 else None,
        float(samples.min()),
        float(samples.max()),
    )


def _certified(row: Figures, p: float, bound_ns: float) -> Finding:
    """Whether the claim "p of the runs take at most this long" holds with 99 % confidence."""
    found = stats.certify(row.samples, bound_ns, p)
    code = "certified" if found.certified else "refuted" if found.refuted else "undecided"
    values = (("share", found.over / found.n), ("upper", found.rate_upper), ("p", p), ("bound_ns", bound_ns))
    return Finding(code, "note" if found.certified else "caution", trust.name(row.measurement), values)


def _answers(order: Sequence[tuple[int | None, Figures]], group: Group, what: str) -> list[Finding]:
    """What the ranking says, and what it leaves open."""
    best = order[0][1]
    target = group.names[best]
    ties = [group.names[row] for rank, row in order[1:] if rank == 1]
    if len(order) == 1 or order[0][0] is None:
        return []
    if best.by_throughput and not ties:
        return [Finding("most", "note", what, (("target", target), ("per_s", best.per_s)))]
    if ties:
        return [Finding("tie", "note", what, (("target", target), ("ties", ", ".join(ties)), ("p50_ns", best.p50)))]
    return [Finding("fastest", "note", what, (("target", target), ("p50_ns", best.p50)))]


def spread_charts(found: Collection[Group]) -> tuple[tuple[Chart, ...], list[Finding]]:
    """Every sample's place, one drawing for each model and machine under the load most targets were measured under;
    and what there was no room for."""
    chosen: dict[tuple[str, str, str], Group] = {}
    for group in found:
        key = (group.machine, group.subject, group.label)
        if key not in chosen or len(group.members) > len(chosen[key].members):
            chosen[key] = group
    drawn = sorted(chosen.values(), key=lambda group: -len(group.members))[:_MOST_CHARTS]
    charts, cut = [], []
    for group in drawn:
        order = sorted(group.members, key=lambda row: row.p50)
        series = [spread_series(_named(row, group), row) for row in order[:_MOST_SERIES]]
        title = f"{about(group, found)}: latency of every run"
        charts.append(Chart("spread", title, Axis("target"), Axis("latency", "ns"), tuple(series)))
        if len(order) > _MOST_SERIES:
            cut.append(_cut(about(group, found), _MOST_SERIES, len(order), "targets"))
    if len(drawn) < len(chosen):
        cut.append(_cut("Summary", len(drawn), len(chosen), "models"))
    return tuple(charts), cut


def _named(row: Figures, group: Group) -> str:
    return group.names[row] + (" (wrong answers)" if trust.wrong(row.measurement) else "")


def _cut(what: str, drawn: int, of: int, noun: str) -> Finding:
    return Finding("drawn", "note", what, (("drawn", drawn), ("of", of), ("noun", noun)))


def spread_series(name: str, row: Figures) -> Series:
    """All samples, or of very many evenly spaced order statistics, the smallest and the largest among them."""
    ordered = np.sort(row.samples)
    if ordered.size > _MOST_SAMPLES:
        ordered = ordered[np.linspace(0, ordered.size - 1, _MOST_SAMPLES).round().astype(np.int64)]
    return Series(name, (), tuple(ordered.tolist()))
