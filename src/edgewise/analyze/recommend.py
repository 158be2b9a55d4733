"""What to use for real-time, stability-critical, batch and battery work, and in little memory; never wrong answers."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from .. import zoo
from ..core.chart import Axis, Chart, Series
from ..core.types import Column, Finding, Scalar, Section, Task
from . import trust
from ._answers import Answer, answer, doubt
from ._figures import Bounds, Figures, Group, about, groups
from .evidence import Evidence, absent
from .ranking import efficiency, effort

PLACE = 10

COLUMNS = (
    Column("machine"),
    Column("model"),
    Column("use"),
    Column("target"),
    Column("scenario"),
    Column("by"),
    Column("figure", "figure"),
    Column("next_best"),
    Column("next_figure", "figure"),
    Column("margin", "ratio"),
    Column("confidence"),
    Column("precision", "text", 1),
    Column("accuracy", "text", 2),
    Column("accuracy_interval", "points_range", 3),
    Column("own_precision", "text", 2),
    Column("own_figure", "figure", 2),
)
# Peak memory of one process differs by less than this from that of the next.
_SAME_MEMORY = 1.005
# How many of those that cannot be told apart are named.
_NAMED = 3
_MOST_CHARTS = 8
_KINDS = ("single", "server", "concurrent", "offline")
# What was wrong while the figure was taken.
_BESIDE = {
    "drifting": "latency drifted",
    "foreign_load": "machine was busy",
    "stolen_time": "machine was shared",
    "clock_dropped": "clock fell",
}
_ANSWERS = {
    "own": "the model's own",
    "paired": "measured",
    "alone": "measured, the original's was not",
    "agreement": "not measured",
    "nothing": "not measured",
}


@dataclass(frozen=True, eq=False)
class Candidate:
    figures: Figures
    group: Group
    answer: Answer

    @property
    def name(self) -> str:
        return self.group.names[self.figures]

    @property
    def target(self) -> str:
        return str(self.figures.measurement.task.placement)


@dataclass(frozen=True, eq=False)
class Use:
    """A use, what decides about it (less is better) and how that is shown: `shown(estimate)` in `unit`."""

    name: str
    by: str
    unit: str
    cost: Callable[[Figures], Bounds | None]
    shown: Callable[[float], float] = float
    # Of those that cannot be told apart the quickest, where the figure is not a time itself.
    quickest: bool = False
    source: str | None = None
    # Whether those without the figure are known to be worse all the same.
    rest_is_worse: bool = False
    # Whether it is what a race decides about.
    raced: bool = False


def run(evidence: Evidence, *, max_loss: float = 0.01) -> Section:
    """For each machine and model. A target that demonstrably loses more accuracy than `max_loss` is left out."""
    found = groups(evidence)
    if not found:
        return absent("Recommendations", "nothing was measured", "edgewise bench MODEL")
    models: dict[tuple[str, str, str], list[Group]] = defaultdict(list)
    for group in found:
        models[group.machine, group.subject, group.label].append(group)
    usual = {key: min(own, key=_usual) for key, own in models.items()}
    rows: list[tuple[object, ...]] = []
    findings: list[Finding] = []
    charts: list[Chart] = []
    for key, own in models.items():
        what = about(usual[key], usual.values())
        right: dict[Group, list[Candidate]] = {}
        doubts: dict[tuple[str, float | None], list[str]] = {}
        for group in own:
            candidates = [Candidate(row, group, answer(row.measurement, evidence)) for row in group.members]
            reasons = [doubt(each.figures.measurement, each.answer, max_loss) for each in candidates]
            right[group] = [each for each, why in zip(candidates, reasons, strict=True) if why is None]
            for each, why in zip(candidates, reasons, strict=True):
                if why is not None and each.name not in doubts.setdefault(why, []):
                    doubts[why].append(each.name)
        chosen: dict[str, list[str]] = defaultdict(list)
        for use, candidates in _uses(right, usual[key]):
            row, finding = _choose(use, candidates, what, evidence, right)
            rows.append((key[0], key[2], *row))
            findings.append(finding)
            chosen[str(finding["target"])].append(use.name)
        charts += _chart(right[usual[key]], chosen, what)
        findings += [_left_out(what, why, names) for why, names in doubts.items()]
    if not rows:
        missing = absent("Recommendations", "no target computed answers that can be trusted", "")
        return Section("Recommendations", (), (), (*missing.findings, *findings))
    return Section("Recommendations", COLUMNS, tuple(rows), tuple(findings), tuple(charts[:_MOST_CHARTS]))


def _usual(group: Group) -> tuple[bool, int, int, int]:
    """First the load most people mean: one inference at a time, undisturbed, which most targets were measured under."""
    scenario = group.members[0].measurement.task.scenario
    return scenario.contention is not None, _KINDS.index(scenario.kind), scenario.batch, -len(group.members)


def _left_out(what: str, why: tuple[str, float | None], names: Sequence[str]) -> Finding:
    values: tuple[tuple[str, Scalar], ...] = (
        ("targets", ", ".join(names[:_NAMED])),
        ("more", max(0, len(names) - _NAMED)),
        ("why", why[0]),
        ("difference", why[1]),
    )
    return Finding("left_out", "note" if why[0] == "nothing" else "caution", what, values)


def _chart(candidates: Sequence[Candidate], chosen: Mapping[str, Sequence[str]], what: str) -> list[Chart]:
    """Quick and steady lie at the lower left; what is recommended says for what."""
    drawn = [(each, spread.estimate) for each in candidates if (spread := each.figures.spread)]
    series = []
    for name, wanted in (("recommended", True), ("others", False)):
        own = [(each, spread) for each, spread in drawn if (each.name in chosen) == wanted]
        if own:
            labels = tuple(", ".join((each.name, *chosen.get(each.name, ()))) for each, _ in own)
            x, y = tuple(each.figures.p50 for each, _ in own), tuple(spread for _, spread in own)
            series.append(Series(name, x, y, labels=labels))
    if len(drawn) < 2:
        return []
    axes = Axis("p50", "ns"), Axis("p90 over p10", "ratio")
    return [Chart("scatter", f"{what}: quick to the left, steady below", *axes, tuple(series))]


def _uses(right: dict[Group, list[Candidate]], usual: Group) -> list[tuple[Use, list[Candidate]]]:
    one = right[usual]
    rows = [each.figures for each in one]
    found: list[tuple[Use, list[Candidate]]] = [
        (_real_time(rows), one),
        (Use("stability-critical", "p90/p10", "ratio", lambda row: row.spread, quickest=True), one),
        (Use("batch", "throughput", "rate", lambda row: row.per_item, lambda ns: 1e9 / ns), _best_loads(right)),
    ]
    measure = efficiency(rows)
    if measure == "joules":
        joules = rows[0].joules
        assert joules is not None
        by = "energy beyond idle" if joules.like[0] else "energy in all"
        source = joules.source
        found.append(
            (
                Use("battery", by, "per_joule", lambda r: effort(r, measure), lambda uj: 1e6 / uj, source=source),
                one,
            )
        )
    elif measure:
        found.append((Use("battery", "CPU time", "ns", lambda row: effort(row, measure)), one))
    found.append((Use("little memory", "host memory", "bytes", _memory), one))
    return [(use, each) for use, each in found if any(use.cost(c.figures) for c in each)]


def _memory(row: Figures) -> Bounds | None:
    peak = row.measurement.peak_bytes
    return Bounds(peak / _SAME_MEMORY, peak, peak * _SAME_MEMORY) if peak else None


def _real_time(rows: Sequence[Figures]) -> Use:
    """By the highest percentile that can decide: all that might have the lowest carry it."""
    for p in (0.99, 0.9):
        carried = [found for row in rows if (found := row.percentile(p))]
        best = min(carried, key=lambda found: found.estimate, default=None)
        if best and not any(_might_beat(row, p, best) for row in rows):
            by: Callable[[Figures], Bounds | None] = lambda row, p=p: row.percentile(p)  # type: ignore[misc] # noqa: E731
            return Use("real-time", f"p{p * 100:g}", "ns", by, rest_is_worse=True)
    return Use("real-time", "p50", "ns", lambda row: row.cost, raced=True)


def _might_beat(row: Figures, p: float, best: Bounds) -> bool:
    """Whether one that does not carry this percentile could have a lower one: its lower ones do not forbid it."""
    if row.percentile(p):
        return False
    lower = row.percentile(0.9) or row.percentile(0.5)
    return lower is None or lower.low <= best.high


def _best_loads(right: dict[Group, list[Candidate]]) -> list[Candidate]:
    """Each target under the load it does most under. A server does what it is asked for, no more."""
    best: dict[str, Candidate] = {}
    for group, candidates in right.items():
        scenario = group.members[0].measurement.task.scenario
        if scenario.kind == "server" or scenario.contention:
            continue
        for each in candidates:
            known = best.get(each.name)
            if known is None or each.figures.per_item.estimate < known.figures.per_item.estimate:
                best[each.name] = each
    return list(best.values())


def _raced(evidence: Evidence, machine: str) -> dict[Task, frozenset[Task]]:
    """By the winner of a race for latency, those that it showed to be slower."""
    return {
        race.winner.task: frozenset(entry.task for entry in race.entries if entry.status == "slower")
        for race in evidence.races
        if race.winner and race.machine == machine and race.wanted.prefer == "latency"
    }


def _choose(
    use: Use, candidates: Sequence[Candidate], what: str, evidence: Evidence, right: Mapping[Group, Sequence[Candidate]]
) -> tuple[tuple[object, ...], Finding]:
    """The best of those that have the figure. The others are no rivals, and were measured all the same."""

    def cost(each: Candidate) -> Bounds:
        found = use.cost(each.figures)
        assert found is not None
        return found

    able = [each for each in candidates if use.cost(each.figures)]
    order = sorted(able, key=lambda each: cost(each).estimate)
    alike = [each for each in order if cost(each).low <= cost(order[0]).high]
    best = min(alike, key=lambda each: each.figures.cost.estimate) if use.quickest else order[0]
    # Turns taken side by side tell apart what two measurements for themselves cannot.
    raced = _raced(evidence, best.figures.measurement.machine) if use.raced else {}
    best = next((each for each in alike if each.figures.measurement.task in raced), best)
    beaten = raced.get(best.figures.measurement.task, frozenset())
    ties = [each for each in alike if each is not best and each.figures.measurement.task not in beaten]
    others = [each for each in order if each is not best]
    # Chosen for being quick among those alike, it has no margin over the next in what it was not chosen for.
    chosen_quick = use.quickest and bool(ties)
    after = others[0] if others and not chosen_quick else None
    without, loads = len(candidates) - len(able), len(right)
    # In the model's own precision: by the same figure, or else the quickest.
    slower = sorted(candidates, key=lambda each: each.figures.p50)
    exact = next((each for each in (*order, *slower) if each.answer.kind == "own"), None)
    exact_figure = use.shown(cost(exact).estimate) if exact and exact in able else None
    figure = use.shown(cost(best).estimate)
    margin = cost(after).estimate / cost(best).estimate if after else None
    tied = ", ".join(each.name for each in ties[:_NAMED])
    ruled_out = without if use.rest_is_worse else 0
    tie = f"quickest of {len(ties) + 1} alike" if chosen_quick else f"tie with {len(ties)}"
    confidence = tie if ties else "clear" if after or ruled_out else "alone"
    # None of it changes what memory a process takes.
    doubts = trust.findings(best.figures.measurement) if use.unit != "bytes" else ()
    beside = tuple(_BESIDE[finding.code] for finding in doubts if finding.code in _BESIDE)
    unknown = (f"{without} not known",) if without > ruled_out else ()
    confidence = ", ".join((confidence, *unknown, *beside))
    row: tuple[object, ...] = (
        use.name,
        best.name,
        best.group.scenario,
        use.by,
        (figure, use.unit),
        after.name if after else None,
        (use.shown(cost(after).estimate), use.unit) if after else None,
        margin,
        confidence,
        best.answer.precision,
        _ANSWERS[best.answer.kind],
        best.answer.pair.interval if best.answer.pair else None,
        exact.name if exact and exact is not best else None,
        (exact_figure, use.unit) if exact is not best and exact_figure is not None else None,
    )
    values: dict[str, Scalar] = {
        "use": use.name,
        "target": best.name,
        "scenario": best.group.scenario,
        "by": use.by,
        "unit": use.unit,
        "figure": figure,
        "p50_ns": best.figures.p50,
        "source": use.source,
        "next": after.name if after else None,
        "next_figure": use.shown(cost(after).estimate) if after else None,
        "margin": margin,
        "ties": len(ties),
        "tied": tied,
        "ruled_out": ruled_out,
        "unknown": without - ruled_out,
        "beside": ", ".join(beside),
        "loads": loads,
        "exact": exact.name if exact and exact is not best else None,
        **best.answer.values,
        "command": _command(use, best, ties, exact, loads, evidence),
    }
    return row, Finding("recommended", "caution" if beside else "note", what, tuple(values.items()))


def _command(
    use: Use, best: Candidate, ties: Sequence[Candidate], exact: Candidate | None, loads: int, evidence: Evidence
) -> str | None:
    """What would make it surer."""
    model = evidence.models.get(best.group.subject)
    label = best.group.label
    # A report travels: it names the file, not the folder it was in, and a built-in network by its name.
    own = model and PurePath(model.path).stem == label and label not in zoo.names()
    name = shlex.quote(PurePath(model.path).name if model and own else label)

    def on(*several: Candidate) -> str:
        return " ".join(f"--on {shlex.quote(each.target)}" for each in several)

    if best.answer.kind in ("agreement", "nothing", "alone"):
        data = "" if model and model.data else " --data FOLDER"
        return f"edgewise accuracy {name}{data} {on(*([exact] if exact else []), best)}"
    if ties and use.unit != "bytes":
        return f"edgewise compare {name} {on(best, ties[0])}"
    if use.name == "batch" and loads == 1:
        return f"edgewise bench {name} {on(best)} --batch 1 --batch 8 --batch 32"
    return None
