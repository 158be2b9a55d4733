"""What a measurement has to say against itself: findings every analysis attaches to the results it shows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from ..core import stats
from ..core.types import Finding, Level, Measurement, Placement, Scalar, Scenario
from ._figures import Figures, figures, sampled

# Other processes taking more than this share of the machine is the commonest reason for a wrong number.
FOREIGN_SHARE = 0.03
STOLEN_SHARE = 0.02
# The error (relative root mean square) a precision explains by itself: its unit roundoff, times what some hundred
# layers make of it. More than that is a wrong answer, not a rounded one.
EXPLAINED_ERROR = {"fp32": 1e-4, "tf32": 2e-2, "fp16": 2e-2, "bf16": 1e-1, "int8": 3e-1}
# A lower precision that changes nothing did not happen.
SAME_ANSWER = 1e-7
CLOCK_DROP = 0.05
# Fewer warm-up runs than this cannot show whether the series is steady.
FEWEST_WARM = 10
LATE_SHARE = 0.1

Found = Callable[..., Finding]


def name(measurement: Measurement) -> str:
    """How findings refer to a measurement: with its load where that is not one inference after another."""
    return f"{measurement.label} on {measurement.task.placement}{load(measurement.task.scenario)}"


def load(scenario: Scenario) -> str:
    """Behind a name: what is asked of it, without how long it is watched."""
    s = scenario
    told = str(Scenario(s.kind, s.batch, s.n, s.rate_hz, contention=s.contention))
    return "" if told == "single" else f", {told}"


def coarsest(placement: Placement) -> str:
    """The precision that explains the most error, of those a placement computes in."""
    return max((target.precision or "fp32" for target in placement.targets), key=EXPLAINED_ERROR.__getitem__)


def wrong(measurement: Measurement) -> bool:
    """Whether the answers are not the model's: more error than rounding explains in fp32, overflow in any precision."""
    precision = coarsest(measurement.task.placement)
    found = [start.agreement.error for start in measurement.starts if start.agreement]
    return any(math.isinf(error) or (precision == "fp32" and error > EXPLAINED_ERROR["fp32"]) for error in found)


def findings(measurement: Measurement, about: str | None = None) -> Iterator[Finding]:
    """`about`: what it is called where its name is not enough."""
    about = about or name(measurement)

    def found(code: str, level: Level, **values: Scalar) -> Finding:
        return Finding(code, level, about, tuple(values.items()))

    scenario, rounds = measurement.task.scenario, measurement.measured
    # Capacity that could have been used meanwhile, as far as the meters were read.
    capacity = sum(r.elapsed_ns for r in rounds if r.foreign_ns is not None) * (measurement.starts[0].cpus or 1)
    if capacity:
        foreign = sum(r.foreign_ns or 0 for r in rounds) / capacity
        if foreign > FOREIGN_SHARE:
            yield found("foreign_load", "caution", share=foreign)
        stolen = sum(r.stolen_ns or 0 for r in rounds) / capacity
        if stolen > STOLEN_SHARE:
            yield found("stolen_time", "caution", share=stolen)
    yield from _series(measurement, found, about)
    yield from _answer(measurement, found)
    clocks = [r.clock_hz for r in rounds if r.clock_hz]
    third = len(clocks) // 3
    if third:
        before, after = sum(clocks[:third]) / third, sum(clocks[-third:]) / third
        if after < before * (1 - CLOCK_DROP):
            yield found("clock_dropped", "caution", before_hz=round(before), after_hz=round(after))
    late = max((r.late_ns for r in rounds if r.late_ns is not None), default=None)
    if late and sampled(measurement) and late > LATE_SHARE * figures(measurement).p50:
        yield found("late_generator", "note", late_ns=late)
    if scenario.contention:
        yield found("contention", "note", contention=str(scenario.contention))


def _series(measurement: Measurement, found: Found, about: str) -> Iterator[Finding]:
    scenario = measurement.task.scenario
    last = len(measurement.starts) - 1
    warm = [s for r in measurement.rounds if r.warmup and r.start == last for s in r.samples_ns]
    if scenario.warmup is None and len(warm) >= FEWEST_WARM and stats.steady(warm) is None:
        yield found("never_steady", "caution", runs=len(warm))
    if not sampled(measurement):
        return
    row = figures(measurement)
    if row.drifts:
        yield found("drifting", "caution", change=row.drift.change)
    # What is reported allows for the choice of the end, so it is wider than what was asked about at the first look.
    if row.median and scenario.width and row.median.relative_width > scenario.width:
        interval = stats.interval(row.samples, check_drift=False)
        if interval and interval.relative_width > scenario.width:
            yield found("wide_interval", "caution", width=interval.relative_width, asked=scenario.width)
    if len(row.modes.modes) > 1:
        yield several_modes(row, about)


def several_modes(row: Figures, about: str) -> Finding:
    modes = row.modes
    shown = ", ".join(f"{round(m.center)}:{m.share:.3f}" for m in modes.modes)
    values = (("modes", shown), ("alternation", modes.alternation), ("dwell", modes.mean_dwell))
    return Finding("several_modes", "note", about, values)


def _answer(measurement: Measurement, found: Found) -> Iterator[Finding]:
    target = measurement.task.placement.parts[0].target
    start = measurement.starts[-1] if measurement.starts else None
    # A chooser is compared with labels, not with what another would answer.
    if start is None or measurement.task.placement.kind == "select":
        return
    if "nothing was computed" in start.ran.notes:
        yield found("nothing_computed", "note")
        return
    for note in start.ran.notes:
        if note.startswith("emulated"):
            yield found("emulated", "caution", device=note)
    precision = coarsest(measurement.task.placement)
    if start.agreement is None:
        yield found("not_compared", "note")
        return
    error = start.agreement.error
    if error > EXPLAINED_ERROR[precision]:
        level = "problem" if precision == "fp32" else "caution"
        yield found("disagrees", level, error=error, precision=precision, explained=EXPLAINED_ERROR[precision])
    elif precision not in ("fp32", "tf32") and error < SAME_ANSWER:
        reported = dict(start.ran.precisions).get(precision, 0)
        yield found("same_answer", "note" if reported else "caution", precision=precision, reported=reported)
    asked = {each.device for each in measurement.task.placement.targets}
    if target.device and not target.device.startswith("cpu") and len(start.ran.devices) > len(asked):
        yield found("fell_back", "caution", devices=", ".join(start.ran.notes))
