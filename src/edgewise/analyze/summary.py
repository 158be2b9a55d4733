"""Ranked latencies: quantiles with intervals, throughput, load, first run, memory, agreement."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from ..core import stats
from ..core.types import Column, Finding, Measurement, Section
from . import trust

COLUMNS = (
    Column("rank", "count"),
    Column("model"),
    Column("scenario"),
    Column("target"),
    Column("p50", "ns"),
    Column("interval", "ns_range"),
    Column("vs_best", "ratio"),
    Column("p90", "ns"),
    Column("p99", "ns"),
    Column("per_s", "rate"),
    Column("runs", "count"),
    Column("load", "ns"),
    Column("first", "ns"),
    Column("memory", "bytes"),
    Column("error", "error"),
)


@dataclass(frozen=True, slots=True)
class Row:
    """One measurement's figures, raw."""

    measurement: Measurement
    p50: float
    interval: stats.Interval | None
    per_s: float

    @property
    def low(self) -> float:
        return self.interval.low if self.interval else self._quartile(0.25)

    @property
    def high(self) -> float:
        return self.interval.high if self.interval else self._quartile(0.75)

    def _quartile(self, p: float) -> float:
        # A drifting series has no interval; its middle half is the least one can say about where it was.
        return stats.quantile(self.measurement.samples_ns, p)


def figures(measurement: Measurement) -> Row:
    samples = measurement.samples_ns
    elapsed = sum(r.elapsed_ns for r in measurement.measured if r.samples_ns)
    items = len(samples) * measurement.task.scenario.batch
    return Row(measurement, stats.quantile(samples, 0.5), stats.interval(samples), items / elapsed * 1e9)


def ranked(rows: Sequence[Row]) -> list[tuple[int, Row]]:
    """By median latency (by throughput where that is the question). Rank = 1 + how many are demonstrably faster, so
    those whose intervals overlap share one."""
    throughput = rows[0].measurement.task.scenario.kind in ("offline", "concurrent")
    if throughput:
        ordered = sorted(rows, key=lambda row: -row.per_s)
        return [(1 + i, row) for i, row in enumerate(ordered)]
    ranks = [(1 + sum(other.high < row.low for other in rows), row) for row in rows]
    return sorted(ranks, key=lambda pair: (pair[0], pair[1].p50))


def run(measurements: Sequence[Measurement], *, cores: int = 1) -> Section:
    groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
    findings: list[Finding] = []
    for measurement in measurements:
        if measurement.samples_ns:
            groups[measurement.label, str(measurement.task.scenario)].append(figures(measurement))
            findings += trust.findings(measurement, cores)
    rows: list[tuple[object, ...]] = []
    for group in groups.values():
        order = ranked(group)
        best = order[0][1]
        for rank, row in order:
            rows.append(_cells(rank, row, best))
        findings += _answers(order)
    return Section("Ranking", COLUMNS, tuple(rows), tuple(findings))


def _cells(rank: int, row: Row, best: Row) -> tuple[object, ...]:
    m, samples = row.measurement, row.measurement.samples_ns
    start = m.starts[0]
    throughput = m.task.scenario.kind in ("offline", "concurrent")
    return (
        rank,
        m.label,
        str(m.task.scenario),
        str(m.task.placement),
        row.p50,
        (row.interval.low, row.interval.high) if row.interval else None,
        best.per_s / row.per_s if throughput else row.p50 / best.p50,
        *(stats.quantile(samples, p) if stats.carries(len(samples), p) else None for p in (0.9, 0.99)),
        row.per_s,
        len(samples),
        start.load_ns,
        start.first_ns,
        m.peak_bytes,
        start.agreement.error if start.agreement else None,
    )


def _answers(order: Sequence[tuple[int, Row]]) -> list[Finding]:
    """What the ranking says, and what it leaves open."""
    best = order[0][1]
    about = f"{best.measurement.label}, {best.measurement.task.scenario}"
    target = str(best.measurement.task.placement)
    found = [Finding("fastest", "note", about, (("target", target), ("p50_ns", best.p50)))]
    ties = [str(row.measurement.task.placement) for rank, row in order[1:] if rank == 1]
    if ties:
        found.append(Finding("tie", "note", about, (("target", target), ("ties", ", ".join(ties)))))
    return found
