"""Cheap readings at the borders of a measuring round: CPU time of all, clock, temperature; and memory."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from . import core_list, text

_LINUX = sys.platform.startswith("linux")
# CLOCK_MONOTONIC_COARSE: its resolution is the period of the scheduler's tick.
_COARSE_CLOCK = 6
_CPU_SENSORS = re.compile(r"coretemp|k10temp|zenpower|cpu|soc|pkg|big|little", re.IGNORECASE)
# Sensors that are switched off answer with zero kelvin or with the largest number they have.
_PLAUSIBLE_MC = range(-40_000, 150_000)


@dataclass(frozen=True, slots=True)
class Reading:
    """`busy_ns` and `stolen_ns` are totals over all processes and cores since boot: subtract two readings."""

    at_ns: int
    busy_ns: int | None
    stolen_ns: int | None
    clock_hz: int | None
    temperature_mc: int | None


class Meters:
    """The files that tell, found and opened once, so that a reading costs microseconds.

    `busy_ns` moves in steps: `resolution_ns` is the step with every core busy. Clocks are those of `cores`.
    """

    def __init__(self, root: Path = Path("/"), cores: Iterable[int] | None = None) -> None:
        self._open: list[int] = []
        self._elsewhere = not _LINUX and root == Path("/")
        self._stat = self._files([root / "proc/stat"])
        self._usage = self._files(_usage(root))
        folder = root / "sys/devices/system/cpu"
        names = ["cpu[0-9]*"] if cores is None else [f"cpu{core}" for core in cores]
        self._clocks = self._files(p for n in names for p in sorted(folder.glob(f"{n}/cpufreq/scaling_cur_freq")))
        self._sensors = self._files(_sensors(root))
        self._jiffy_ns = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
        count = len(core_list(text(folder / "online"))) or os.cpu_count() or 1
        step_ns = _tick_ns() if self._usage else None
        self.resolution_ns: int = (step_ns or self._jiffy_ns) * count

    def read(self) -> Reading:
        busy_ns, stolen_ns = self._times()
        if self._usage:
            busy_ns = _first_number(self._usage[0])
        clocks = [value for file in self._clocks if (value := _first_number(file))]
        heats = [value for file in self._sensors if (value := _first_number(file)) in _PLAUSIBLE_MC]
        return Reading(
            at_ns=time.perf_counter_ns(),
            busy_ns=busy_ns,
            stolen_ns=stolen_ns,
            clock_hz=sum(clocks) * 1000 // len(clocks) if clocks else None,
            temperature_mc=max((value for value in heats if value is not None), default=None),
        )

    def close(self) -> None:
        while self._open:
            os.close(self._open.pop())
        self._stat = self._usage = self._clocks = self._sensors = ()

    def __enter__(self) -> Meters:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _files(self, paths: Iterable[Path]) -> Sequence[int]:
        opened = []
        for path in paths:
            with contextlib.suppress(OSError):
                opened.append(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
        self._open += opened
        return tuple(opened)

    def _times(self) -> tuple[int | None, int | None]:
        """CPU time used and stolen, over all cores; /proc/stat where there is one."""
        if self._elsewhere:
            import psutil

            times = psutil.cpu_times()
            return int((times.user + times.nice + times.system) * 1e9), None
        fields = _line(self._stat[0]).split() if self._stat else []
        if len(fields) < 8 or fields[0] != b"cpu" or not all(field.isdigit() for field in fields[1:]):
            return None, None
        counts = [int(field) for field in fields[1:9]]
        # Sandboxes such as gVisor fill the line with zeros: that is no reading.
        if not any(counts):
            return None, None
        user, nice, system, _idle, _wait, irq, softirq, *stolen = counts
        # Guests are left out: their time is in `user` and `nice` already.
        busy = (user + nice + system + irq + softirq) * self._jiffy_ns
        return busy, stolen[0] * self._jiffy_ns if stolen else None


def read(root: Path = Path("/")) -> Reading:
    """One reading. Who takes many builds `Meters` once."""
    with Meters(root) as meters:
        return meters.read()


def process_cpu_ns(pid: int) -> int | None:
    """CPU time of all threads of another process, those that ended included; None where it is gone."""
    if pid <= 0:
        return None
    if _LINUX:
        try:
            # The number clock_getcpuclockid makes. /proc/<pid>/schedstat is of the first thread only, and
            # /proc/<pid>/stat counts in hundredths of a second.
            return time.clock_gettime_ns((~pid << 3) | 2)
        except (OSError, OverflowError):
            return None
    import psutil

    try:
        times = psutil.Process(pid).cpu_times()
    except psutil.Error:
        return None
    return int((times.user + times.system) * 1e9)


def peak_bytes() -> int | None:
    """The most memory this process has held since its start or since `reset_peak`."""
    found = re.search(r"VmHWM:\s*(\d+) kB", text(Path("/proc/self/status")) or "")
    if found:
        return int(found[1]) * 1024
    with contextlib.suppress(ImportError):
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024
    return None


def reset_peak() -> bool:
    """Start the peak again from what is held now; False where the system cannot."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    return True


def rss_bytes() -> int | None:
    """The memory this process holds now."""
    fields = (text(Path("/proc/self/statm")) or "").split()
    if len(fields) > 1:
        return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")
    with contextlib.suppress(ImportError):
        import psutil

        return int(psutil.Process().memory_info().rss)
    return None


def _usage(root: Path) -> list[Path]:
    """The CPU time of all processes in nanoseconds, where there is such a file.

    The topmost control group of version 1 has it; no other has a release_agent, so a container's own group is
    not mistaken for it. It is charged at each tick from the clock that process times come from, so the two
    can be subtracted. Not /proc/schedstat: it charges a task when it leaves its core, and who computes stays.
    """
    folder = root / "sys/fs/cgroup/cpuacct"
    return [folder / "cpuacct.usage"] if (folder / "release_agent").exists() else []


def _sensors(root: Path) -> list[Path]:
    """Temperatures of the processor; of anything else only where no sensor says it is the processor's."""
    found = [(zone / "temp", text(zone / "type")) for zone in sorted(root.glob("sys/class/thermal/thermal_zone*"))]
    for chip in sorted(root.glob("sys/class/hwmon/hwmon*")):
        found += [(path, text(chip / "name")) for path in sorted(chip.glob("temp*_input"))]
    return [path for path, name in found if _CPU_SENSORS.search(name or "")] or [path for path, _ in found]


def _tick_ns() -> int | None:
    try:
        return round(time.clock_getres(_COARSE_CLOCK) * 1e9)
    except (OSError, AttributeError):
        return None


def _line(file: int) -> bytes:
    try:
        return os.pread(file, 256, 0).partition(b"\n")[0]
    except OSError:
        return b""


def _first_number(file: int) -> int | None:
    try:
        return int(_line(file))
    except ValueError:
        return None
