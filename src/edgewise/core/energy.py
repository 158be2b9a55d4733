"""What a stretch of work used, as a meter saw it: raw, beside what the device uses when it does nothing."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Energy:
    """One meter's window over `runs` runs of one start. `energy_uj` is None where the meter could not tell: `reason`.

    `source` is the meter's kind, `estimate` where a power was declared and nothing was read. `idle_uw` is the mean
    power without work, read before it; `part_of` names the meter that contains this one.
    """

    source: str
    covers: str
    start: int
    runs: int
    elapsed_ns: int
    energy_uj: int | None
    error_uj: int | None = None
    idle_uw: int | None = None
    idle_spread_uw: int | None = None
    part_of: str | None = None
    reason: str | None = None
