"""What else went on during a round: other processes' CPU time, clock, temperature, cache misses, memory."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from ..core.types import Round
from ..system import affinity, counters, meters


class Surroundings:
    """Read at the borders of each round. `exclude` are processes whose CPU time was ordered, not foreign."""

    def __init__(self) -> None:
        self._meters = meters.Meters(cores=affinity.current())
        self._counters = counters.open_counters()

    def begin(self, exclude: Sequence[int]) -> None:
        self._exclude = tuple(exclude)
        self._before = self._read()

    def end(self, round: Round) -> Round:
        before, after = self._before, self._read()
        reading = after[0]
        cpu = after[1] - before[1]
        ordered = after[2] - before[2]
        foreign = None
        if before[0].busy_ns is not None and reading.busy_ns is not None:
            # The system counts in coarser steps than we do, so a single round can come out negative; the sum does not.
            foreign = reading.busy_ns - before[0].busy_ns - cpu - ordered
        stolen = None
        if before[0].stolen_ns is not None and reading.stolen_ns is not None:
            stolen = reading.stolen_ns - before[0].stolen_ns
        misses = None
        if before[3] is not None and after[3] is not None:
            misses = after[3] - before[3]
        return replace(
            round,
            cpu_ns=cpu,
            foreign_ns=foreign,
            stolen_ns=stolen,
            clock_hz=reading.clock_hz,
            temperature_mc=reading.temperature_mc,
            cache_misses=misses,
            peak_bytes=meters.peak_bytes(),
        )

    def _read(self) -> tuple[meters.Reading, int, int, int | None]:
        ordered = sum(meters.process_cpu_ns(pid) or 0 for pid in self._exclude)
        misses = self._counters.read().get("cache_misses") if self._counters else None
        return self._meters.read(), time.process_time_ns(), ordered, misses
