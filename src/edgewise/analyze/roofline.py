"""How near networks and their layers come to what the processor can do: measured roofs, operational intensity."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..core.chart import Axis, Chart, Series
from ..core.profile import Profile
from ..core.roofs import WITHOUT_AMX, Roof, Roofs, place
from ..core.types import Column, Finding, Section, Target, Task
from . import trust
from ._figures import figures, machine_label
from ._joined import join
from .accounting import account
from .evidence import Costed, Evidence, absent

PLACE = 90
TITLE = "Roofline"
WHOLE = "(whole network)"
COLUMNS = (
    Column("machine"),
    Column("model"),
    Column("scenario"),
    Column("target"),
    Column("layer"),
    Column("operator", spare=1),
    Column("intensity", "intensity"),
    Column("counted_intensity", "intensity", spare=2),
    Column("reached", "flops_rate"),
    Column("roof", "flops_rate"),
    Column("of_roof", "share"),
    Column("bound"),
    Column("time", "ns", spare=3),
    Column("share", "share"),
)
# Below this share of the roof, neither arithmetic nor memory is what takes the time.
FAR = 0.2
# As many layers as fit on a screen with the rest, those that take the most time; charts have all.
LAYERS = 10
# More than the tries of a roof differ by.
_ABOVE = 1.1
_CHARTS = 8
_WIDTH_BYTES = {"fp32": 4, "tf32": 4, "fp16": 2, "bf16": 2, "int8": 1}
_BOUNDS = ("memory", "compute", "neither")
# What takes time that is neither the network's nor the engine's.
_OTHERS = ("foreign_load", "stolen_time", "clock_dropped")


@dataclass(frozen=True, slots=True)
class Ceiling:
    """What one target cannot exceed: operations and bytes a second."""

    roofs: Roofs
    precision: str
    compute: Roof
    memory: Roof

    @property
    def ridge(self) -> float:
        return self.compute.per_s / self.memory.per_s

    def at(self, intensity: float) -> float:
        return min(self.compute.per_s, intensity * self.memory.per_s)


@dataclass(frozen=True, slots=True)
class Point:
    """A network or a layer in one run: its operations, its bytes as the graph has them, its time.

    `least_ns` is what it would take at the roof, so a layer that computes nothing has its place too.
    """

    layer: str
    operator: str | None
    flops: float
    moved_bytes: float
    time_ns: float
    share: float
    ceiling: Ceiling
    far: float
    counted_bytes: int | None = None

    @property
    def intensity(self) -> float | None:
        return self.flops / self.moved_bytes if self.moved_bytes else None

    @property
    def counted_intensity(self) -> float | None:
        return self.flops / self.counted_bytes if self.counted_bytes else None

    @property
    def reached(self) -> float:
        return self.flops / self.time_ns * 1e9

    @property
    def roof(self) -> float | None:
        return None if self.intensity is None else self.ceiling.at(self.intensity)

    @property
    def of_roof(self) -> float:
        computing = self.flops / self.ceiling.compute.per_s
        moving = self.moved_bytes / self.ceiling.memory.per_s
        return max(computing, moving) * 1e9 / self.time_ns

    @property
    def bound(self) -> str:
        if self.of_roof < self.far:
            return "neither"
        return "memory" if (self.intensity or 0.0) < self.ceiling.ridge else "compute"


@dataclass(frozen=True, slots=True)
class _Subject:
    """One network on one target, with all that is known of it."""

    machine: str
    model: str
    task: Task
    whole: Point
    layers: tuple[Point, ...]
    profiled: bool
    joined: float

    @property
    def about(self) -> str:
        return f"{self.model} on {self.task.placement}{trust.load(self.task.scenario)}"


def run(evidence: Evidence, *, far: float = FAR, layers: int = LAYERS) -> Section:
    """Networks, and below each the layers that take the most time."""
    if not evidence.roofs:
        return absent(TITLE, "no roofs were measured on these machines", _command(evidence))
    findings: list[Finding] = []
    subjects = list(_subjects(evidence, far, findings))
    if not subjects:
        what = "no network was measured on a target whose roofs are known, with its operations counted"
        return absent(TITLE, what, _command(evidence))
    rows = []
    for each in subjects:
        slowest = sorted(each.layers, key=lambda point: -point.time_ns)[:layers]
        rows += [_cells(each, point) for point in (each.whole, *slowest)]
        findings += _about(each)
    used = dict.fromkeys(each.whole.ceiling.roofs for each in subjects)
    for one in used:
        findings += _of_roofs(one, machine_label(evidence, one.machine))
    findings += [
        Finding("not_counted_traffic", "note", f"{t.label} on {t.placement}", (("source", t.source), ("why", t.reason)))
        for t in evidence.traffic
        if t.bytes_per_run is None
    ]
    return Section(TITLE, COLUMNS, tuple(rows), tuple(findings), tuple(_charts(subjects))[:_CHARTS])


def _command(evidence: Evidence) -> str:
    known = next(iter(evidence.measurements), None)
    return f"edgewise roofline {known.label if known else 'resnet50'} --on {_on(known.task) if known else 'ort:cpu'}"


def _on(task: Task) -> str:
    return f"'{task.placement}'" if "{" in str(task.placement) else str(task.placement)


def _subjects(evidence: Evidence, far: float, findings: list[Finding]) -> Iterator[_Subject]:
    profiles = {(p.machine, p.task.subject, str(p.task.placement), p.task.scenario.batch): p for p in evidence.profiles}
    # What moves in a run does not depend on how often it is run.
    traffic = {(t.machine, t.subject, t.placement, t.scenario.batch): t for t in evidence.traffic}
    seen = set()
    for measured in reversed(evidence.measurements):
        task = measured.task
        key = (measured.machine, task.subject, str(task.placement), task.scenario.batch)
        # Of several protocols the newest. With others at work beside it, a run's time is not the processor's.
        alone = task.scenario.kind == task.placement.kind == "single" and task.scenario.contention is None
        if not alone or not measured.samples_ns or trust.wrong(measured) or key in seen:
            continue
        seen.add(key)
        costed, target = evidence.costs.get(task.subject), task.placement.targets[0]
        model = evidence.models.get(task.subject)
        stored = model.precision if model else "fp32"
        ceiling = _ceiling(evidence.roofs, measured.machine, target, stored, f"{measured.label} on {target}", findings)
        if costed is None or ceiling is None:
            continue
        moved = traffic.get((measured.machine, task.subject, task.placement, task.scenario.batch))
        scale = _Scale(costed, task.scenario.batch, _WIDTH_BYTES[ceiling.precision] / _WIDTH_BYTES.get(stored, 4))
        p50 = figures(measured).p50
        flops, moved_bytes = scale.of(range(len(costed.cost.nodes)))
        counted = moved.bytes_per_run if moved else None
        whole = Point(WHOLE, None, flops, moved_bytes, p50, 1.0, ceiling, far, counted)
        profile = profiles.get(key)
        layers, joined = _layers(profile, scale, ceiling, far) if profile else ((), 0.0)
        label = machine_label(evidence, measured.machine)
        findings += (found for found in trust.findings(measured) if found.code in _OTHERS)
        yield _Subject(label, measured.label, task, whole, layers, profile is not None, joined)


def _ceiling(
    known: Sequence[Roofs], machine: str, target: Target, stored: str, about: str, findings: list[Finding]
) -> Ceiling | None:
    """The roofs of that processor with as many threads, in the target's precision."""
    precision = target.precision or (stored if stored in _WIDTH_BYTES else "fp32")
    for roofs in known:
        if (roofs.machine, roofs.device) != (machine, place(target)) or roofs.threads not in (None, target.threads):
            continue
        named = {r.name: r for r in roofs.roofs if r.kind == "compute"}
        compute = named.get(precision)
        if "amx" not in str(target.option("isa") or "amx").lower():
            # Told not to use the tiles, it is measured against what there is without them.
            compute = named.get(precision + WITHOUT_AMX, compute)
        # The most that memory gave, read or copied; what a cache gave has another name.
        memory = max(
            (r for r in roofs.roofs if r.kind == "memory" and r.name.startswith("memory")),
            key=lambda r: r.per_s,
            default=None,
        )
        if compute and memory:
            return Ceiling(roofs, precision, compute, memory)
    values = (("precision", precision), ("device", place(target)), ("threads", target.threads))
    findings.append(Finding("no_roof", "caution", about, values))
    return None


@dataclass(frozen=True, slots=True)
class _Scale:
    """From a cost, counted at one batch in the model's types, to a run. Weights are read once, whatever the batch."""

    costed: Costed
    batch: int
    width: float

    def of(self, nodes: range) -> tuple[float, float]:
        """Operations, and bytes of weights and activations, of these nodes together. What is not known is left out."""
        images = self.batch / self.costed.batch
        chosen = [self.costed.cost.nodes[index] for index in nodes]
        flops = sum(node.flops or 0 for node in chosen) * images
        weights = sum(node.weight_bytes for node in chosen)
        activations = sum((node.read_bytes or 0) + (node.written_bytes or 0) for node in chosen)
        return flops, (weights + activations * images) * self.width


def _layers(profile: Profile, scale: _Scale, ceiling: Ceiling, far: float) -> tuple[tuple[Point, ...], float]:
    """The nodes whose time is known, and the share of the operators' time that is theirs."""
    done = account(profile)
    nodes = scale.costed.cost.nodes
    found = join(profile.ops, nodes, profile.task.placement.targets[0].engine)
    times: dict[int, float] = defaultdict(float)
    for op, node in found.items():
        times[node] += done.times_ns[op]
    points = []
    for node, time_ns in times.items():
        flops, moved_bytes = scale.of(range(node, node + 1))
        if time_ns and (flops or moved_bytes) and not nodes[node].reason:
            name, kind = nodes[node].name, nodes[node].operator
            points.append(Point(name, kind, flops, moved_bytes, time_ns, time_ns / done.plain_ns, ceiling, far))
    joined = sum(times.values()) / done.operators_ns if done.operators_ns else 0.0
    return tuple(points), joined


def _cells(subject: _Subject, point: Point) -> tuple[object, ...]:
    return (
        subject.machine,
        subject.model,
        str(subject.task.scenario),
        str(subject.task.placement),
        point.layer,
        point.operator,
        point.intensity,
        point.counted_intensity,
        point.reached,
        point.roof,
        point.of_roof,
        point.bound,
        point.time_ns,
        point.share,
    )


def _about(subject: _Subject) -> Iterator[Finding]:
    whole, layers = subject.whole, subject.layers
    values: list[tuple[str, float | str | None]] = [("of_roof", whole.of_roof), ("bound", whole.bound)]
    values += [("intensity", whole.intensity), ("ridge", whole.ceiling.ridge)]
    total = sum(point.time_ns for point in layers)
    for bound in _BOUNDS:
        mine = sum(point.time_ns for point in layers if point.bound == bound)
        values.append((bound, mine / total if total else None))
    yield Finding("bound_by", "note", subject.about, tuple(values))
    if subject.profiled:
        share = (("joined", subject.joined), ("layers", len(layers)))
        yield Finding("joined", "note" if subject.joined >= 0.5 else "caution", subject.about, share)
    above = [point for point in layers if point.of_roof > _ABOVE]
    if whole.of_roof > _ABOVE and not above:
        above = [whole]
    if above:
        most = max(above, key=lambda point: point.of_roof)
        shown = (("of_roof", most.of_roof), ("layers", len(above)), ("layer", most.layer), ("bound", most.bound))
        yield Finding("above_roof", "note", subject.about, shown)


def _of_roofs(roofs: Roofs, machine: str) -> Iterator[Finding]:
    threads = "" if roofs.threads is None else f"@{roofs.threads}"
    about = f"{machine} on {roofs.device}{threads}"
    shown = tuple((roof.name, roof.per_s) for roof in roofs.roofs)
    ways = tuple((f"{roof.name} by", roof.method.partition(", ")[0]) for roof in roofs.roofs if roof.kind == "compute")
    yield Finding("roofs", "note", about, (("device", roofs.device), ("threads", roofs.threads), *shown, *ways))
    for name, why in roofs.missing:
        yield Finding("roof_missing", "note", about, (("roof", name), ("why", why)))


def _charts(subjects: Sequence[_Subject]) -> Iterator[Chart]:
    """Networks by processor, then the layers of each network that was profiled."""
    groups: dict[tuple[str, Roofs], list[_Subject]] = defaultdict(list)
    for subject in subjects:
        groups[subject.machine, subject.whole.ceiling.roofs].append(subject)
    for (machine, roofs), members in groups.items():
        threads = "" if roofs.threads is None else f"@{roofs.threads}"
        yield _chart(f"Networks on {roofs.device}{threads} of {machine}", list(_networks(members)), members)
    for subject in subjects:
        if subject.layers:
            series = [s for bound in _BOUNDS if (s := _series(bound, [p for p in subject.layers if p.bound == bound]))]
            yield _chart(f"Layers of {subject.about}", series, [subject], caches=True)


def _networks(members: Sequence[_Subject]) -> Iterator[Series]:
    for model in dict.fromkeys(each.model for each in members):
        mine = [each for each in members if each.model == model and each.whole.intensity]
        labels = tuple(f"{each.model} on {each.task.placement}, {each.task.scenario}" for each in mine)
        reached = tuple(each.whole.reached for each in mine)
        if mine:
            yield Series(model, tuple(each.whole.intensity or 0.0 for each in mine), reached, labels=labels)
        counted = [(each, at) for each in mine if (at := each.whole.counted_intensity) is not None]
        if counted:
            yield Series(
                f"{model}, bytes counted",
                tuple(at for _, at in counted),
                tuple(each.whole.reached for each, _ in counted),
                labels=tuple(str(each.task.placement) for each, _ in counted),
            )


def _series(bound: str, points: Sequence[Point]) -> Series | None:
    # A logarithm has no room for layers that compute nothing; the table has them.
    drawn = [(p, at) for p in points if (at := p.intensity)]
    if not drawn:
        return None
    name = "neither bound" if bound == "neither" else f"{bound}-bound"
    return Series(
        name,
        tuple(at for _, at in drawn),
        tuple(p.reached for p, _ in drawn),
        size=tuple(p.share for p, _ in drawn),
        labels=tuple(f"{p.layer} ({p.operator})" for p, _ in drawn),
    )


def _chart(title: str, series: list[Series], members: Sequence[_Subject], caches: bool = False) -> Chart:
    xs = [float(x) for each in series for x in each.x] or [1.0]
    ceilings = {each.whole.ceiling.compute.name: each.whole.ceiling for each in members}
    ridges = [ceiling.ridge for ceiling in ceilings.values()]
    low, high = min(*xs, *ridges) / 2, max(*xs, *ridges) * 2
    for precision, ceiling in ceilings.items():
        lines = [(f"{precision} roof", ceiling.memory)]
        if caches:
            named = [r for r in ceiling.roofs.roofs if r.kind == "memory" and not r.name.startswith("memory")]
            lines += [(f"{roof.name} and {precision}", roof) for roof in named]
        for name, memory in lines:
            ridge = ceiling.compute.per_s / memory.per_s
            at = sorted({low, high, *([ridge] if low < ridge < high else [])})
            heights = tuple(min(ceiling.compute.per_s, x * memory.per_s) for x in at)
            series.append(Series(name, tuple(at), heights, stroke="dash"))
    size = Axis("share of time", "share") if caches else None
    return Chart(
        "scatter",
        title,
        Axis("operational intensity", "intensity", log=True),
        Axis("reached", "flops_rate", log=True),
        tuple(series),
        size,
    )
