"""What a stretch of work used, as a meter saw it: raw, beside what the device uses when it does nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

ESTIMATE = "estimate"
# What these meters cover contains whatever runs, in the order in which they are believed.
_WHOLE = ("board", "platform", "device", "power_meter")
# An accelerator with a meter of its own, outside the processor's package: only these may be added to RAPL's zones.
_APART = ("rapl", "nvml")
_OUTSIDE = ("cuda", "vulkan")


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


@dataclass(frozen=True, slots=True)
class Used:
    """What one inference used, as one meter saw it or several that cover different parts. None: `reason` says why.

    Errors are bounds: what the meter's steps and updates can do, and for the idle part how much idle power varied.
    """

    source: str
    covers: str
    inferences: int
    elapsed_ns: int
    total_uj: float | None = None
    error_uj: float | None = None
    idle_uj: float | None = None
    idle_error_uj: float | None = None
    part_of: str | None = None
    reason: str | None = None

    @property
    def estimate(self) -> bool:
        return self.source == ESTIMATE

    @property
    def active_uj(self) -> float | None:
        """Beyond what the device would have used anyway."""
        return None if self.total_uj is None or self.idle_uj is None else self.total_uj - self.idle_uj

    @property
    def total_range(self) -> tuple[float, float] | None:
        return _around(self.total_uj, self.error_uj)

    @property
    def active_range(self) -> tuple[float, float] | None:
        known = self.error_uj is not None and self.idle_error_uj is not None
        return _around(self.active_uj, (self.error_uj or 0.0) + (self.idle_error_uj or 0.0) if known else None)

    @property
    def per_joule(self) -> float | None:
        """Inferences per joule, which is inferences per second per watt."""
        return 1e6 / self.total_uj if self.total_uj else None

    @property
    def active_per_joule(self) -> float | None:
        """None where the work cannot be told from idling."""
        return 1e6 / self.active_uj if self.active_uj is not None and self.active_uj > 0 else None

    @property
    def idle_share(self) -> float | None:
        return self.idle_uj / self.total_uj if self.total_uj and self.idle_uj is not None else None

    @property
    def power_uw(self) -> int | None:
        """The mean while at work, in whole µW, as meters and declarations have it."""
        return None if self.total_uj is None else round(self.total_uj * self.inferences * 1e9 / self.elapsed_ns)


def _around(value: float | None, error: float | None) -> tuple[float, float] | None:
    return None if value is None or error is None else (value - error, value + error)


def by_meter(energies: Sequence[Energy], batch: int, busy_ns: Mapping[int, int] | None = None) -> list[Used]:
    """Each meter on its own, over all starts it could tell about.

    `busy_ns` is how long each start was at work within its window: what the device used in the pauses between, at its
    idle power, is not an inference's.
    """
    meters = dict.fromkeys((energy.source, energy.covers) for energy in energies)
    return [_one([e for e in energies if (e.source, e.covers) == meter], batch, busy_ns or {}) for meter in meters]


def _one(windows: Sequence[Energy], batch: int, busy_ns: Mapping[int, int]) -> Used:
    last, told = windows[-1], [_at_work(w, busy_ns.get(w.start)) for w in windows if w.energy_uj is not None]
    counted = told or windows
    count = sum(window.runs for window in counted) * batch
    elapsed_ns = sum(window.elapsed_ns for window in counted)
    used = Used(last.source, last.covers, count, elapsed_ns, part_of=last.part_of, reason=last.reason)
    if not told or not count:
        return used
    idles = [w.idle_uw * w.elapsed_ns / 1e9 for w in told if w.idle_uw is not None]
    # Idle power was subtracted over the whole window, and may be as wrong as it varied.
    spreads = [
        w.idle_spread_uw * w.elapsed_ns / 1e9
        for w in windows
        if w.energy_uj is not None and w.idle_spread_uw is not None
    ]
    errors = [w.error_uj for w in told if w.error_uj is not None]
    return replace(
        used,
        total_uj=sum(w.energy_uj or 0 for w in told) / count,
        error_uj=sum(errors) / count if len(errors) == len(told) else None,
        idle_uj=sum(idles) / count if len(idles) == len(told) else None,
        idle_error_uj=sum(spreads) / count if len(spreads) == len(told) else None,
        reason=None,
    )


def _at_work(window: Energy, busy_ns: int | None) -> Energy:
    pause_ns = max(0, window.elapsed_ns - busy_ns) if busy_ns else 0
    idle_uw = window.idle_uw
    if window.source == ESTIMATE and window.elapsed_ns:
        idle_uw = round((window.energy_uj or 0) * 1e9 / window.elapsed_ns)
    if not pause_ns or idle_uw is None:
        return window
    used_uj = (window.energy_uj or 0) - round(idle_uw * pause_ns / 1e9)
    return replace(window, elapsed_ns=window.elapsed_ns - pause_ns, energy_uj=used_uj)


def whole(meters: Sequence[Used], device: str | None) -> Used | None:
    """What an inference on `device` used in all, from the readings that cover what ran it; None without any reading.

    The meter of the whole board where there is one; else the accelerator's and the processor's packages together. A
    meter of something else has nothing to say: a GPU that idles beside a busy CPU would look most efficient.
    """
    readings = [used for used in meters if not used.estimate]
    if not readings:
        return None
    names = {(used.source, used.covers) for used in readings}
    outer = [used for used in readings if (used.source, used.part_of) not in names]
    for kind in _WHOLE:
        found = [used for used in outer if used.covers.split(" ")[0] == kind]
        if found:
            return found[0]
    chosen = _covering(outer, device or "cpu")
    if chosen:
        return _sum(chosen)
    seen = ", ".join(f"{used.covers} ({used.source})" for used in outer)
    why = f"no meter covers {device or 'the processor'}; there is one of: {seen}"
    return Used(outer[0].source, seen, outer[0].inferences, outer[0].elapsed_ns, reason=why)


def _covering(outer: Sequence[Used], device: str) -> list[Used]:
    kind, _, index = device.partition(".")
    packages = [used for used in outer if used.covers.startswith("package")]
    accelerators = [used for used in outer if used.covers.startswith("gpu")]
    named = [used for used in accelerators if used.covers == f"gpu {index}"]
    if kind == "cpu" or not accelerators:
        # A GPU or NPU on the processor's die is part of its package; a graphics card is not.
        found = [] if kind in _OUTSIDE else packages
        return found or ([outer[0]] if len(outer) == 1 and not accelerators and not packages else [])
    used = named or accelerators
    # The kernel's sensor of a GPU may cover the processor it shares a die with: then it stands alone.
    return used + packages if all(one.source in _APART for one in used + packages) else used[:1]


def _sum(parts: Sequence[Used]) -> Used:
    """Of meters that cover different parts: energies add up, and so do the bounds of their errors."""
    if len(parts) == 1:
        return parts[0]
    first = parts[0]

    def added(values: Sequence[float | None]) -> float | None:
        known = [value for value in values if value is not None]
        return sum(known) if len(known) == len(values) else None

    return Used(
        " + ".join(dict.fromkeys(part.source for part in parts)),
        " + ".join(part.covers for part in parts),
        first.inferences,
        first.elapsed_ns,
        added([part.total_uj for part in parts]),
        added([part.error_uj for part in parts]),
        added([part.idle_uj for part in parts]),
        added([part.idle_error_uj for part in parts]),
        reason=next((part.reason for part in parts if part.reason), None),
    )
