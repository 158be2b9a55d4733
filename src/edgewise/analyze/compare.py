"""Interleaved measurements against the first of them: ratios with intervals."""

from __future__ import annotations

from collections.abc import Sequence

from ..core import stats
from ..core.types import STREAMS, Column, Finding, Measurement, Round, Section
from . import trust

COLUMNS = (
    Column("model"),
    Column("target"),
    Column("p50", "ns"),
    Column("speed", "ratio"),
    Column("interval", "ratio_range"),
    Column("verdict"),
    Column("starts", "count"),
    Column("runs", "count"),
    Column("error", "error"),
)

# What interleaving takes care of, or what a short turn cannot say.
_OF_ONE_SIDE = ("wide_interval", "drifting", "never_steady", "several_modes")


def speed(baseline: Measurement, other: Measurement, *, frames: bool | None = None) -> stats.Ratio | None:
    """How many times as fast `other` is as `baseline`, from rounds they took in turns: by the median of a run, or where
    `frames` (by default where either is a stream, which is as quick as they come out) by how many did in a time."""
    if frames is None:
        frames = any(m.task.placement.kind in STREAMS for m in (baseline, other))
    pairs: list[list[tuple[float, float]]] = []
    for index in range(len(baseline.starts)):
        ours = [cost_ns(r, frames) for r in baseline.measured if r.start == index]
        theirs = [cost_ns(r, frames) for r in other.measured if r.start == index]
        pairs.append(list(zip(ours, theirs, strict=False)))
    return stats.ratio(pairs)


def cost_ns(round: Round, frames: bool) -> float:
    return round.elapsed_ns / len(round.samples_ns) if frames else stats.quantile(round.samples_ns, 0.5)


def run(measurements: Sequence[Measurement]) -> Section:
    baseline, rows = measurements[0], []
    findings: list[Finding] = []
    for index, m in enumerate(measurements):
        ratio = speed(baseline, m) if index else None
        samples = m.samples_ns
        verdict = "baseline"
        if index:
            verdict = "unknown" if ratio is None else _verdict(ratio)
            findings.append(_finding(baseline, m, ratio))
        rows.append(
            (
                m.label,
                str(m.task.placement),
                stats.quantile(samples, 0.5) if samples else None,
                ratio.estimate if ratio else (1.0 if not index else None),
                (ratio.low, ratio.high) if ratio else None,
                verdict,
                len(m.starts),
                len(samples),
                m.starts[-1].agreement.error if m.starts and m.starts[-1].agreement else None,
            )
        )
        findings += (f for f in trust.findings(m) if f.code not in _OF_ONE_SIDE)
    return Section("Comparison", COLUMNS, tuple(rows), tuple(findings))


def _verdict(ratio: stats.Ratio) -> str:
    if not ratio.different:
        return "no difference"
    return "faster" if ratio.estimate > 1 else "slower"


def _finding(baseline: Measurement, other: Measurement, ratio: stats.Ratio | None) -> Finding:
    names = (("baseline", trust.name(baseline)), ("other", trust.name(other)))
    if ratio is None:
        return Finding("too_few_starts", "caution", trust.name(other), names)
    values = (
        ("ratio", ratio.estimate),
        ("low", ratio.low),
        ("high", ratio.high),
        ("detectable", ratio.detectable),
    )
    return Finding("faster" if ratio.different else "no_difference", "note", trust.name(other), names + values)
