"""The energy of a stretch of time, with its error bar; and the power of a device that does nothing."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from ...core.errors import InputError
from .meter import Meter, Reading

_S = 1_000_000_000
# Power that is read fewer times than this could have been anything in between.
_FEWEST = 5
# A counter is read now and then only so that no wrap is missed: the quickest take minutes.
_COUNTER_EVERY_S = 10.0
_SHORTEST_EVERY_S = 0.005


@dataclass(slots=True)
class Window:
    """Filled when the window closes. `energy_uj` is None where the meter cannot tell, and `reason` says why.

    `error_uj` bounds what the meter's steps, its updates and the sampling can do. Calibration is not in it.
    """

    meter: Meter
    every_s: float
    energy_uj: int | None = None
    error_uj: int | None = None
    reason: str | None = None
    readings: list[Reading] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event, repr=False)
    _sampler: threading.Thread | None = field(default=None, repr=False)

    @property
    def samples(self) -> int:
        return len(self.readings)

    @property
    def elapsed_ns(self) -> int:
        return self.readings[-1].at_ns - self.readings[0].at_ns if self.readings else 0

    @property
    def power_uw(self) -> int | None:
        """The mean over the window."""
        return None if self.energy_uj is None or not self.elapsed_ns else self.energy_uj * _S // self.elapsed_ns

    def __enter__(self) -> Window:
        self._sampler = threading.Thread(target=self._sample, name="energy", daemon=True)
        self.readings.append(self.meter.read())
        self._sampler.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._sampler:
            self._sampler.join()
        self.readings.append(self.meter.read())
        self.energy_uj, self.error_uj, self.reason = energy(self.meter, self.readings)

    def _sample(self) -> None:
        while not self._stop.wait(self.every_s):
            self.readings.append(self.meter.read())


def window(meter: Meter, every_s: float | None = None) -> Window:
    """`with window(meter) as w:` measures its body. Power is sampled by a thread, as often as the meter has news."""
    if every_s is None:
        every_s = _COUNTER_EVERY_S if meter.counts else max(meter.update_ns / _S, _SHORTEST_EVERY_S)
        if meter.source == "estimate":
            every_s = _COUNTER_EVERY_S
    if not every_s > 0:
        raise InputError(f"a reading every {every_s} s: expected a time above zero")
    return Window(meter, every_s)


def energy(meter: Meter, readings: Sequence[Reading]) -> tuple[int | None, int | None, str | None]:
    """(µJ, ± µJ, why not) of what these readings span."""
    elapsed_ns = readings[-1].at_ns - readings[0].at_ns
    values = [reading.energy_uj if meter.counts else reading.power_uw for reading in readings]
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return None, None, f"{meter.source} gave no answer {len(values) - len(known)} times of {len(values)}"
    if meter.source == "estimate":
        return _trapezoid(readings, known), None, None
    if elapsed_ns < meter.minimum_ns:
        short = f"{elapsed_ns // 1_000_000} ms is too short for {meter.source}"
        return None, None, f"{short}, which needs {meter.minimum_ns // 1_000_000} ms"
    return _counted(meter, known, elapsed_ns) if meter.counts else _sampled(meter, readings, known, elapsed_ns)


def _counted(meter: Meter, totals: list[int], elapsed_ns: int) -> tuple[int | None, int | None, str | None]:
    used_uj = totals[-1] - totals[0]
    if any(later < earlier for earlier, later in pairwise(totals)):
        return None, None, f"the counter of {meter.source} started again"
    if not used_uj:
        # Virtual machines show counters that stand still.
        return None, None, f"the counter of {meter.source} did not move"
    # Either end may lag behind by one update, at the mean power, and is rounded to the step.
    return used_uj, meter.step + -(-used_uj * meter.update_ns // elapsed_ns), None


def _sampled(
    meter: Meter, readings: Sequence[Reading], powers: list[int], elapsed_ns: int
) -> tuple[int | None, int | None, str | None]:
    if len(powers) < _FEWEST:
        return None, None, f"{len(powers)} readings of power: expected {_FEWEST} or more"
    # Between two readings power may have stayed at either: half their difference. Readings may lag behind by one
    # update, which matters by what changed from end to end. And each is rounded to the step.
    gaps = zip(pairwise(readings), pairwise(powers), strict=True)
    between = sum(abs(right - left) * (b.at_ns - a.at_ns) for (a, b), (left, right) in gaps) // 2
    lag = abs(powers[-1] - powers[0]) * meter.update_ns
    return _trapezoid(readings, powers), -(-(between + lag + meter.step * elapsed_ns) // _S), None


def _trapezoid(readings: Sequence[Reading], powers: list[int]) -> int:
    gaps = zip(pairwise(readings), pairwise(powers), strict=True)
    return sum((left + right) * (b.at_ns - a.at_ns) for (a, b), (left, right) in gaps) // (2 * _S)


@dataclass(frozen=True, slots=True)
class Idle:
    """Mean power and the standard deviation of its slices; None, with the reason, where the meter cannot tell."""

    power_uw: int | None
    spread_uw: int | None
    samples: int
    elapsed_ns: int
    reason: str | None


def idle(meter: Meter, seconds: float) -> Idle:
    """What the device uses while this process waits. Who wants the cost of work subtracts it."""
    if not seconds > 0:
        raise InputError(f"an idle time of {seconds} s: expected more than nothing")
    # Each slice of a counter is a window of its own, so it must be long enough for one.
    every_s = max(seconds / 20, meter.minimum_ns / _S) if meter.counts else None
    with window(meter, every_s) as waited:
        time.sleep(seconds)
    if waited.energy_uj is None:
        return Idle(None, None, waited.samples, waited.elapsed_ns, waited.reason)
    powers = _powers(waited)
    measured = meter.source != "estimate" and len(powers) > 1
    spread_uw = round(statistics.stdev(powers)) if measured else None
    return Idle(waited.power_uw, spread_uw, waited.samples, waited.elapsed_ns, None)


def _powers(waited: Window) -> list[float]:
    readings = waited.readings
    if not waited.meter.counts:
        return [float(reading.power_uw) for reading in readings if reading.power_uw is not None]
    # The last slice is whatever was left over, mostly too short to tell.
    slices = [(a, b) for a, b in pairwise(readings) if b.at_ns - a.at_ns >= waited.meter.minimum_ns]
    return [((b.energy_uj or 0) - (a.energy_uj or 0)) * _S / (b.at_ns - a.at_ns) for a, b in slices]
