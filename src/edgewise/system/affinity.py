"""What this process may use of the machine (cores, CPU quota, memory), and pinning it to some cores."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from ..core.errors import InputError, Unavailable
from ..core.types import Machine
from . import core_list, integer, number, text

# Threads may be born while a process is being pinned; each pass catches those the pass before has missed.
_PASSES = 5
# The largest number of cores a kernel can be built for.
_MOST_CORES = 8192


def current() -> tuple[int, ...]:
    """The cores this process may run on now."""
    if hasattr(os, "sched_getaffinity"):
        return tuple(sorted(os.sched_getaffinity(0)))
    return tuple(range(os.cpu_count() or 1))


def pin(cores: Iterable[int]) -> None:
    """Confine every thread of this process, and all it will start, to these cores."""
    wanted = set(cores)
    pin_thread(wanted)
    for _ in range(_PASSES):
        if not _pin_threads(wanted):
            return
    raise Unavailable(f"threads of this process keep leaving cores {sorted(wanted)}")


def pin_thread(cores: Iterable[int]) -> None:
    """Confine the thread that asks, and those it will start, to these cores."""
    wanted = set(cores)
    if not hasattr(os, "sched_setaffinity"):
        raise Unavailable(
            "this operating system does not let a process choose its cores",
            "leave out #cores: name a number of threads instead, such as ort:cpu@4",
        )
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, wanted)
        # The kernel drops forbidden cores without a word, so what it granted is compared with what was asked.
        granted = os.sched_getaffinity(0)
    except (OSError, ValueError, OverflowError):
        granted = set()
    if granted != wanted or not wanted:
        valid = _grantable(before)
        asked = "+".join(map(str, sorted(wanted))) or "none"
        raise InputError(
            f"cannot run on cores {asked}: this process may use {', '.join(map(str, sorted(valid)))}",
            f"choose among them, such as #{min(valid)}",
        )


def cluster_cores(machine: Machine, name: str) -> tuple[int, ...]:
    """The cores of the cluster with this name."""
    for cluster in machine.clusters:
        if cluster.name == name:
            return cluster.cores
    names = ", ".join(cluster.name for cluster in machine.clusters)
    raise InputError(f"no cluster {name!r} on {machine.label}; its clusters: {names}")


def usable_cores(machine: Machine) -> tuple[int, ...]:
    """The machine's cores that are in this process's affinity mask."""
    mask = set(current())
    return tuple(core for core in machine.cores if core in mask)


def physical_cores(machine: Machine, cores: Iterable[int]) -> tuple[int, ...]:
    """One logical core, the first given, of each physical core among `cores`."""
    threaded = {core for cluster in machine.clusters if cluster.threads_per_core > 1 for core in cluster.cores}
    # Hardware threads of one core share its first-level data cache, and no other core does.
    siblings = {
        core: cache.shared_by
        for cache in machine.caches
        if cache.level == 1 and cache.kind != "instruction"
        for core in cache.shared_by
    }
    chosen: list[int] = []
    taken: set[int] = set()
    for core in cores:
        if core not in taken:
            chosen.append(core)
            taken.update(siblings[core] if core in threaded and core in siblings else (core,))
    return tuple(chosen)


def allowed_cores(root: Path = Path("/")) -> tuple[int, ...] | None:
    """The cores the cpuset of this process's control group leaves it, None where none is set."""
    for folder in _groups(root, "cpuset"):
        for name in ("cpuset.cpus.effective", "cpuset.effective_cpus", "cpuset.cpus"):
            if cores := core_list(text(folder / name)):
                return cores
    return None


def cpu_quota(root: Path = Path("/")) -> float | None:
    """How many cores' worth of CPU time the control groups grant, None without a limit."""
    quotas = []
    for folder in _groups(root, "cpu"):
        quota, period = number(folder / "cpu.cfs_quota_us"), number(folder / "cpu.cfs_period_us")
        if (limit := text(folder / "cpu.max")) is not None:
            fields = limit.split()
            quota, period = map(integer, [*fields, "", ""][:2])
        if quota is not None and period is not None and quota > 0 and period > 0:
            quotas.append(quota / period)
    return min(quotas, default=None)


def memory_limit_bytes(root: Path = Path("/")) -> int | None:
    """The lowest memory limit of this process's control groups, None without one."""
    names = ("memory.max", "memory.limit_in_bytes")
    limits = [number(folder / name) for folder in _groups(root, "memory") for name in names]
    return min((limit for limit in limits if limit is not None and limit > 0), default=None)


def _groups(root: Path, controller: str) -> list[Path]:
    """Folders of this process's control group and its ancestors, nearest first, of both versions."""
    top = root / "sys/fs/cgroup"
    folders = []
    for line in (text(root / "proc/self/cgroup") or "0::/").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, inside = rest.partition(":")
        path = PurePosixPath(inside.lstrip("/"))
        # A path that leaves its namespace names nothing visible here; the namespace's own root remains.
        steps = [] if ".." in path.parts else [path, *path.parents]
        if not controllers:
            bases = [top, top / "unified"]
        elif controller in controllers.split(","):
            bases = [top / controller]
        else:
            continue
        folders += [base / step for base in bases for step in [*steps, PurePosixPath()]]
    return list(dict.fromkeys(folders))


def _grantable(before: set[int]) -> set[int]:
    """Every core the kernel would grant: found by asking for all, since no file says it reliably."""
    os.sched_setaffinity(0, range(_MOST_CORES))
    granted = os.sched_getaffinity(0)
    os.sched_setaffinity(0, before)
    return granted


def _pin_threads(wanted: set[int]) -> int:
    """Pin the threads that are elsewhere; returns how many were."""
    moved = 0
    for thread in os.listdir("/proc/self/task"):
        try:
            if os.sched_getaffinity(int(thread)) != wanted:
                os.sched_setaffinity(int(thread), wanted)
                moved += 1
        except ProcessLookupError:
            continue
    return moved
