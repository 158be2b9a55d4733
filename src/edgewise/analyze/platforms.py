"""One machine beside another, network by network; and beside figures of papers, got by others under other rules.

A ratio above 1 is in favour of the machine named first. Nothing is scaled to make networks, targets or protocols alike:
both sides show what they ran.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import exp, log
from statistics import fmean

from .. import reference
from ..core.chart import Axis, Chart, Series
from ..core.types import Column, Finding, Machine, Measurement, Scalar, Section
from ._figures import Figures, figures, machine_label
from ._joules import estimated, used
from .evidence import Evidence, absent
from .pareto import FRONTS, PUBLISHED, Point, eligible, grouped, points, standing

PLACE = 140
TITLE = "Machines side by side"
COLUMNS = (
    Column("machine"),
    Column("beside"),
    Column("model"),
    Column("batch", "count"),
    Column("target"),
    Column("beside_target"),
    Column("per_s", "rate"),
    Column("beside_per_s", "rate"),
    Column("ratio", "ratio"),
    Column("per_joule", "ratio"),
    Column("per_clock", "ratio", 1),
    Column("source", "text", 2),
)
MEASURED = "measured here"
# Names that papers use, and the network of the zoo that is meant. Which SqueezeNet it was is not said; 1.0 is the one
# of the paper they cite. MobileNet without a number is the first, in full width.
_NAMES = {
    "AlexNet": "alexnet",
    "GoogLeNet": "googlenet",
    "MobileNet": "mobilenet_v1_100",
    "ResNet50": "resnet50",
    "SqueezeNet": "squeezenet1_0",
}


@dataclass(frozen=True, slots=True)
class Best:
    """The most images per second a machine gets out of a network at one batch. `clock_hz` is None where not known, and
    always on processors whose clock nobody read."""

    row: Figures
    clock_hz: float | None

    @property
    def per_s(self) -> float:
        return self.row.per_s

    @property
    def target(self) -> str:
        return str(self.row.measurement.task.placement)


@dataclass(frozen=True, slots=True)
class Published:
    """A figure of a paper: images per second, of one network on one component of a platform."""

    network: str
    platform: str
    component: str
    per_s: float
    clock_hz: float | None
    source: str


@dataclass(frozen=True, slots=True)
class Ratio:
    """One row: a network at a batch, this machine over the other one."""

    model: str
    batch: int
    per_s: float
    per_joule: float | None
    per_clock: float | None
    cells: tuple[object, ...]


def run(evidence: Evidence) -> Section:
    best = _best(evidence)
    machines = list(best)
    rows: list[tuple[object, ...]] = []
    findings: list[Finding] = []
    bars: list[tuple[str, list[Ratio]]] = []
    for other in machines[1:]:
        # The machine named first is the one all others are set beside.
        first = machines[0]
        name, beside = machine_label(evidence, first), machine_label(evidence, other)
        ratios = list(_ratios(name, beside, best[first], best[other]))
        rows += [ratio.cells for ratio in ratios]
        if ratios:
            bars.append((beside, ratios))
            findings += _pair(f"{name} and {beside}", name, beside, ratios)
        findings += _fronts(evidence, first, other)
    findings += _not_shared(evidence, machines, bars)
    for machine in machines:
        name = machine_label(evidence, machine)
        beside_papers = list(_published(name, best[machine]))
        rows += [ratio.cells for ratio in beside_papers]
        if beside_papers:
            values: tuple[tuple[str, Scalar], ...] = (("count", len(beside_papers)),)
            findings.append(Finding("beside_papers", "caution", name, values))
    if not rows:
        what = "one machine, and no network on it that papers give figures for"
        return absent(TITLE, what, "edgewise report HERE.db THERE.db -o both.html")
    return Section(TITLE, COLUMNS, tuple(rows), tuple(findings), tuple(_charts(evidence, machines, bars)))


def _best(evidence: Evidence) -> dict[str, dict[tuple[str, int], Best]]:
    """By machine, in the order the evidence names them: by network and batch, the quickest target."""
    found: dict[str, dict[tuple[str, int], Best]] = {machine: {} for machine in evidence.machines}
    for measurement in eligible(evidence.measurements):
        key = (measurement.task.subject, measurement.task.scenario.batch)
        own = found.setdefault(measurement.machine, {})
        row = figures(measurement)
        if key not in own or row.cost.estimate < own[key].row.cost.estimate:
            own[key] = Best(row, clock_hz(measurement, evidence.machines.get(measurement.machine)))
    return {machine: own for machine, own in found.items() if own}


def clock_hz(measurement: Measurement, machine: Machine | None) -> float | None:
    """The CPU's clock while it was measured, or else the highest it has; None on anything but a CPU."""
    device = measurement.task.placement.targets[0].device or "cpu"
    if not device.startswith("cpu"):
        return None
    read = [round.clock_hz for round in measurement.measured if round.clock_hz]
    if read:
        return fmean(read)
    cluster = device.partition(".")[2]
    known = [c.max_hz for c in machine.clusters if c.max_hz and cluster in ("", c.name)] if machine else []
    return max(known, default=None)


def _ratios(
    name: str, beside: str, mine: Mapping[tuple[str, int], Best], theirs: Mapping[tuple[str, int], Best]
) -> Iterator[Ratio]:
    shared = [key for key in mine if key in theirs]
    for key in sorted(shared, key=lambda key: (key[1], mine[key].row.measurement.label)):
        a, b = mine[key], theirs[key]
        per_s, per_joule, note = a.per_s / b.per_s, *_per_joule(a.row.measurement, b.row.measurement)
        per_clock = per_s * b.clock_hz / a.clock_hz if a.clock_hz and b.clock_hz else None
        model, batch = a.row.measurement.label, key[1]
        shown = (name, beside, model, batch, a.target, b.target, a.per_s, b.per_s)
        source = MEASURED if note is None else f"{MEASURED}; {note}"
        yield Ratio(model, batch, per_s, per_joule, per_clock, (*shown, per_s, per_joule, per_clock, source))


def _per_joule(mine: Measurement, theirs: Measurement) -> tuple[float | None, str | None]:
    """How many times the inferences per joule, both counted alike; and what is to be said of how they were."""
    a, b = used(mine), used(theirs)
    if a and b and a.active_per_joule and b.active_per_joule:
        return a.active_per_joule / b.active_per_joule, None
    if a and b and a.per_joule and b.per_joule:
        return a.per_joule / b.per_joule, "energy with idling"
    # As EmBench does: a declared power on both sides is better than nothing, and says so.
    a, b = estimated(mine), estimated(theirs)
    if a and b and a.per_joule and b.per_joule:
        return a.per_joule / b.per_joule, "energy from declared powers, not read"
    return None, None


def _pair(about: str, name: str, beside: str, ratios: Sequence[Ratio]) -> Iterator[Finding]:
    sides: tuple[tuple[str, Scalar], ...] = (("machine", name), ("beside", beside))
    yield Finding("machine_throughput", "note", about, (*_spread([(r, r.per_s) for r in ratios]), *sides))
    joules = [(r, r.per_joule) for r in ratios if r.per_joule is not None]
    if joules:
        yield Finding("machine_efficiency", "note", about, (*_spread(joules), *sides))
    clocks = [(r, r.per_clock) for r in ratios if r.per_clock is not None]
    if clocks:
        yield Finding("machine_per_clock", "note", about, (*_spread(clocks), *sides))


def _spread(ratios: Sequence[tuple[Ratio, float]]) -> tuple[tuple[str, Scalar], ...]:
    """The least, the geometric mean and the most, and of which networks."""
    least, most = min(ratios, key=lambda pair: pair[1]), max(ratios, key=lambda pair: pair[1])
    return (
        ("geomean", exp(fmean(log(value) for _, value in ratios))),
        ("least", least[1]),
        ("least_of", f"{least[0].model}, batch {least[0].batch}"),
        ("most", most[1]),
        ("most_of", f"{most[0].model}, batch {most[0].batch}"),
        ("count", len(ratios)),
    )


def _fronts(evidence: Evidence, first: str, other: str) -> Iterator[Finding]:
    """Which networks are on the front of accuracy and latency here and not there, of those both have."""
    by_group = grouped(points(evidence))
    for (machine, basis), mine in by_group.items():
        theirs = by_group.get((other, basis))
        if machine != first or not theirs:
            continue
        shared = {_key(point) for point in mine} & {_key(point) for point in theirs}
        here, there = _members(mine, shared), _members(theirs, shared)
        if len(shared) < 2 or not here or not there:
            continue
        names = {_key(point): point.model for point in mine}
        only = [", ".join(sorted(names[key] for key in side)) for side in (here - there, there - here)]
        a, b = machine_label(evidence, first), machine_label(evidence, other)
        values = (("machine", a), ("here", only[0]), ("beside", b), ("there", only[1]), ("count", len(shared)))
        said = (("accuracy", PUBLISHED if basis == PUBLISHED else mine[0].said),)
        if here == there:
            yield Finding("same_front", "note", f"{a} and {b}", (*values, *said))
        else:
            yield Finding("other_front", "note", f"{a} and {b}", (*values, *said))


def _key(point: Point) -> tuple[str, str]:
    task = point.measurement.task
    return task.subject, task.placement.targets[0].precision or "fp32"


def _members(group: Sequence[Point], shared: Iterable[tuple[str, str]]) -> set[tuple[str, str]]:
    """Of the shared networks, those nobody demonstrably beats."""
    chosen = [point for point in group if _key(point) in set(shared)]
    places = standing(chosen, FRONTS[0][1])
    return {_key(point) for point, place in zip(chosen, places, strict=True) if place and place.on != "no"}


def _not_shared(evidence: Evidence, machines: Sequence[str], bars: Sequence[object]) -> Iterator[Finding]:
    if len(machines) > 1 and not bars:
        names = ", ".join(machine_label(evidence, machine) for machine in machines)
        yield Finding("nothing_shared", "caution", names, (("machines", len(machines)),))


def published() -> list[Published]:
    """What papers say about single networks, in images per second."""
    found = []
    socs = reference.table("socs-throughput")
    components = {row["component"]: row for row in reference.table("socs-components").records()}
    for row in socs.records():
        for column, value in row.items():
            name = column.removesuffix("_images_per_s").upper()
            if isinstance(value, (int, float)) and name in components:
                soc, ghz = components[name]["soc"], components[name]["clock_ghz"]
                hz = ghz * 1e9 if isinstance(ghz, (int, float)) else None
                found.append(Published(_NAMES[str(row["network"])], str(soc), name, value, hz, _said(socs)))
    m2 = reference.table("m2-latency")
    chip = str(reference.table("m2-hardware").records()[0]["chip"])
    for row in m2.records():
        if isinstance(row["mean_ms"], (int, float)):
            units, per_s = str(row["compute_units"]), 1e3 / row["mean_ms"]
            found.append(Published("mobilenet_v2", chip, units, per_s, None, _said(m2)))
    return found


def _said(table: reference.Table) -> str:
    year = f" {table.paper.year}" if table.paper.year else ""
    return f"published: {table.paper.authors}{year}, {table.place}"


def _published(name: str, best: Mapping[tuple[str, int], Best]) -> Iterator[Ratio]:
    """This machine over the papers' ones, for single images."""
    single = {each.row.measurement.label: each for (_, batch), each in best.items() if batch == 1}
    for figure in published():
        mine = single.get(figure.network)
        if mine is None:
            continue
        per_s = mine.per_s / figure.per_s
        per_clock = per_s * figure.clock_hz / mine.clock_hz if figure.clock_hz and mine.clock_hz else None
        shown = (name, figure.platform, figure.network, 1, mine.target, figure.component, mine.per_s, figure.per_s)
        yield Ratio(figure.network, 1, per_s, None, per_clock, (*shown, per_s, None, per_clock, figure.source))


def _charts(
    evidence: Evidence, machines: Sequence[str], bars: Sequence[tuple[str, Sequence[Ratio]]]
) -> Iterator[Chart]:
    """A bar for each network and machine, at the batch most networks have."""
    counted = Counter(ratio.batch for _, ratios in bars for ratio in ratios)
    if not counted:
        return
    batch = max(counted.items(), key=lambda pair: (pair[1], -pair[0]))[0]
    first = machine_label(evidence, machines[0])
    chosen = [(beside, [r for r in ratios if r.batch == batch]) for beside, ratios in bars]
    throughput = [
        Series(f"over {beside}", tuple(r.model for r in ratios), tuple(r.per_s for r in ratios))
        for beside, ratios in chosen
        if ratios
    ]
    title = f"Throughput of {first} over the others, batch {batch}"
    yield Chart("bar", title, Axis("model"), Axis("times the throughput", "ratio"), tuple(throughput))
    efficiency = [
        Series(f"over {beside}", tuple(r.model for r in ratios), tuple(r.per_joule for r in ratios))
        for beside, ratios in chosen
        if any(r.per_joule is not None for r in ratios)
    ]
    if efficiency:
        title = f"Inferences per joule of {first} over the others, batch {batch}"
        yield Chart("bar", title, Axis("model"), Axis("times the inferences per joule", "ratio"), tuple(efficiency))
