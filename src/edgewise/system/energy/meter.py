"""What a meter is: one source of energy or power readings, how fine it is and how often it has something new."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from .. import number

Source = Literal["rapl", "nvml", "hwmon", "jetson", "battery", "powermetrics", "estimate"]

# Both ends of a window may be late by one update: over ten updates that is at most a tenth of the result.
_UPDATES = 10


@dataclass(frozen=True, slots=True)
class Reading:
    """`energy_uj` is a total since some moment in the past: subtract two. None where the meter did not answer."""

    energy_uj: int | None
    power_uw: int | None
    at_ns: int


@dataclass(slots=True)
class Meter:
    """`counts` says which of the two it tells: energy that adds up (true) or the power of the moment.

    `step` is the smallest change it shows, in µJ or µW accordingly. `part_of` names what contains this one: the energy
    of both must not be added.
    """

    source: Source
    covers: str
    counts: bool
    step: int
    update_ns: int
    value: Callable[[], int | None]
    part_of: str | None = None
    close: Callable[[], None] = lambda: None
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @property
    def minimum_ns(self) -> int:
        """Windows shorter than this say more about the meter than about the work."""
        return self.update_ns * _UPDATES

    def read(self) -> Reading:
        # One at a time: a counter that wraps is followed from reading to reading.
        with self._lock:
            before_ns = time.perf_counter_ns()
            value = self.value()
            at_ns = (before_ns + time.perf_counter_ns()) // 2
        return Reading(value, None, at_ns) if self.counts else Reading(None, value, at_ns)


@dataclass(frozen=True, slots=True)
class Found:
    """What a search for one source came to."""

    source: Source
    meters: tuple[Meter, ...] = ()
    missing: tuple[str, ...] = ()


def from_files(first: Path, second: Path | None = None, scale: int = 1, divide: int = 1) -> Callable[[], int | None]:
    """A value that is read from a file, or is the product of two; None while one of them does not answer."""

    def value() -> int | None:
        one, other = number(first), number(second) if second else 1
        # Currents of either sign mean the same power: drivers disagree on which way is positive.
        return None if one is None or other is None else abs(one * other) * scale // divide

    return value
