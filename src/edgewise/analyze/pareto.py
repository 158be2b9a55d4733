"""Which networks are worth their time: accuracy against latency, energy and memory, and the fronts nobody beats."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from ..core import stats
from ..core.chart import Axis, Chart, Series
from ..core.evaluation import Evaluation
from ..core.types import Column, Finding, Measurement, Section
from . import trust
from ._figures import Bounds, Figures, Joules, figures, machine_label
from .evidence import Evidence, absent

PLACE = 50
TITLE = "Accuracy and what it costs"
PUBLISHED = "published"
COLUMNS = (
    Column("machine"),
    Column("model"),
    Column("target"),
    Column("top1", "accuracy"),
    Column("top1_interval", "accuracy_range", 3),
    Column("source"),
    Column("p50", "ns"),
    Column("interval", "ns_range", 3),
    Column("energy", "uj"),
    Column("energy_source", "text", 2),
    Column("memory", "bytes", 1),
    Column("multiply_adds", "amount", 2),
    Column("parameters", "amount", 2),
    Column("latency_front"),
    Column("energy_front"),
    Column("memory_front", "text", 1),
    Column("beaten_by"),
)
_CHARTS = 8


@dataclass(frozen=True, slots=True)
class Point:
    """One model on its best target. `basis` tells which accuracies may be compared: those on the same images, or those
    from papers; `said` is how a reader is told."""

    row: Figures
    model: str
    basis: str
    said: str
    accuracy: Bounds
    energy: Joules | None
    multiply_adds: float | None
    parameters: int | None

    @property
    def measurement(self) -> Measurement:
        return self.row.measurement

    @property
    def latency(self) -> Bounds:
        return self.row.cost

    @property
    def memory(self) -> Bounds | None:
        peak = self.measurement.peak_bytes
        return None if peak is None else Bounds(peak, peak, peak)

    @property
    def energy_uj(self) -> Bounds | None:
        return self.energy.told if self.energy else None


Cost = Callable[[Point], Bounds | None]
FRONTS: tuple[tuple[str, Cost], ...] = (
    ("latency", lambda point: point.latency),
    ("energy", lambda point: point.energy_uj),
    ("memory", lambda point: point.memory),
)


def run(evidence: Evidence) -> Section:
    found = points(evidence)
    if not found:
        what = "no network has both a latency for one image and an accuracy, measured or published"
        return absent(TITLE, what, "edgewise bench mobilenet_v2 resnet50")
    rows: list[tuple[object, ...]] = []
    findings: list[Finding] = []
    charts: list[Chart] = []
    for (machine, _), members in grouped(found).items():
        group = _metered_alike(members)
        label = machine_label(evidence, machine)
        standings = [standing(group, cost) for _, cost in FRONTS]
        rows += [
            _cells(label, point, [places[index] for places in standings])
            for index, point in sorted(enumerate(group), key=lambda pair: pair[1].latency.estimate)
        ]
        findings += _findings(label, group, standings[0])
        if len(group) > 1 and len(charts) < _CHARTS:
            charts.append(_chart(on_machine(evidence, machine), group, standings[0]))
    return Section(TITLE, COLUMNS, tuple(rows), tuple(findings), tuple(charts))


def points(evidence: Evidence) -> list[Point]:
    """One per machine, model and precision for which its accuracy is known, on the target that is quickest there.

    A published accuracy is that of the float network: it says nothing about int8, and gives way to a measured one.
    """
    candidates: dict[tuple[str, str, str], list[Measurement]] = defaultdict(list)
    for measurement in eligible(evidence.measurements):
        if measurement.task.scenario.batch == 1:
            precision = measurement.task.placement.targets[0].precision or "fp32"
            candidates[measurement.machine, measurement.task.subject, precision].append(measurement)
    answered: dict[tuple[str, str], list[Evaluation]] = defaultdict(list)
    for evaluation in evidence.evaluations:
        if evaluation.answered:
            precision = evaluation.placement.targets[0].precision or "fp32"
            answered[evaluation.subject, precision].append(evaluation)
    examined = {subject for subject, _ in answered}
    alike = Counter(label for label, _ in {(m.label, m.task.subject) for group in candidates.values() for m in group})
    found = []
    for (_, subject, precision), group in candidates.items():
        row = min((figures(m) for m in _once(group)), key=lambda each: each.p50)
        label = row.measurement.label
        several = sum(each == subject for each, _ in answered) > 1
        # Files of one name are told apart by what is in them.
        name = f"{label} ({subject[:6]})" if alike[label] > 1 else label
        name = f"{name} {precision}" if several else name
        for evaluation in _nearest(answered.get((subject, precision), ()), row.measurement):
            said = f"measured on {evaluation.data_label or evaluation.data[:8]}"
            found.append(_point(evidence, row, name, evaluation.data, said, _share(evaluation)))
        if subject not in examined and precision == "fp32" and label in evidence.published:
            share = evidence.published[label]
            found.append(_point(evidence, row, name, PUBLISHED, PUBLISHED, Bounds(share, share, share)))
    return found


def _once(measurements: Sequence[Measurement]) -> Iterable[Measurement]:
    """Of each target one: with its energy where that was read, then the one with the most runs. The quickest of several
    tries would be a matter of luck."""
    best: dict[str, Measurement] = {}
    for m in sorted(measurements, key=lambda m: (bool(m.energies), len(m.samples_ns))):
        best[str(m.task.placement)] = m
    return best.values()


def eligible(measurements: Iterable[Measurement]) -> list[Measurement]:
    """One request after another, nothing beside it, right answers: what a latency is quoted for."""
    return [
        m
        for m in measurements
        if m.samples_ns
        and m.task.scenario.kind == "single"
        and m.task.scenario.contention is None
        and not trust.wrong(m)
        and not any("nothing was computed" in start.ran.notes for start in m.starts)
    ]


def _nearest(evaluations: Sequence[Evaluation], measurement: Measurement) -> list[Evaluation]:
    """Of each set of images, the evaluation closest to what was measured: same target, engine, machine; most images."""
    by_data: dict[str, list[Evaluation]] = defaultdict(list)
    for evaluation in evaluations:
        by_data[evaluation.data].append(evaluation)
    placement = measurement.task.placement

    def nearness(evaluation: Evaluation) -> tuple[bool, bool, bool, int]:
        other = evaluation.placement
        same = other.targets[0].engine == placement.targets[0].engine
        return other == placement, same, evaluation.machine == measurement.machine, evaluation.answered

    return [max(group, key=nearness) for group in by_data.values()]


def _share(evaluation: Evaluation) -> Bounds:
    pairs = [pair for part in evaluation.answers for pair in zip(part.labels, part.ranked, strict=True)]
    hits = sum(bool(ranked) and ranked[0] == label for label, ranked in pairs)
    low, high = stats.wilson(hits, len(pairs))
    return Bounds(low, hits / len(pairs), high)


def _point(evidence: Evidence, row: Figures, name: str, basis: str, said: str, accuracy: Bounds) -> Point:
    costed = evidence.costs.get(row.measurement.task.subject)
    return Point(
        row,
        name,
        basis,
        said,
        accuracy,
        row.joules,
        costed.cost.multiply_adds / costed.batch if costed else None,
        costed.cost.parameters if costed else None,
    )


def _metered_alike(group: Sequence[Point]) -> list[Point]:
    """Energies of the kind most have: what other meters saw, or only in all, is no match for them."""
    kinds = Counter(point.energy.like for point in group if point.energy)
    common = kinds.most_common(1)[0][0] if kinds else None
    return [point if point.energy and point.energy.like == common else replace(point, energy=None) for point in group]


def on_machine(evidence: Evidence, machine: str) -> str:
    """` on ...` for a title, where there are several machines to tell apart."""
    return f" on {machine_label(evidence, machine)}" if len({m.machine for m in evidence.measurements}) > 1 else ""


def grouped(found: Iterable[Point]) -> dict[tuple[str, str], list[Point]]:
    """Those that may be compared: of one machine, with accuracies of one kind."""
    groups: dict[tuple[str, str], list[Point]] = defaultdict(list)
    for point in found:
        groups[point.measurement.machine, point.basis].append(point)
    return groups


@dataclass(frozen=True, slots=True)
class Standing:
    """`on` is yes, no, or tie: another one looks better, but the intervals leave it open. `by` is the other one."""

    on: str
    by: Point | None = None


def standing(group: Sequence[Point], cost: Cost) -> list[Standing | None]:
    """Where each point stands on the front of accuracy and one cost; None where its cost is not known.

    It is off the front only where another one costs less beyond doubt and is no less accurate by the estimate: of
    two whose accuracies cannot be told apart, the dearer one has nothing to show for it.
    """
    known = [(point, bounds) for point in group if (bounds := cost(point)) is not None]
    found: list[Standing | None] = []
    for point in group:
        own = cost(point)
        if own is None:
            found.append(None)
            continue
        better = [(other, bounds) for other, bounds in known if _no_worse(other, bounds, point, own)]
        sure = [(other, bounds) for other, bounds in better if bounds.high <= own.low]
        by = min(sure or better, key=lambda pair: (pair[1].estimate, -pair[0].accuracy.estimate))[0] if better else None
        found.append(Standing("no" if sure else "tie" if better else "yes", by))
    return found


def _no_worse(other: Point, bounds: Bounds, point: Point, own: Bounds) -> bool:
    """By the estimates: nowhere worse, somewhere better."""
    first, second = (other.accuracy.estimate, -bounds.estimate), (point.accuracy.estimate, -own.estimate)
    return first != second and first[0] >= second[0] and first[1] >= second[1]


def _cells(machine: str, point: Point, places: Sequence[Standing | None]) -> tuple[object, ...]:
    latency, measured = places[0], point.basis != PUBLISHED
    interval = point.row.median
    return (
        machine,
        point.model,
        str(point.measurement.task.placement),
        point.accuracy.estimate,
        (point.accuracy.low, point.accuracy.high) if measured else None,
        point.said,
        point.row.p50,
        (interval.low, interval.high) if interval else None,
        point.energy_uj.estimate if point.energy_uj else None,
        point.energy.said if point.energy and point.energy_uj else None,
        point.measurement.peak_bytes,
        point.multiply_adds,
        point.parameters,
        *(place.on if place else None for place in places),
        latency.by.model if latency and latency.by and latency.on == "no" else None,
    )


def _findings(machine: str, group: Sequence[Point], places: Sequence[Standing | None]) -> list[Finding]:
    found: list[Finding] = []
    members = [p for p, place in _ordered(group, places) if place.on != "no"]
    values = (
        ("points", len(group)),
        ("members", ", ".join(point.model for point in members)),
        ("accuracy", group[0].said),
    )
    if len(group) > 1:
        found.append(Finding("front", "note", machine, values))
    for point, place in _ordered(group, places):
        if place.on == "no" and place.by:
            slower = point.latency.estimate / place.by.latency.estimate
            less = point.accuracy.estimate - place.by.accuracy.estimate
            beaten = (("slower", slower), ("points", less), ("by", place.by.model), ("accuracy", point.said))
            found.append(Finding("dominated", "note", f"{point.model}, {machine}", beaten))
    if group[0].basis == PUBLISHED:
        found.append(Finding("published_accuracy", "note", machine, (("count", len(group)),)))
    return found


def _ordered(group: Sequence[Point], places: Sequence[Standing | None]) -> list[tuple[Point, Standing]]:
    pairs = [(point, place) for point, place in zip(group, places, strict=True) if place]
    return sorted(pairs, key=lambda pair: pair[0].latency.estimate)


def _chart(where: str, group: Sequence[Point], places: Sequence[Standing | None]) -> Chart:
    ordered = _ordered(group, places)
    on = [point for point, place in ordered if place.on != "no"]
    off = [point for point, place in ordered if place.on == "no"]
    edge = [point for point, place in ordered if place.on == "yes"]
    series = [_dots("on the front", on), *([_dots("beaten", off)] if off else [])]
    line = Series(
        "front", tuple(p.latency.estimate for p in edge), tuple(p.accuracy.estimate for p in edge), stroke="step"
    )
    said = group[0].said
    return Chart(
        "scatter",
        f"Accuracy against latency{where} ({said})",
        Axis("latency", "ns", log=True),
        Axis(f"top-1, {said}", "accuracy"),
        (*series, line),
        size=Axis("multiply-adds", "amount"),
        colour=Axis("parameters", "amount"),
    )


def _dots(name: str, chosen: Sequence[Point]) -> Series:
    measured = any(point.basis != PUBLISHED for point in chosen)
    return Series(
        name,
        tuple(point.latency.estimate for point in chosen),
        tuple(point.accuracy.estimate for point in chosen),
        low=tuple(point.accuracy.low for point in chosen) if measured else (),
        high=tuple(point.accuracy.high for point in chosen) if measured else (),
        size=tuple(point.multiply_adds for point in chosen),
        colour=tuple(point.parameters for point in chosen),
        labels=tuple(f"{point.model} on {point.measurement.task.placement}" for point in chosen),
    )
