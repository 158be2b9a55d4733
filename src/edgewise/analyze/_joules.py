"""What an inference used, as the meters of its measurement saw it: the one place where that is worked out."""

from __future__ import annotations

from collections import defaultdict

from ..core.energy import Used, by_meter, whole
from ..core.types import Measurement


def meters(m: Measurement) -> tuple[Used, ...]:
    """What an inference used as each meter saw it."""
    busy: dict[int, int] = defaultdict(int)
    # The round that spans a server's whole stream has no samples; pauses between its answers are part of the load.
    spans = [r for r in m.measured if not r.samples_ns] or m.measured
    for r in spans:
        busy[r.start] += r.elapsed_ns
    return tuple(by_meter(m.energies, m.task.scenario.batch, busy))


def used(measurement: Measurement) -> Used | None:
    """What an inference used by the readings that cover what ran it; None where no meter was read at all. An estimate
    is never among them."""
    return whole(meters(measurement), measurement.task.placement.targets[0].device)


def estimated(measurement: Measurement) -> Used | None:
    """What a declared power makes of it."""
    return next((meter for meter in meters(measurement) if meter.estimate), None)


def beside(found: Used) -> frozenset[str]:
    """The parts of the machine that were read beside an accelerator: with others, or none, a sum means something
    else."""
    return frozenset(part for part in found.covers.split(" + ") if not part.startswith("gpu"))
