"""Who is best at what: latency, stability, efficiency and consistency, with ties where nothing can be told apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..core.chart import Axis, Chart, Series
from ..core.types import Column, Finding, Scalar, Section
from . import trust
from ._figures import Bounds, Figures, Group, about, groups, ranks
from .evidence import Evidence, absent

PLACE = 30

CRITERIA = ("latency", "stability", "efficiency", "consistency")
COLUMNS = (
    Column("machine"),
    Column("model"),
    Column("scenario"),
    Column("target"),
    Column("latency", "count"),
    Column("stability", "count"),
    Column("efficiency", "count"),
    Column("consistency", "count"),
    Column("p50", "ns"),
    Column("p90_over_p10", "ratio"),
    Column("spread_interval", "ratio_range", 3),
    Column("modes", "count", 2),
    Column("main_mode", "share", 2),
    Column("energy", "uj"),
    Column("energy_source", "text", 2),
    Column("core_time", "ns"),
    Column("unevenness", "share"),
    Column("drift", "percent_change", 1),
)
# Runs that differ by more than this in length are not compared for consistency: where levels wander slowly, one in five
# pairs of equals at 1:4 was told apart, one in fourteen at 1:1.5, as at 1:1.
_AS_LONG = 1.5
_MOST_CHARTS = 8
_MOST_BARS = 40


@dataclass(frozen=True, eq=False)
class Ranked:
    """One target's places, in the order of CRITERIA; none where its answers are wrong or the figure is missing."""

    figures: Figures
    places: tuple[int | None, ...]
    wrong: bool

    def place(self, criterion: str) -> int | None:
        return self.places[CRITERIA.index(criterion)]


def run(evidence: Evidence) -> Section:
    """Each criterion for itself: a sum of places would weigh them in a way nobody asked for."""
    found = groups(evidence)
    if not found:
        return absent("Ranking", "nothing was measured", "edgewise bench MODEL")
    rows: list[tuple[object, ...]] = []
    findings: list[Finding] = []
    for group in found:
        measure = efficiency(_right(group))
        order = ranked(group)
        rows += [_cells(each, group, measure) for each in order]
        findings += _findings(order, group, measure, about(group, found))
    return Section("Ranking", COLUMNS, tuple(rows), tuple(findings), _charts(found))


def efficiency(rows: Sequence[Figures]) -> str | None:
    """What all of them can be compared by: "joules" of the same meters, else "core_ns", else nothing."""
    kinds = {row.joules.like if row.joules else None for row in rows}
    if len(kinds) == 1 and None not in kinds:
        return "joules"
    return "core_ns" if rows and all(row.core_ns for row in rows) else None


def effort(row: Figures, measure: str | None) -> Bounds | None:
    """What one item takes, by what `efficiency` found; None where that cannot be told from idling."""
    if measure == "joules":
        return row.joules.told if row.joules else None
    return row.core_ns if measure == "core_ns" else None


def _right(group: Group) -> list[Figures]:
    return [each for each in group.members if not trust.wrong(each.measurement)]


def ranked(group: Group) -> list[Ranked]:
    """By latency, then by median; wrong answers, which have no place, last."""
    right = _right(group)
    measure = efficiency(right)
    places = [
        ranks([each.cost for each in right]),
        ranks([each.spread for each in right]),
        ranks([effort(each, measure) for each in right]),
        ranks(_evenness(right)),
    ]
    order = [Ranked(each, own, False) for each, own in zip(right, zip(*places, strict=True), strict=True)]
    order.sort(key=lambda each: (each.places[0] or 0, each.figures.cost.estimate))
    nowhere = (None,) * len(CRITERIA)
    return order + [Ranked(each, nowhere, True) for each in group.members if trust.wrong(each.measurement)]


def _evenness(rows: Sequence[Figures]) -> list[Bounds | None]:
    """Of as many as possible that lasted about as long: more happens in a long run than in a short one."""
    lasted = [row.lasted_ns for row in rows]
    alike = {ns: [ns <= other <= ns * _AS_LONG for other in lasted] for ns in lasted}
    chosen = max(alike.values(), key=sum, default=[])
    if sum(chosen) < 2 <= len(rows):
        return [None] * len(rows)
    return [row.unevenness if one else None for row, one in zip(rows, chosen, strict=True)]


def _cells(each: Ranked, group: Group, measure: str | None) -> tuple[object, ...]:
    row = each.figures
    return (
        group.machine,
        group.label,
        group.scenario,
        group.names[row],
        *each.places,
        row.p50,
        row.spread.estimate if row.spread else None,
        (row.spread.low, row.spread.high) if row.spread else None,
        len(row.modes.modes),
        max(mode.share for mode in row.modes.modes),
        row.joules.uj.estimate if row.joules else None,
        row.joules.said if row.joules else None,
        row.core_ns.estimate if row.core_ns and measure != "joules" else None,
        row.unevenness.estimate if row.unevenness else None,
        row.drift.change if row.drifts else None,
    )


def _findings(order: Sequence[Ranked], group: Group, measure: str | None, what: str) -> list[Finding]:
    right = [each for each in order if not each.wrong]
    if len(right) < 2:
        return []
    values: list[tuple[str, Scalar]] = []
    for criterion in CRITERIA:
        best = _first(right, criterion, measure)
        if best is None:
            values.append((criterion, None))
            continue
        ties = [group.names[e.figures] for e in right if e is not best and e.place(criterion) == 1]
        figure = _figure(best.figures, criterion, measure)
        values += [(criterion, group.names[best.figures]), (f"{criterion}_figure", figure)]
        values += [(f"{criterion}_ties", len(ties)), (f"{criterion}_tied", ", ".join(ties))]
    values += [("targets", len(right)), ("by", measure), ("by_throughput", right[0].figures.by_throughput)]
    joules = right[0].figures.joules
    values += [("source", joules.source if joules and measure == "joules" else None)]
    found = [Finding("ranked", "note", what, tuple(values))]
    quickest, steadiest = right[0], _first(right, "stability", measure)
    if steadiest is not None and (quickest.place("stability") or 1) > 1:
        found.append(_trade(quickest.figures, steadiest.figures, group, what))
    return found


def _trade(quickest: Figures, steadiest: Figures, group: Group, what: str) -> Finding:
    assert quickest.spread and steadiest.spread
    values: tuple[tuple[str, Scalar], ...] = (
        ("quickest", group.names[quickest]),
        ("quickest_ns", quickest.p50),
        ("quickest_spread", quickest.spread.estimate),
        ("steadiest", group.names[steadiest]),
        ("steadiest_ns", steadiest.p50),
        ("steadiest_spread", steadiest.spread.estimate),
    )
    return Finding("quick_but_uneven", "caution", what, values)


def _first(right: Sequence[Ranked], criterion: str, measure: str | None) -> Ranked | None:
    """Of those in the first place, the one with the best estimate."""
    first = [each for each in right if each.place(criterion) == 1]
    return min(first, key=lambda each: _figure(each.figures, criterion, measure), default=None)


def _figure(row: Figures, criterion: str, measure: str | None) -> float:
    found = {
        "latency": row.cost,
        "stability": row.spread,
        "efficiency": effort(row, measure),
        "consistency": row.unevenness,
    }[criterion]
    assert found is not None
    return found.estimate


def _charts(found: Sequence[Group]) -> tuple[Chart, ...]:
    """Medians with their intervals, one drawing for each of the groups with the most to compare."""
    charts = []
    for group in sorted(found, key=lambda group: -len(group.members))[:_MOST_CHARTS]:
        order = sorted(group.members, key=lambda row: row.p50)[:_MOST_BARS]
        bars = Series(
            "median",
            tuple(group.names[row] for row in order),
            tuple(row.p50 for row in order),
            tuple(row.median.low if row.median else None for row in order),
            tuple(row.median.high if row.median else None for row in order),
        )
        title = f"{about(group, found)}: median latency, 95 % intervals"
        charts.append(Chart("bar", title, Axis("target"), Axis("p50", "ns"), (bars,)))
    return tuple(charts)
