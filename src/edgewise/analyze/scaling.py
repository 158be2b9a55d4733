"""What larger batches and larger inputs do: throughput and latency, where gains end, and where memory or time do.

A network at another input size than its own is another subject, labelled `NAME@SIDE` (`resnet50@288`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ..core.chart import Axis, Chart, Series
from ..core.stats.powerlaw import power_law
from ..core.types import Column, Failure, Finding, Measurement, Model, Section
from . import trust
from ._figures import Figures, figures, machine_label
from .evidence import Evidence, absent
from .pareto import on_machine

PLACE = 70
TITLE = "Scaling"
# The knee is the smallest batch with this share of the best throughput.
ENOUGH = 0.95
# What the stage of a cell says that was left out because of what smaller ones showed.
NOT_TRIED = "not tried"
COLUMNS = (
    Column("machine"),
    Column("model"),
    Column("scenario", "text", 5),
    Column("target"),
    Column("size", "count", 2),
    Column("batch", "count"),
    Column("p50", "ns"),
    Column("interval", "ns_range", 2),
    Column("per_s", "rate"),
    Column("gain", "ratio"),
    Column("of_best", "share", 1),
    Column("memory", "bytes", 1),
    Column("outcome"),
)
_MEMORY_WORDS = ("out of memory", "bad_alloc", "bad alloc", "failed to allocate", "cannot allocate", "sigkill")
_FEWEST_SIZES = 3
# Charts: two for each model while there are few of them, else two for each machine.
_MODELS, _MACHINES, _SIZES = 3, 3, 2


@dataclass(frozen=True, slots=True)
class Point:
    """One size of a sweep: time per run, images per second, each between its ends."""

    row: Figures
    batch: int
    size: int | None

    @property
    def measurement(self) -> Measurement:
        return self.row.measurement

    @property
    def per_s(self) -> tuple[float, float, float]:
        each = self.row.per_item
        return 1e9 / each.high, 1e9 / each.estimate, 1e9 / each.low


@dataclass
class Sweep:
    """One model on one target of one machine under one protocol; only the batch differs, or only the input's size."""

    machine: str
    model: str
    target: str
    points: list[Point] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)

    @property
    def results(self) -> list[Measurement | Failure]:
        return [*(point.measurement for point in self.points), *self.failures]

    @property
    def best(self) -> Point:
        return max(self.points, key=lambda point: point.per_s[1])

    @property
    def name(self) -> str:
        return f"{self.model} on {self.target}"


@dataclass(frozen=True, slots=True)
class Knee:
    """The smallest batch that reaches enough; `first` is the smallest that may, `sure` the smallest that certainly
    does, as far as the intervals tell (None: none does)."""

    point: Point
    first: int
    sure: int | None


def run(evidence: Evidence) -> Section:
    batches, sizes = batch_sweeps(evidence), size_sweeps(evidence)
    if not batches and not sizes:
        return absent(TITLE, "nothing was measured at several batch or input sizes", "edgewise scale MODEL")
    rows = _rows(evidence, batches, sizes)
    findings = [said for sweep in batches for said in _batch_findings(sweep)]
    findings += [said for sweep in sizes for said in _size_findings(sweep)]
    charts = _batch_charts(evidence, batches) + _size_charts(evidence, sizes)
    return Section(TITLE, COLUMNS, rows, tuple(findings), tuple(charts))


def limit(failure: Failure) -> str:
    """What stopped it: memory, time, or something else."""
    text = " ".join((failure.message, failure.hint or "", failure.stderr)).lower()
    if failure.error == "WorkerTimeout":
        return "time"
    return "memory" if any(word in text for word in _MEMORY_WORDS) else "other"


def base(label: str) -> str:
    """`resnet50` of `resnet50@288`."""
    name, at, side = label.rpartition("@")
    return name if at and side.isdigit() else label


def side(label: str, model: Model | None) -> int | None:
    """The side of the input image, the longer one where it is not square: from the model's record, or its label."""
    for tensor in model.inputs if model else ():
        sides = [dim for dim in (tensor.shape or ())[1:] if isinstance(dim, int)]
        if len(sides) == 3:
            # Channels come first or last, and are none of two equal ones.
            return sides[1] if sides[1] in (sides[0], sides[2]) else max(sides)
    tail = label.rpartition("@")[2]
    return int(tail) if tail.isdigit() and base(label) != label else None


def batch_sweeps(evidence: Evidence) -> list[Sweep]:
    """Sweeps over batches: at least two measured, or one beside a failure."""
    key: Callable[[Measurement | Failure], tuple[str, ...]] = lambda r: (  # noqa: E731
        r.machine,
        r.label,
        r.task.subject,
        str(r.task.placement),
        str(r.task.scenario.with_batch(1)),
    )
    found = _sweeps(evidence, key, lambda r: r.task.scenario.batch)
    for sweep in found:
        sweep.points.sort(key=lambda point: point.batch)
        sweep.failures.sort(key=lambda failure: failure.task.scenario.batch)
    return found


def size_sweeps(evidence: Evidence) -> list[Sweep]:
    """Sweeps over input sizes, of one network at one batch."""
    key: Callable[[Measurement | Failure], tuple[str, ...]] = lambda r: (  # noqa: E731
        r.machine,
        base(r.label),
        "",
        str(r.task.placement),
        str(r.task.scenario),
    )
    found = _sweeps(evidence, key, lambda r: side(r.label, evidence.models.get(r.task.subject)))
    for sweep in found:
        sweep.points.sort(key=lambda point: point.size or 0)
    return found


def _sweeps(
    evidence: Evidence,
    key: Callable[[Measurement | Failure], tuple[str, ...]],
    step: Callable[[Measurement | Failure], int | None],
) -> list[Sweep]:
    groups: dict[tuple[str, ...], Sweep] = {}
    done = set()
    for m in evidence.measurements:
        if not m.samples_ns or m.task.scenario.kind != "single" or trust.wrong(m) or step(m) is None:
            continue
        place = key(m)
        sweep = groups.setdefault(place, Sweep(m.machine, place[1], place[3]))
        size = side(m.label, evidence.models.get(m.task.subject))
        # Measured with two versions of an engine, the newer counts: a sweep is of one thing.
        sweep.points[:] = [each for each in sweep.points if (each.batch, each.size) != (m.task.scenario.batch, size)]
        sweep.points.append(Point(figures(m), m.task.scenario.batch, size))
        done.add((m.machine, m.task))
    for failure in evidence.failures:
        place = key(failure)
        # What failed once and was measured since has not failed.
        if place in groups and (failure.machine, failure.task) not in done:
            groups[place].failures.append(failure)
    return [sweep for sweep in groups.values() if len({step(each) for each in sweep.results} - {None}) > 1]


def knee(points: Sequence[Point], enough: float = ENOUGH) -> Knee:
    best = max(points, key=lambda point: point.per_s[1])
    at = next(p for p in points if p.per_s[1] >= enough * best.per_s[1])
    # Of the best it is certain that it is itself.
    may = next(p for p in points if p is best or p.per_s[2] >= enough * best.per_s[0])
    sure = next((p for p in points if p is best or p.per_s[0] >= enough * best.per_s[2]), None)
    return Knee(at, min(may.batch, at.batch), sure.batch if sure else None)


def _rows(evidence: Evidence, batches: Sequence[Sweep], sizes: Sequence[Sweep]) -> tuple[tuple[object, ...], ...]:
    """Each measurement and failure once; gains are over the batch before."""
    gains: dict[int, tuple[float | None, float, str]] = {}
    for sweep in batches:
        at, best = knee(sweep.points).point, sweep.best
        # At the last there is no knee: more might bring more.
        marks = (("knee", None if at is sweep.points[-1] else at), ("best", best))
        for before, point in zip((None, *sweep.points), sweep.points, strict=False):
            gain = point.per_s[1] / before.per_s[1] if before else None
            said = " and ".join(word for word, one in marks if one is point)
            gains[id(point.measurement)] = (gain, point.per_s[1] / best.per_s[1], said)
    rows: dict[int, tuple[tuple[object, ...], tuple[object, ...]]] = {}
    for sweep, by_batch in (*((each, False) for each in sizes), *((each, True) for each in batches)):
        for point in sweep.points:
            m, row = point.measurement, point.row
            gain, share, said = gains.get(id(m), (None, None, ""))
            interval = (row.median.low, row.median.high) if row.median else None
            figures_ = (row.p50, interval, point.per_s[1], gain, share, m.peak_bytes, said)
            rows[id(m)] = _placed(evidence, m, figures_)
        # What was left out was so for its batch, and is told there.
        failures = [f for f in sweep.failures if by_batch or f.stage != NOT_TRIED]
        for failure, said in _outcomes(failures):
            rows[id(failure)] = _placed(evidence, failure, (*(None,) * 6, said))
    return tuple(cells for _, cells in sorted(rows.values(), key=lambda pair: pair[0]))


def _outcomes(failures: Sequence[Failure]) -> list[tuple[Failure, str]]:
    """What is said of each; those left out because of another one are named with it."""
    first = next((failure for failure in failures if failure.stage == NOT_TRIED), None)
    tried = [failure for failure in failures if failure.stage != NOT_TRIED]
    left = [failure for failure in failures if failure.stage == NOT_TRIED and (tried or failure is not first)]
    reasons = [(f, {"memory": "out of memory", "time": "too long", "other": f.message}[limit(f)]) for f in tried]
    if first and not tried:
        reasons = [(first, first.message)]
    if left:
        failure, said = reasons[-1]
        steps = ", ".join(str(each.task.scenario.batch) for each in left)
        reasons[-1] = failure, f"{said}; {'nor ' if not tried else 'not tried: '}{steps}"
    return reasons


def _placed(
    evidence: Evidence, result: Measurement | Failure, cells: tuple[object, ...]
) -> tuple[tuple[str, str, str, int, int, str], tuple[object, ...]]:
    """The row, behind what it is sorted by."""
    size = side(result.label, evidence.models.get(result.task.subject))
    where, target = machine_label(evidence, result.machine), str(result.task.placement)
    batch, scenario = result.task.scenario.batch, str(result.task.scenario.with_batch(1))
    order = (where, base(result.label), target, size or 0, batch, scenario)
    return order, (where, result.label, scenario, target, size, batch, *cells)


def _batch_findings(sweep: Sweep) -> list[Finding]:
    found: list[Finding] = []
    first, last, best = sweep.points[0], sweep.points[-1], sweep.best
    if len(sweep.points) > 1:
        at = knee(sweep.points)
        values = (
            ("gain", best.per_s[1] / first.per_s[1]),
            ("batch", at.point.batch),
            ("first", at.first),
            ("sure", at.sure),
            ("per_s", at.point.per_s[1]),
            ("best", best.batch),
            ("best_per_s", best.per_s[1]),
            ("latency_ns", at.point.row.p50),
            ("smallest", first.batch),
            ("smallest_ns", first.row.p50),
            ("largest", last.batch),
        )
        if at.point is first:
            found.append(Finding("no_gain", "note", sweep.name, values))
        elif at.point is last:
            found.append(Finding("still_growing", "note", sweep.name, values))
        else:
            found.append(Finding("knee", "note", sweep.name, values))
        if last.per_s[2] < best.per_s[0] * ENOUGH:
            drop = (("loss", 1 - last.per_s[1] / best.per_s[1]), ("batch", last.batch), ("best", best.batch))
            found.append(Finding("batch_too_large", "note", sweep.name, drop))
    above = [failure for failure in sweep.failures if failure.task.scenario.batch > last.batch]
    if above:
        stopped = above[0]
        values_ = (("batch", stopped.task.scenario.batch), ("tried", stopped.stage != NOT_TRIED), ("last", last.batch))
        kind = limit(stopped)
        if kind == "memory":
            found.append(Finding("out_of_memory", "note", sweep.name, values_))
        elif kind == "time":
            found.append(Finding("out_of_time", "note", sweep.name, values_))
        else:
            found.append(Finding("larger_fails", "caution", sweep.name, (*values_, ("message", stopped.message))))
    return found


def _size_findings(sweep: Sweep) -> list[Finding]:
    sizes = [point.size for point in sweep.points if point.size]
    law = power_law([size * size for size in sizes], [point.row.p50 for point in sweep.points if point.size])
    if law is None or len(set(sizes)) < _FEWEST_SIZES:
        return []
    values = (
        ("exponent", law.exponent),
        ("low", law.low),
        ("high", law.high),
        ("smallest", min(sizes)),
        ("largest", max(sizes)),
        ("batch", sweep.points[0].batch),
    )
    return [Finding("size_exponent", "note", sweep.name, values)]


def _batch_charts(evidence: Evidence, sweeps: Sequence[Sweep]) -> list[Chart]:
    drawn = [sweep for sweep in sweeps if len(sweep.points) > 1]
    by_model: Mapping[str, list[Sweep]] = _by(drawn, lambda s: s.model + on_machine(evidence, s.machine))
    if len(by_model) <= _MODELS:
        named = {title: [(sweep.target, sweep) for sweep in group] for title, group in by_model.items()}
    else:
        # Too many for one each: a line for each network, on the target that gets the most out of it.
        named = {}
        for machine, group in list(_by(drawn, lambda s: machine_label(evidence, s.machine)).items())[:_MACHINES]:
            best = [max(g, key=lambda s: s.best.per_s[1]) for g in _by(group, lambda s: s.model).values()]
            named[machine] = [(sweep.name, sweep) for sweep in best]
    charts = []
    for title, lines in named.items():
        batch = Axis("batch", "count", log=True)
        rate = tuple(_line(name, sweep, lambda p: p.per_s) for name, sweep in lines)
        time = tuple(_line(name, sweep, _latency) for name, sweep in lines)
        charts.append(Chart("line", f"Throughput against batch: {title}", batch, Axis("throughput", "rate"), rate))
        charts.append(Chart("line", f"Latency against batch: {title}", batch, Axis("latency", "ns", log=True), time))
    return charts


def _latency(point: Point) -> tuple[float, float, float]:
    return point.row.cost


def _size_charts(evidence: Evidence, sweeps: Sequence[Sweep]) -> list[Chart]:
    groups = _by(
        [sweep for sweep in sweeps if len(sweep.points) > 1],
        lambda s: f"{s.model}{on_machine(evidence, s.machine)}, batch {s.points[0].batch}",
    )
    return [
        Chart(
            "line",
            f"Latency against input size: {title}",
            Axis("side of the input", "count", log=True),
            Axis("latency", "ns", log=True),
            tuple(_line(sweep.target, sweep, _latency, by_size=True) for sweep in group),
        )
        for title, group in list(groups.items())[:_SIZES]
    ]


def _by(sweeps: Iterable[Sweep], key: Callable[[Sweep], str]) -> dict[str, list[Sweep]]:
    groups: dict[str, list[Sweep]] = defaultdict(list)
    for sweep in sweeps:
        groups[key(sweep)].append(sweep)
    return groups


def _line(
    name: str, sweep: Sweep, value: Callable[[Point], tuple[float, float, float]], by_size: bool = False
) -> Series:
    bounds = [value(point) for point in sweep.points]
    at = None if by_size or len(sweep.points) < 2 else knee(sweep.points).point
    if at is sweep.points[-1]:
        at = None
    return Series(
        name,
        tuple((point.size or 0) if by_size else point.batch for point in sweep.points),
        tuple(middle for _, middle, _ in bounds),
        tuple(low for low, _, _ in bounds),
        tuple(high for _, _, high in bounds),
        labels=tuple("knee" if point is at else "" for point in sweep.points),
        stroke="line",
    )
