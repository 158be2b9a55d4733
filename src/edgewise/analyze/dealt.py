"""Streams that several targets worked on: who did how many frames, and what working together cost. Stages
all work on every frame, so that none has a share.

Efficiency is what came out together over what the same targets deliver alone, added up. Measured alone, each has the
machine to itself; so what is missing from 1 is contention for memory and power as much as it is dealing.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..core.types import STREAMS, Column, Finding, Measurement, Section
from ._figures import Figures, figures, machine_label
from .evidence import Evidence, absent

PLACE = 65
TITLE = "Streams over several targets"
# What the notes of a stream have between a target that was left out and the reason.
RESTS = " rests: "
# Below this share of the best single target, dealing does harm; and above it by as much, it helps.
_MARGIN = 0.02
COLUMNS = (
    Column("machine"),
    Column("model"),
    Column("scenario", "text", 5),
    Column("placement"),
    Column("target"),
    Column("frames", "count"),
    Column("share", "share"),
    Column("per_s", "rate"),
    Column("alone", "rate"),
    Column("efficiency", "ratio"),
    Column("delay_p95", "ns"),
)


def run(evidence: Evidence) -> Section:
    rows, findings = [], list[Finding]()
    for measurement in evidence.measurements:
        if measurement.task.placement.kind in STREAMS and measurement.samples_ns:
            rows += list(_rows(evidence, measurement))
            findings += _findings(evidence, measurement)
    if not rows:
        return absent(TITLE, "no stream was worked on by several targets", "edgewise bench MODEL --on 'deal(A, B)'")
    return Section(TITLE, COLUMNS, tuple(rows), tuple(findings))


def _frames(measurement: Measurement) -> list[int]:
    counts = [0] * len(measurement.task.placement.targets)
    for round in measurement.measured:
        for who, frames in enumerate(round.shares):
            counts[who] += frames
    return counts


def _alone(evidence: Evidence, measurement: Measurement) -> list[Figures | None]:
    """Each of its targets by itself, as the same batch of the same model was measured on the same machine."""
    found: list[Figures | None] = []
    for target in measurement.task.placement.alone:
        those = [
            m
            for m in evidence.measurements
            if m.task.subject == measurement.task.subject
            and m.machine == measurement.machine
            and m.task.scenario.batch == measurement.task.scenario.batch
            and m.task.scenario.kind in ("single", "offline")
            and m.task.placement.kind == "single"
            and m.task.placement.targets[0] == target
            and m.samples_ns
        ]
        found.append(figures(those[-1]) if those else None)
    return found


def _rows(evidence: Evidence, measurement: Measurement) -> Iterator[tuple[object, ...]]:
    whole, frames = figures(measurement), _frames(measurement)
    alone = _alone(evidence, measurement)
    about = (
        machine_label(evidence, measurement.machine),
        measurement.label,
        str(measurement.task.scenario),
        str(measurement.task.placement),
    )
    staged = measurement.task.placement.kind == "stages"
    total = sum(frames) or 1
    for target, count, single in zip(measurement.task.placement.alone, frames, alone, strict=True):
        rate = whole.per_s * count / total
        by_itself = single.per_s if single else None
        if staged:
            yield (*about, str(target), None, None, None, by_itself, None, None)
            continue
        yield (
            *about,
            str(target),
            count,
            count / total,
            rate,
            by_itself,
            rate / by_itself if by_itself else None,
            None,
        )
    added = [single.per_s for single in alone if single]
    together = sum(added) if len(added) == len(alone) else None
    p95 = whole.percentile(0.95)
    yield (
        *about,
        "together",
        len(measurement.samples_ns) if staged else sum(frames),
        1.0,
        whole.per_s,
        together,
        whole.per_s / together if together else None,
        p95.estimate if p95 else None,
    )


def _findings(evidence: Evidence, measurement: Measurement) -> Iterator[Finding]:
    name = f"{measurement.label} on {measurement.task.placement}"
    rests = [note for note in (measurement.starts[-1].ran.notes if measurement.starts else ()) if RESTS in note]
    if rests:
        yield Finding("deal_rests", "note", name, (("notes", "; ".join(rests)),))
    alone = [single for single in _alone(evidence, measurement) if single]
    if not alone:
        return
    whole, best = figures(measurement).per_s, max(alone, key=lambda each: each.per_s)
    complete = len(alone) == len(measurement.task.placement.targets)
    values = (
        ("per_s", whole),
        ("gain", whole / best.per_s),
        ("best", str(best.measurement.task.placement)),
        ("efficiency", whole / sum(each.per_s for each in alone) if complete else None),
    )
    if whole < (1 - _MARGIN) * best.per_s:
        yield Finding("deal_harms", "caution", name, values)
    elif not complete:
        # One that was not measured alone may be the best.
        return
    elif whole > (1 + _MARGIN) * best.per_s:
        yield Finding("deal_helps", "note", name, values)
    else:
        yield Finding("deal_equal", "note", name, values)
