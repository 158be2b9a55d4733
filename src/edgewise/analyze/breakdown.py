"""Where the time of one inference goes: operator times by kind, beside the latency nobody was watching."""

from __future__ import annotations

from collections import defaultdict

from ..core import stats
from ..core.types import Column, Finding, OpTime, Profile, Section

COLUMNS = (
    Column("operator"),
    Column("count", "count"),
    Column("time", "ns"),
    Column("share", "share"),
    Column("slowest"),
    Column("slowest_time", "ns"),
)


def typical_ns(op: OpTime) -> float:
    """Of one run: the median, since one interrupted run in a hundred is not the operator's."""
    return stats.quantile(op.samples_ns, 0.5)


def run(profile: Profile) -> Section:
    """Rows by operator kind, largest first; times as measured, never scaled to fit."""
    kinds: dict[str, list[OpTime]] = defaultdict(list)
    for op in profile.ops:
        if op.samples_ns:
            kinds[op.operator].append(op)
    plain = stats.quantile(profile.plain_ns, 0.5)
    rows = []
    for kind, ops in kinds.items():
        slowest = max(ops, key=typical_ns)
        total = sum(map(typical_ns, ops))
        rows.append((kind, len(ops), total, total / plain, slowest.name, typical_ns(slowest)))
    rows.sort(key=lambda row: -row[2])
    values = (
        ("plain_ns", plain),
        ("instrumented_ns", stats.quantile(profile.instrumented_ns, 0.5)),
        ("sum_ns", sum(row[2] for row in rows)),
        ("runs", len(profile.plain_ns)),
    )
    about = f"{profile.label} on {profile.task.placement}"
    return Section("Breakdown", COLUMNS, tuple(rows), (Finding("profiled", "note", about, values),))
