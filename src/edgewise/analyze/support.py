"""What targets do with the operators of a model, and into how many pieces that cuts it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby

from ..core.chart import Axis, Chart, Series
from ..core.support import Support
from ..core.types import Column, Finding, Section, Verdict
from .evidence import Evidence, absent

PLACE = 100
TITLE = "Operator support"
COLUMNS = (
    Column("machine"),
    Column("model"),
    Column("target"),
    Column("operators", "count"),
    Column("supported", "count"),
    Column("falls_back", "count"),
    Column("rejected", "count"),
    Column("wrong", "count"),
    Column("unsupported", "share"),
    Column("partitions", "count"),
    Column("largest", "share"),
    Column("crossing", "bytes"),
    Column("tried"),
    Column("error", "error"),
)
# From the worst to the best.
VERDICTS = ("wrong", "rejected", "falls back", "supported")


def run(evidence: Evidence) -> Section:
    """Rows are models on targets; partitions are predicted from the verdicts, `tried` says what loading came to."""
    if not evidence.supports:
        return absent(TITLE, "no target was asked which operators it has", "edgewise support MODEL --save lab.db")
    rows = tuple(_row(found, evidence) for found in evidence.supports)
    findings = tuple(finding for found in evidence.supports for finding in _findings(found))
    charts = tuple(
        _chart(label, list(same)) for label, same in groupby(sorted(evidence.supports, key=_model), key=_model)
    )
    return Section(TITLE, COLUMNS, rows, findings, charts)


def operators(supports: Sequence[Support]) -> Section:
    """Rows are operators, columns targets; a cell is the worst that befell a node of that operator."""
    counts: Counter[str] = Counter()
    for found in supports:
        counts |= Counter(v.operator for v in found.verdicts)
    rows = []
    for operator, count in counts.most_common():
        cells: list[str | None] = []
        for found in supports:
            mine = Counter(str(v.verdict) for v in found.verdicts if v.operator == operator)
            worst = next((word for word in VERDICTS if mine[word]), None)
            some = f" ({mine[worst]} of {mine.total()})" if worst and mine[worst] < mine.total() else ""
            cells.append(worst + some if worst else None)
        rows.append((operator, count, *cells))
    columns = (Column("operator"), Column("nodes", "count"), *(Column(str(found.placement)) for found in supports))
    return Section("Operators", columns, tuple(rows))


def introduced(before: Sequence[Support], after: Sequence[Support]) -> Section:
    """What a cut adds to a model, and what the targets do with that. Both in the same order of targets."""
    was, now = (Counter(v.operator for v in found[0].verdicts) for found in (before, after))
    more = {operator: now[operator] - was[operator] for operator in now if now[operator] > was[operator]}
    rows = []
    for operator, count in sorted(more.items(), key=lambda pair: -pair[1]):
        cells = []
        for found in after:
            mine = Counter(str(v.verdict) for v in found.verdicts if v.operator == operator)
            cells.append(next((word for word in VERDICTS if mine[word]), None))
        rows.append((operator, was[operator], now[operator], count, *cells))
    counts = (Column("before", "count"), Column("after", "count"), Column("added", "count"))
    columns = (Column("operator"), *counts, *(Column(str(found.placement)) for found in after))
    worst = max(range(len(after)), key=lambda place: _share(after[place]))
    values = (
        ("added", sum(more.values())),
        ("joins", more.get("Concat", 0) + more.get("Slice", 0)),
        ("before", _share(before[worst])),
        ("after", _share(after[worst])),
    )
    finding = Finding("cut_adds", "note", str(after[worst].placement), values)
    return Section("What the cut adds", columns, tuple(rows), (finding,))


def _share(found: Support) -> float:
    """Of the operators, those that the target does not run itself."""
    return sum(v.verdict != "supported" for v in found.verdicts) / max(1, len(found.verdicts))


def _model(found: Support) -> str:
    return found.label


def _row(found: Support, evidence: Evidence) -> tuple[object, ...]:
    counts, total = _counts(found), len(found.verdicts)
    machine = evidence.machines.get(found.machine)
    return (
        machine.label if machine else found.machine,
        found.label,
        str(found.placement),
        total,
        *(counts[word] for word in reversed(VERDICTS)),
        (total - counts["supported"]) / total if total else None,
        len(found.partitions) or None,
        _largest(found),
        _crossing(found),
        _outcome(found),
        found.error,
    )


def _counts(found: Support) -> Counter[str]:
    return Counter(str(verdict.verdict) for verdict in found.verdicts)


def _outcome(found: Support) -> str | None:
    """Whether loading it came to what the verdicts said."""
    if found.failure is not None:
        return "did not run, as told" if _counts(found)["rejected"] else "did not run, though told it would"
    if found.ran_on is None:
        return None
    counts = _counts(found)
    if counts["rejected"]:
        return "runs, though told it would not"
    if len(found.ran_on) > 1 and not counts["falls back"]:
        return "runs on several devices, though told on one"
    return "runs, as told"


def _findings(found: Support) -> Iterator[Finding]:
    about = f"{found.label} on {found.placement}"
    counts, pieces = _counts(found), found.partitions
    if counts["supported"] == len(found.verdicts) and found.failure is None:
        yield Finding("all_supported", "note", about, (("operators", len(found.verdicts)),))
    if len(pieces) > 1:
        values = (("partitions", len(pieces)), ("crossing_bytes", _crossing(found)), ("largest", _largest(found)))
        yield Finding("fragmented", "caution", about, values)
    outcome = _outcome(found)
    if outcome and "though" in outcome:
        yield Finding("contradicted", "caution", about, (("outcome", outcome), ("reason", found.failure)))
    for verdict in found.verdicts:
        if verdict.verdict != "supported":
            yield _finding(str(found.placement), verdict)


def _crossing(found: Support) -> int | None:
    """Bytes that pass from one piece to another in one run."""
    sizes = [piece.entering_bytes for piece in found.partitions]
    known = [size for size in sizes if size is not None]
    return sum(known) if sizes and len(known) == len(sizes) else None


def _largest(found: Support) -> float | None:
    done = [piece.multiply_adds for piece in found.partitions if piece.multiply_adds is not None]
    return max(done) / sum(done) if sum(done) else None


def _finding(target: str, v: Verdict) -> Finding:
    about = f"{v.operator} on {target}"
    values = (("node", v.node), ("operator", v.operator), ("device", v.device), ("reason", v.reason))
    if v.verdict == "wrong":
        return Finding("operator_wrong", "problem", about, values)
    if v.verdict == "rejected":
        return Finding("operator_rejected", "problem", about, values)
    return Finding("operator_falls_back", "caution", about, values)


def _chart(label: str, supports: Sequence[Support]) -> Chart:
    """The share of operators that a target does not have, among all."""
    targets = tuple(str(found.placement) for found in supports)
    series = []
    for word in reversed(VERDICTS):
        shares = tuple(_counts(found)[word] / max(1, len(found.verdicts)) for found in supports)
        if any(shares):
            series.append(Series(word, targets, shares))
    return Chart("stack", f"Operators of {label}", Axis("target"), Axis("share of operators", "share"), tuple(series))
