"""Ranked latencies: quantiles with intervals, throughput, load, first run, memory, agreement."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
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
    Column("p99", "ns", 1),
    Column("per_s", "rate", 2),
    Column("runs", "count", 4),
    Column("load", "ns", 4),
    Column("first", "ns", 4),
    Column("memory", "bytes", 3),
    Column("error", "error"),
)


@dataclass(frozen=True, slots=True)
class Row:
    """One measurement's figures, raw. `cost` is what it is ranked by: nanoseconds, less is better."""

    measurement: Measurement
    p50: float
    interval: stats.Interval | None
    per_s: float
    cost: float
    cost_low: float
    cost_high: float


def figures(measurement: Measurement) -> Row:
    """Ranked by median latency; by time per item, round by round, where throughput is the question."""
    samples, batch = measurement.samples_ns, measurement.task.scenario.batch
    rounds = [r for r in measurement.measured if r.samples_ns]
    # A server's rounds leave out the pauses without answers; the round that spans the whole stream has no samples.
    whole = sum(r.elapsed_ns for r in measurement.measured if not r.samples_ns)
    per_s = len(samples) * batch / (whole or sum(r.elapsed_ns for r in rounds)) * 1e9
    interval = stats.interval_at_stop(samples)
    costs: Sequence[float] = samples
    if _by_throughput(measurement):
        costs = [r.elapsed_ns / (len(r.samples_ns) * batch) for r in rounds]
    bounds = stats.interval_at_stop(costs)
    if bounds:
        low, high = bounds.low, bounds.high
    else:
        # A drifting or short series has no interval; its middle half is the least one can say about where it was.
        low, high = stats.quantile(costs, 0.25), stats.quantile(costs, 0.75)
    return Row(measurement, stats.quantile(samples, 0.5), interval, per_s, stats.quantile(costs, 0.5), low, high)


def _by_throughput(measurement: Measurement) -> bool:
    return measurement.task.scenario.kind in ("offline", "concurrent")


def ranked(rows: Sequence[Row]) -> list[tuple[int | None, Row]]:
    """Rank = 1 + how many are demonstrably better, so those whose intervals overlap share one.

    Wrong answers have no rank, however quick, and come last.
    """
    right = [row for row in rows if not trust.wrong(row.measurement)]
    ranks: list[tuple[int | None, Row]] = [
        (1 + sum(other.cost_high < row.cost_low for other in right), row) for row in right
    ]
    ranks.sort(key=lambda pair: (pair[0], pair[1].cost))
    return ranks + [(None, row) for row in rows if trust.wrong(row.measurement)]


def run(measurements: Sequence[Measurement], *, bound: tuple[float, float] | None = None) -> Section:
    groups: dict[tuple[str, str, str], list[Row]] = defaultdict(list)
    findings: list[Finding] = []
    for measurement in measurements:
        if measurement.samples_ns:
            key = (measurement.task.subject, measurement.label, str(measurement.task.scenario))
            groups[key].append(figures(measurement))
            findings += trust.findings(measurement)
            if bound:
                findings.append(_certified(measurement, *bound))
    rows: list[tuple[object, ...]] = []
    for group in groups.values():
        order = ranked(group)
        best = order[0][1]
        for rank, row in order:
            rows.append(_cells(rank, row, best))
        findings += _answers(order, _about(best.measurement, groups))
    return Section("Ranking", COLUMNS, tuple(rows), tuple(findings))


def _cells(rank: int | None, row: Row, best: Row) -> tuple[object, ...]:
    m, samples = row.measurement, row.measurement.samples_ns
    start = m.starts[0]
    return (
        rank,
        m.label,
        str(m.task.scenario),
        str(m.task.placement),
        row.p50,
        (row.interval.low, row.interval.high) if row.interval else None,
        row.cost / best.cost,
        *(stats.quantile(samples, p) if stats.carries(len(samples), p) else None for p in (0.9, 0.99)),
        row.per_s,
        len(samples),
        start.load_ns,
        start.first_ns,
        m.peak_bytes,
        start.agreement.error if start.agreement else None,
    )


def _certified(measurement: Measurement, p: float, bound_ns: float) -> Finding:
    """Whether the claim "p of the runs take at most this long" holds with 99 % confidence."""
    found = stats.certify(measurement.samples_ns, bound_ns, p)
    code = "certified" if found.certified else "refuted" if found.refuted else "undecided"
    values = (("share", found.over / found.n), ("upper", found.rate_upper), ("p", p), ("bound_ns", bound_ns))
    return Finding(code, "note" if found.certified else "caution", trust.name(measurement), values)


def _about(measurement: Measurement, groups: Collection[tuple[str, str, str]]) -> str:
    """The model, the scenario, or both: what tells this group from the others."""
    models, scenarios = {model for model, _, _ in groups}, {scenario for _, _, scenario in groups}
    if len(scenarios) == 1:
        return measurement.label
    scenario = str(measurement.task.scenario)
    return scenario if len(models) == 1 else f"{measurement.label}, {scenario}"


def _answers(order: Sequence[tuple[int | None, Row]], about: str) -> list[Finding]:
    """What the ranking says, and what it leaves open."""
    best = order[0][1]
    target = str(best.measurement.task.placement)
    ties = [str(row.measurement.task.placement) for rank, row in order[1:] if rank == 1]
    if len(order) == 1 or order[0][0] is None:
        return []
    if _by_throughput(best.measurement) and not ties:
        return [Finding("most", "note", about, (("target", target), ("per_s", best.per_s)))]
    if ties:
        return [Finding("tie", "note", about, (("target", target), ("ties", ", ".join(ties)), ("p50_ns", best.p50)))]
    return [Finding("fastest", "note", about, (("target", target), ("p50_ns", best.p50)))]
