"""What fewer bits buy against fp32 on the same engine, and what changing formats eats of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..core import stats
from ..core.chart import Axis, Chart, Series
from ..core.profile import Profile
from ..core.types import Column, Finding, Measurement, Section, Target
from ._figures import Figures, figures, machine_label
from .accuracy import Outcome
from .evidence import Evidence, absent
from .kinds import kind
from .trust import load, wrong

PLACE = 110
TITLE = "Precision"
COLUMNS = (
    Column("machine"),
    Column("model"),
    Column("scenario"),
    Column("engine"),
    Column("precision"),
    Column("p50", "ns"),
    Column("speed", "ratio"),
    Column("interval", "ratio_range"),
    Column("memory", "ratio"),
    Column("converting", "share"),
    Column("error", "error"),
    Column("top1", "accuracy"),
    Column("difference", "points"),
    Column("difference_interval", "points_range"),
)
# Changing the order in which numbers lie in memory is part of changing how they are written down.
_REORDERING = ("Reorder", "ReorderInput", "ReorderOutput", "Packing", "ConvertTensor")
# From this share of an inference on, conversions are worth a word.
EATEN = 0.1
# Settings that a precision needs on this machine, and that no other one has.
_OF_PRECISION = ("isa",)
_BASE = "fp32"
_MOST_CHARTS = 6


@dataclass(frozen=True, slots=True)
class _Key:
    """What two precisions of the same thing have in common."""

    machine: str
    subject: str
    scenario: str
    engine: str


def run(evidence: Evidence) -> Section:
    groups: dict[_Key, dict[str, Figures]] = defaultdict(dict)
    for measurement in evidence.measurements:
        if measurement.samples_ns and len(measurement.task.placement.parts) == 1 and not wrong(measurement):
            target = measurement.task.placement.parts[0].target
            groups[_key(measurement)][target.precision or _BASE] = figures(measurement)
    pairs = {key: rows for key, rows in groups.items() if _BASE in rows and len(rows) > 1}
    if not pairs:
        what = "no model was measured in fp32 and in fewer bits on the same engine"
        return absent(TITLE, what, "edgewise bench MODEL --save lab.db")
    eaten = {_profiled(profile): converting(profile) for profile in evidence.profiles}
    rows, findings = [], []
    for key, found in pairs.items():
        for precision, row in found.items():
            rows.append(_row(key, precision, row, found[_BASE], evidence, eaten))
            if precision != _BASE:
                findings.append(_finding(key, precision, row, found[_BASE], eaten))
    return Section(
        TITLE, COLUMNS, tuple(rows), tuple(findings), (*_charts(pairs, evidence), *_by_kind(pairs, evidence))
    )


def converting(profile: Profile) -> float | None:
    """The share of an inference that goes into changing formats."""
    whole = stats.quantile(profile.plain_ns, 0.5) if profile.plain_ns else 0.0
    changing = [op for op in profile.ops if kind(op.operator) == "conversion" or op.operator in _REORDERING]
    return sum(stats.quantile(op.samples_ns, 0.5) for op in changing if op.samples_ns) / whole if whole else None


def _key(measurement: Measurement) -> _Key:
    task = measurement.task
    return _Key(measurement.machine, task.subject, str(task.scenario), _engine(task.placement.parts[0].target))


def _engine(target: Target) -> str:
    options = tuple(pair for pair in target.options if pair[0] not in _OF_PRECISION)
    return str(Target(target.engine, target.device, None, target.threads, target.cores, options))


def _profiled(profile: Profile) -> tuple[_Key, str]:
    task, target = profile.task, profile.task.placement.parts[0].target
    return _Key(profile.machine, task.subject, str(task.scenario), _engine(target)), target.precision or _BASE


def _speed(row: Figures, base: Figures) -> tuple[float, float, float]:
    """Estimate and bounds, from the two intervals each for itself: wider than from turns. Of a series without one, its
    middle half: enough for a drawing, not for a claim (see `_certain`)."""
    mine, theirs = row.cost, base.cost
    return theirs.estimate / mine.estimate, theirs.low / mine.high, theirs.high / mine.low


def _certain(row: Figures, base: Figures) -> bool:
    """Whether both have an interval: a latency that drifts, or of a few runs, has none."""
    return all(each.by_throughput or each.median is not None for each in (row, base))


def _row(
    key: _Key,
    precision: str,
    row: Figures,
    base: Figures,
    evidence: Evidence,
    eaten: Mapping[tuple[_Key, str], float | None],
) -> tuple[object, ...]:
    m = row.measurement
    speed, low, high = _speed(row, base)
    mine, theirs = m.peak_bytes, base.measurement.peak_bytes
    same = precision == _BASE
    return (
        machine_label(evidence, key.machine),
        m.label,
        key.scenario,
        key.engine,
        precision,
        row.p50,
        speed,
        None if same or not _certain(row, base) else (low, high),
        mine / theirs if mine and theirs else None,
        eaten.get((key, precision)),
        m.starts[0].agreement.error if m.starts and m.starts[0].agreement else None,
        *_accuracy(m, base.measurement, evidence),
    )


def _accuracy(m: Measurement, base: Measurement, evidence: Evidence) -> tuple[object, object, object]:
    """Top-1 where it was measured; against fp32 where both answered the same images."""

    def of(measurement: Measurement) -> dict[str, Outcome]:
        return {
            each.data: Outcome.of(each)
            for each in evidence.evaluations
            if (each.subject, each.machine) == (measurement.task.subject, measurement.machine)
            and each.placement == measurement.task.placement
            and each.complete
        }

    mine, theirs = of(m), of(base)
    for data, outcome in mine.items():
        top1 = float(outcome.right.mean())
        if m is base or data not in theirs:
            return top1, None, None
        first, second = theirs[data].right, outcome.right
        pair = stats.Discordance(int((first & ~second).sum()), int((second & ~first).sum()), len(first))
        return top1, pair.difference, pair.interval
    return None, None, None


def _finding(
    key: _Key, precision: str, row: Figures, base: Figures, eaten: Mapping[tuple[_Key, str], float | None]
) -> Finding:
    speed, low, high = _speed(row, base)
    about = f"{row.measurement.label} on {key.engine}{load(row.measurement.task.scenario)}"
    share = eaten.get((key, precision))
    values = (
        ("speed", speed),
        ("low", low),
        ("high", high),
        ("precision", precision),
        ("converting", share if share is not None and share >= EATEN else None),
    )
    if not _certain(row, base):
        return Finding("precision_unsure", "caution", about, values)
    if low > 1:
        return Finding("precision_pays", "note", about, values)
    if high < 1:
        return Finding("precision_costs", "caution", about, values)
    return Finding("precision_even", "note", about, values)


def _charts(pairs: Mapping[_Key, Mapping[str, Figures]], evidence: Evidence) -> Iterator[Chart]:
    models: dict[tuple[str, str, str], list[tuple[_Key, Mapping[str, Figures]]]] = defaultdict(list)
    for key, rows in pairs.items():
        models[key.machine, rows[_BASE].measurement.label, key.scenario].append((key, rows))
    for (machine, label, scenario), found in list(models.items())[:_MOST_CHARTS]:
        title = f"Speed of {label} against fp32, {scenario}"
        if len(evidence.machines) > 1:
            title += f", {machine_label(evidence, machine)}"
        yield Chart("bar", title, Axis("engine"), Axis("times as fast as fp32", "ratio"), tuple(_series(found)))


def _series(found: Sequence[tuple[_Key, Mapping[str, Figures]]]) -> Iterator[Series]:
    for precision in dict.fromkeys(name for _, rows in found for name in rows if name != _BASE):
        bars = [(key.engine, _speed(rows[precision], rows[_BASE])) for key, rows in found if precision in rows]
        yield Series(
            precision,
            tuple(engine for engine, _ in bars),
            tuple(speed for _, (speed, _, _) in bars),
            tuple(low for _, (_, low, _) in bars),
            tuple(high for _, (_, _, high) in bars),
        )


def _by_kind(pairs: Mapping[_Key, Mapping[str, Figures]], evidence: Evidence) -> list[Chart]:
    """Where a precision gains and where it loses, wherever it was profiled as well as fp32."""
    profiles: dict[_Key, dict[str, Profile]] = defaultdict(dict)
    for profile in evidence.profiles:
        key, precision = _profiled(profile)
        profiles[key][precision] = profile
    both = [(key, found) for key, found in profiles.items() if key in pairs and _BASE in found and len(found) > 1]
    charts = []
    for key, found in both[:_MOST_CHARTS]:
        times = {precision: _times(profile) for precision, profile in found.items()}
        kinds = sorted({name for each in times.values() for name in each}, key=lambda name: -times[_BASE].get(name, 0))
        series = tuple(
            Series(name, tuple(kinds), tuple(mine.get(each, 0.0) for each in kinds)) for name, mine in times.items()
        )
        title = f"Where {found[_BASE].label} on {key.engine} spends its time"
        charts.append(Chart("bar", title, Axis("kind of operator"), Axis("time", "ns"), series))
    return charts


def _times(profile: Profile) -> dict[str, float]:
    found: dict[str, float] = defaultdict(float)
    for op in profile.ops:
        if op.samples_ns:
            found[kind(op.operator)] += stats.quantile(op.samples_ns, 0.5)
    return found
