"""What each target does with each operator of a model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from ..core.types import Column, Finding, Section, Verdict

_ORDER = ("rejected", "falls back", "supported")


def run(verdicts: Mapping[str, Sequence[Verdict]]) -> Section:
    """Rows are operators, columns targets; a cell is the worst that befell a node of that operator."""
    operators: Counter[str] = Counter()
    for found in verdicts.values():
        operators |= Counter(v.operator for v in found)
    rows = []
    for operator, count in operators.most_common():
        cells: list[str | None] = []
        for found in verdicts.values():
            mine = Counter(str(v.verdict) for v in found if v.operator == operator)
            worst = next((word for word in _ORDER if mine[word]), None)
            some = f" ({mine[worst]} of {mine.total()})" if worst and mine[worst] < mine.total() else ""
            cells.append(worst + some if worst else None)
        rows.append((operator, count, *cells))
    findings = [
        _finding(target, verdict)
        for target, found in verdicts.items()
        for verdict in found
        if verdict.verdict != "supported"
    ]
    columns = (Column("operator"), Column("nodes", "count"), *(Column(target) for target in verdicts))
    return Section("Operator support", columns, tuple(rows), tuple(findings))


def _finding(target: str, v: Verdict) -> Finding:
    about = f"{v.operator} on {target}"
    values = (("node", v.node), ("operator", v.operator), ("device", v.device), ("reason", v.reason))
    if v.verdict == "rejected":
        return Finding("operator_rejected", "problem", about, values)
    return Finding("operator_falls_back", "caution", about, values)
