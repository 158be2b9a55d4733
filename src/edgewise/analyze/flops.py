"""Whether work counted is time taken: latency against multiply-adds × batch, and the networks it misleads about."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from ..core.chart import Axis, Chart, Series
from ..core.stats.powerlaw import PowerLaw, power_law, rank_correlation
from ..core.types import Column, Finding, Section
from ._figures import Figures, figures, machine_label
from .evidence import Evidence, absent
from .pareto import eligible, on_machine

PLACE = 60
TITLE = "Work and time"
COLUMNS = (
    Column("machine"),
    Column("target"),
    Column("model"),
    Column("batch", "count"),
    Column("multiply_adds", "amount"),
    Column("p50", "ns"),
    Column("reached", "flops_rate"),
    Column("than_the_line", "ratio"),
)
# A line through fewer points, or an order of fewer networks, is no evidence of anything.
_FEWEST_POINTS, _FEWEST_NETWORKS = 3, 4
_CHARTS, _TARGETS = 4, 8


@dataclass(frozen=True, slots=True)
class Point:
    """`multiply_adds` and `flops` are of one run: all images of the batch."""

    row: Figures
    model: str
    batch: int
    multiply_adds: float
    flops: float

    @property
    def flops_per_s(self) -> float:
        return self.flops / self.row.p50 * 1e9


def run(evidence: Evidence) -> Section:
    groups = _points(evidence)
    if not groups:
        what = "there are not two networks whose latency was measured on one target and whose multiply-adds are counted"
        return absent(TITLE, what, "edgewise bench mobilenet_v2 resnet50 alexnet")
    rows: list[tuple[object, ...]] = []
    findings: list[Finding] = []
    machines: dict[str, list[tuple[str, list[Point], PowerLaw | None]]] = defaultdict(list)
    for (machine, target), found in groups.items():
        label = machine_label(evidence, machine)
        law = power_law([p.multiply_adds for p in found], [p.row.p50 for p in found])
        law = law if law and law.points >= _FEWEST_POINTS else None
        machines[machine].append((target, found, law))
        rows += [_cells(label, target, point, law) for point in found]
        findings += _findings(f"{target} on {label}", found, law)
    charts = [_chart(on_machine(evidence, machine), series) for machine, series in machines.items()]
    return Section(TITLE, COLUMNS, tuple(rows), tuple(findings), tuple(charts[:_CHARTS]))


def _points(evidence: Evidence) -> dict[tuple[str, str], list[Point]]:
    """By machine and target, those with at least two networks; of a network measured several times, the most runs."""
    chosen: dict[tuple[str, str, str, int], Point] = {}
    for measurement in eligible(evidence.measurements):
        costed, task = evidence.costs.get(measurement.task.subject), measurement.task
        if costed is None or not costed.cost.multiply_adds:
            continue
        key = (measurement.machine, str(task.placement), task.subject, task.scenario.batch)
        before = chosen.get(key)
        if before and len(before.row.measurement.samples_ns) >= len(measurement.samples_ns):
            continue
        images = task.scenario.batch / costed.batch
        work = costed.cost.multiply_adds * images, costed.cost.flops * images
        chosen[key] = Point(figures(measurement), measurement.label, task.scenario.batch, *work)
    groups: dict[tuple[str, str], list[Point]] = defaultdict(list)
    for (machine, target, _, _), point in sorted(chosen.items(), key=lambda pair: pair[1].multiply_adds):
        groups[machine, target].append(point)
    return {key: found for key, found in sorted(groups.items()) if len({p.model for p in found}) > 1}


def _cells(machine: str, target: str, point: Point, law: PowerLaw | None) -> tuple[object, ...]:
    return (
        machine,
        target,
        point.model,
        point.batch,
        point.multiply_adds,
        point.row.p50,
        point.flops_per_s,
        point.row.p50 / law.at(point.multiply_adds) if law else None,
    )


def _findings(about: str, found: Sequence[Point], law: PowerLaw | None) -> list[Finding]:
    said: list[Finding] = []
    # Over batches the order is a matter of course; networks are compared at the batch most of them have.
    batch = max(Counter(point.batch for point in found).items(), key=lambda pair: (pair[1], -pair[0]))[0]
    alike = [point for point in found if point.batch == batch]
    if law:
        rank = rank_correlation([p.multiply_adds for p in alike], [p.row.p50 for p in alike])
        rates = [point.flops_per_s for point in found]
        values = (
            ("r2", law.r2),
            ("exponent", law.exponent),
            ("points", law.points),
            ("rank", rank if len(alike) >= _FEWEST_NETWORKS else None),
            ("networks", len(alike)),
            ("batch", batch),
            ("least", min(rates)),
            ("most", max(rates)),
        )
        said.append(Finding("flops_predict", "note", about, values))
    pairs = list(combinations(sorted(alike, key=lambda point: point.multiply_adds), 2))
    # The one with less work takes longer, and the intervals do not touch.
    inverted = [(a, b) for a, b in pairs if a.multiply_adds < b.multiply_adds and a.row.cost.low > b.row.cost.high]
    if inverted:
        less, more = max(inverted, key=lambda pair: pair[0].row.p50 / pair[1].row.p50)
        example = (
            ("slower", less.row.p50 / more.row.p50),
            ("work", more.multiply_adds / less.multiply_adds),
            ("less", less.model),
            ("more", more.model),
            ("count", len(inverted)),
            ("pairs", len(pairs)),
            ("batch", batch),
        )
        said.append(Finding("flops_mislead", "note", about, example))
    return said


def _chart(where: str, targets: Sequence[tuple[str, list[Point], PowerLaw | None]]) -> Chart:
    """The targets with the most points, quickest first, each with its line."""
    series: list[Series] = []
    ranked = sorted(targets, key=lambda each: (-len(each[1]), -max(p.flops_per_s for p in each[1])))
    for target, found, law in ranked[:_TARGETS]:
        x = tuple(point.multiply_adds for point in found)
        series.append(
            Series(
                target,
                x,
                tuple(point.row.p50 for point in found),
                tuple(point.row.cost.low for point in found),
                tuple(point.row.cost.high for point in found),
                labels=tuple(f"{p.model}, batch {p.batch}" for p in found),
            )
        )
        if law:
            ends = (min(x), max(x))
            series.append(Series(f"{target}, line", ends, tuple(map(law.at, ends)), stroke="dash"))
    return Chart(
        "scatter",
        f"Time against work{where}",
        Axis("multiply-adds × batch", "amount", log=True),
        Axis("latency", "ns", log=True),
        tuple(series),
    )
