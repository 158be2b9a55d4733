"""Meters beside a measurement: which to read, what each shows without work, and one window for each start."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from ..core.energy import Energy
from ..core.errors import InputError, Unavailable
from ..system import energy as system
from ..system.energy import Idle, Meter

# How long the device is left alone before the first measurement, in seconds, and in the meter's shortest windows: the
# spread of a counter is that of whole windows, and three are the fewest to have one.
IDLE_S = 2.0
_IDLE_WINDOWS = 3.5
# The measurement itself is a little longer than the shortest window, so that the window is not short by a hair.
_MARGIN = 1.1
_UNITS = {"uw": 1, "µw": 1, "mw": 1_000, "w": 1_000_000, "kw": 1_000_000_000}
_HIGHEST_UW = 10**12


@dataclass(frozen=True, slots=True)
class Metered:
    """A meter and what it shows when nothing is done. A declared power has no idle part: `idle` is None."""

    meter: Meter
    idle: Idle | None = None


def choose_meters(power_uw: int | None = None, *, every: bool = False) -> tuple[Meter, ...]:
    """Those that cost nothing to read (counters), or `every` one: then it is an error to have none. And the declared
    power, where there is one."""
    here = system.meters()
    if every and not here:
        reasons = "; ".join(f"{source}: {reason}" for source, reason in system.missing())
        raise Unavailable(f"no energy meter can be read here. {reasons}", "declare what the device uses: --power 15W")
    # powermetrics is a program that runs beside what is measured: only when asked for.
    chosen = [meter for meter in here if every or (meter.counts and meter.source != "powermetrics")]
    return (*chosen, *([system.declared(power_uw, "device")] if power_uw is not None else []))


def baseline(meters: Sequence[Meter]) -> tuple[Metered, ...]:
    """Wait, and read what each meter shows meanwhile; all at once, so that it takes as long as the slowest."""

    def rest(meter: Meter) -> Metered:
        if meter.source == "estimate":
            return Metered(meter)
        windows = _IDLE_WINDOWS if meter.counts else _MARGIN
        return Metered(meter, system.idle(meter, max(IDLE_S, windows * meter.minimum_ns / 1e9)))

    if not meters:
        return ()
    with ThreadPoolExecutor(len(meters)) as pool:
        return tuple(pool.map(rest, meters))


def find_meters(power_uw: int | None = None, *, every: bool = False) -> tuple[Metered, ...]:
    """The meters of `choose_meters` with their idle power, ready for `run_cell`."""
    return baseline(choose_meters(power_uw, every=every))


def least_s(meters: Sequence[Metered], max_s: float) -> float:
    """How long to measure so that every meter that can tell anything within `max_s` does."""
    needed = (metered.meter.minimum_ns / 1e9 * _MARGIN for metered in meters)
    return max((seconds for seconds in needed if seconds <= max_s), default=0.0)


@contextmanager
def metering(
    meters: Sequence[Metered], start: int, runs: Callable[[], int], save: Callable[[Energy], None]
) -> Iterator[None]:
    """A window of each meter over the body; what they saw of its `runs` is saved however the body ends."""
    windows = [system.window(metered.meter) for metered in meters]
    try:
        with ExitStack() as stack:
            for window in windows:
                stack.enter_context(window)
            yield
    finally:
        done = runs()
        for metered, window in zip(meters, windows, strict=True):
            if done:
                save(_seen(metered, window, start, done))


def _seen(metered: Metered, window: system.Window, start: int, runs: int) -> Energy:
    meter, idle = metered.meter, metered.idle
    return Energy(
        source=meter.source,
        covers=meter.covers,
        start=start,
        runs=runs,
        elapsed_ns=window.elapsed_ns,
        energy_uj=window.energy_uj,
        error_uj=window.error_uj,
        idle_uw=idle.power_uw if idle else None,
        idle_spread_uw=idle.spread_uw if idle else None,
        part_of=meter.part_of,
        reason=window.reason,
    )


def parse_power(text: str) -> int:
    """`15W`, `500mW`, `2.5 W`: µW."""
    match = re.fullmatch(r"([0-9]{1,12}(?:\.[0-9]{1,9})?)\s*([uµmk]?w)", text.strip().lower())
    value = round(float(match[1]) * _UNITS[match[2]]) if match else 0
    if not 0 < value <= _HIGHEST_UW:
        raise InputError(f"{text!r} is not a power; expected such as 15W or 500mW")
    return value
