"""Ways to lay a model over several processors: what was expected, what was measured, and which one to use."""

from __future__ import annotations

from collections.abc import Iterator

from ..core.types import Column, Finding, Section
from ..core.ways import Way, Ways, chosen
from .evidence import Evidence, absent

PLACE = 66
TITLE = "Ways over several processors"
COLUMNS = (
    Column("model"),
    Column("use"),
    Column("competing", "count"),
    Column("placement"),
    Column("cost", "ns"),
    Column("predicted", "ns"),
    Column("off", "ratio", 3),
    Column("speed", "ratio"),
    Column("interval", "ratio_range"),
    Column("dropped", "share"),
    Column("verdict"),
)


def run(evidence: Evidence) -> Section:
    if not evidence.ways:
        return absent(TITLE, "no model was laid over several targets", "edgewise parallel MODEL --over A --over B")
    rows = [row for each in evidence.ways for row in _rows(each)]
    findings = [finding for each in evidence.ways for finding in _findings(each)]
    return Section(TITLE, COLUMNS, tuple(rows), tuple(findings))


def capped(ways: Ways) -> Section:
    columns = (Column("placement"), Column("cap", "share"), Column("per_s", "rate"), Column("dropped", "share"))
    rows = tuple((str(each.placement), each.cap, each.per_s, each.dropped) for each in ways.capped)
    return Section("At work for a share of the time", columns, rows)


def _groups(ways: Ways) -> list[tuple[str, int]]:
    return list(dict.fromkeys((way.use, way.competing) for way in ways.ways))


def _rows(ways: Ways) -> Iterator[tuple[object, ...]]:
    for use, load in _groups(ways):
        best = chosen(ways.ways, use, load)  # type: ignore[arg-type]
        for way in ways.ways:
            if (way.use, way.competing) == (use, load):
                off = way.cost_ns / way.predicted_ns if way.cost_ns and way.predicted_ns else None
                yield (
                    ways.label,
                    use,
                    load,
                    str(way.placement),
                    way.cost_ns,
                    way.predicted_ns,
                    off,
                    way.ratio[1] if way.ratio else None,
                    (way.ratio[0], way.ratio[2]) if way.ratio else None,
                    way.dropped,
                    _verdict(way, best),
                )


def _verdict(way: Way, best: Way | None) -> str:
    if way.cost_ns is None:
        return "does not run"
    if way is best:
        return "use this"
    if way.ratio is None:
        return "best alone" if best is not None and not best.single and way.single and not way.than else ""
    low, _, high = way.ratio
    return "faster" if low > 1 else "slower" if high < 1 else "no difference"


def _findings(ways: Ways) -> Iterator[Finding]:
    for use, load in _groups(ways):
        best = chosen(ways.ways, use, load)  # type: ignore[arg-type]
        if best is None:
            continue
        about = f"{ways.label}, {use}" + (f", {load} competing" if load else "")
        if best.single:
            yield Finding("way_alone", "note", about, (("placement", str(best.placement)), ("cost_ns", best.cost_ns)))
            continue
        assert best.ratio is not None
        low, estimate, high = best.ratio
        values = (("placement", str(best.placement)), ("than", best.than), ("ratio", estimate), ("low", low))
        yield Finding("way_wins", "note", about, (*values, ("high", high)))
    for way in ways.ways:
        if way.reason:
            yield Finding("way_refused", "note", f"{ways.label} on {way.placement}", (("reason", way.reason),))
    if ways.idle_dropped is not None:
        worst = max((way for way in ways.ways if way.dropped is not None), key=lambda w: w.dropped or 0, default=None)
        if worst is not None:
            dropped = (("idle", ways.idle_dropped), ("worst", worst.dropped), ("placement", str(worst.placement)))
            yield Finding("foreground", "note", ways.label, dropped)
