"""The roofs of this processor: kernels that it has instructions for, one process on each core, all at once."""

from __future__ import annotations

import importlib
import json
import os
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

from ...core.roofs import WITHOUT_AMX, Roof, Roofs
from ...core.types import Machine
from .kernel import Kernel

ARCHITECTURES = ("x86_64", "aarch64")
PRECISIONS = ("fp32", "fp16", "bf16", "int8")
# Of work with every process at it, and of the windows it is looked at through: the best one is the roof.
_WORK_NS = 240_000_000
_WINDOW_NS = 40_000_000
_HAD = 0.6
_MOST_TRIES = 3
_CONFIRMED = 0.95
_TIMEOUT_S = 60.0
# Between the word and the work, so that all have heard it.
_SOON_NS = 2_000_000
# Memory is read in buffers so much larger than the last cache, within these sizes and this share of what there is.
_BEYOND = 4
_LEAST_BYTES, _MOST_BYTES = 64 << 20, 1 << 30
_MEMORY_SHARE = 0.25
_MOST_CACHED_BYTES = 64 << 20
_BLOCK_BYTES = 4096
_AMX = "amx"
_ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"), "1"
)


def roofs(machine: Machine, cores: Sequence[int], *, device: str = "cpu", threads: int | None = None) -> Roofs:
    """Of these cores, one process on each. What cannot be measured is missing, with the reason."""
    found: list[Roof] = []
    missing: list[tuple[str, str]] = []
    for roof in PRECISIONS:
        _first(roof, roof, 0, machine, cores, found, missing)
        if found and found[-1].name == roof and _AMX in found[-1].method:
            vectors = replace(machine, isa=tuple(name for name in machine.isa if not name.startswith(_AMX)))
            _first(roof + WITHOUT_AMX, roof, 0, vectors, cores, found, missing)
    size = _memory_bytes(machine, len(cores))
    for name, roof in (("memory", "read"), ("memory copy", "copy")):
        _first(name, roof, size // (2 if roof == "copy" else 1), machine, cores, found, missing)
    for name, cached in _cached_bytes(machine, cores):
        _first(name, "read", cached, machine, cores, found, missing, fallback=False)
    return Roofs(machine.id, device, threads or len(cores), tuple(found), tuple(missing))


def kernels(architecture: str | None = None) -> tuple[Kernel, ...]:
    """Of that architecture, this one's by default; none where there are none for it, or no Linux to run them on."""
    if architecture is None and not (sys.platform == "linux" and sys.maxsize > 2**32):
        return ()
    name = architecture or platform.machine()
    if name not in ARCHITECTURES:
        return ()
    table: tuple[Kernel, ...] = importlib.import_module(f"{__package__}.{name}").KERNELS
    return table


def _first(
    name: str,
    roof: str,
    size: int,
    machine: Machine,
    cores: Sequence[int],
    found: list[Roof],
    missing: list[tuple[str, str]],
    *,
    fallback: bool = True,
) -> None:
    """The first kernel that works, best instructions first. One that is advertised and dies costs only itself."""
    known = kernels()
    usable = [each for each in known if each.roof == roof and each.isa in machine.isa]
    ways: list[tuple[Kernel | None, str]] = [(each, f"{each.instruction} ({each.isa})") for each in usable]
    if fallback and roof in ("fp32", "read", "copy"):
        ways.append((None, {"fp32": "numpy matmul", "read": "numpy dot", "copy": "numpy copyto"}[roof]))
    if not ways:
        wanted = ", ".join(dict.fromkeys(each.isa for each in known if each.roof == roof)) or "such instructions"
        missing.append((name, f"this processor has none of {wanted}" if known else "no kernels for this system"))
    for kernel, method in ways:
        rates = _confirmed(roof, kernel, size, cores)
        if isinstance(rates, str):
            missing.append((f"{name} by {method}", rates))
            continue
        processes = "1 process" if len(cores) == 1 else f"{len(cores)} processes"
        found.append(
            Roof(
                "memory" if roof in ("read", "copy") else "compute",
                name,
                max(rates),
                min(rates),
                f"{method}, {processes}",
            )
        )
        return


def _confirmed(roof: str, kernel: Kernel | None, size: int, cores: Sequence[int]) -> list[float] | str:
    """Until the best window is not alone: where others are at work, once may not be enough."""
    rates: list[float] = []
    for _ in range(_MOST_TRIES):
        more = _together(roof, kernel, size, cores)
        if isinstance(more, str):
            return more
        rates = sorted([*rates, *more])
        if len(rates) > 1 and rates[-2] >= _CONFIRMED * rates[-1]:
            break
    return rates


def _together(roof: str, kernel: Kernel | None, size: int, cores: Sequence[int]) -> list[float] | str:
    """Work a second of all processes together, window by window; or why there is none."""
    children: list[subprocess.Popen[str]] = []
    try:
        for core in cores:
            wanted = {
                "kernel": None if kernel is None else kernel.text(),
                "roof": roof,
                "core": core,
                "bytes": size,
                "ns": _WORK_NS,
            }
            children.append(
                subprocess.Popen(
                    [sys.executable, "-P", "-m", "edgewise.system.peaks.child", json.dumps(wanted)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                    start_new_session=True,
                    env=os.environ | _ONE_THREAD,
                )
            )
        for child in children:
            assert child.stdout is not None
            if child.stdout.readline() != "ready\n":
                return _last_words(child)
        begin = time.perf_counter_ns() + _SOON_NS
        for child in children:
            assert child.stdin is not None
            child.stdin.write(f"{begin}\n")
            child.stdin.flush()
        done = [child.communicate(timeout=_TIMEOUT_S)[0] for child in children]
        broken = next((child for child in children if child.returncode), None)
        return _last_words(broken) if broken else list(_rates([json.loads(text) for text in done]))
    except subprocess.TimeoutExpired:
        return f"did not end within {_TIMEOUT_S:g} s"
    except (OSError, ValueError) as error:
        return str(error)
    finally:
        for child in children:
            _end(child)


def _end(child: subprocess.Popen[str]) -> None:
    child.kill()
    child.wait()
    for pipe in (child.stdin, child.stdout, child.stderr):
        if pipe is not None:
            with suppress(OSError):  # what is left to write to a process that is gone
                pipe.close()


def _last_words(child: subprocess.Popen[str]) -> str:
    try:
        _, said = child.communicate(timeout=_TIMEOUT_S)
    except (OSError, ValueError):
        said = ""
    code = child.wait()
    if code < 0:
        return f"the process died by {signal.Signals(-code).name}"
    lines = (said or "").strip().splitlines()
    return lines[-1] if lines else f"the process left with exit code {code}"


def _rates(processes: Sequence[Sequence[tuple[int, int, int, int]]]) -> Iterator[float]:
    """What all did in each window in which all were at work; of a slice that reaches over an edge, its share.

    Each process's time is what it had its core for: what others take of it is not the processor's doing. A window in
    which one of them did not have it most of the time shows fewer at work, and counts only where there is no other.
    """
    if not all(processes):
        raise ValueError("a process did no work")
    begin, end = max(each[0][0] for each in processes), min(each[-1][1] for each in processes)
    # Where one round through the buffer takes long, a window holds some of them, and one there is.
    longest = max(stop - start for each in processes for start, stop, *_ in each)
    width = min(max(_WINDOW_NS, 2 * longest), end - begin)
    windows = []
    for number in range(max(1, (end - begin) // width)):
        first = begin + number * width
        sums = [_within(each, first, first + width) for each in processes]
        windows.append((min(used for used, _ in sums), sum(work * 1e9 / max(used, 1.0) for used, work in sums)))
    full = [rate for used, rate in windows if used > _HAD * width]
    yield from full or [max(windows)[1]]


def _within(slices: Sequence[tuple[int, int, int, int]], first: int, last: int) -> tuple[float, float]:
    """CPU time and work of one process between two moments."""
    used = done = 0.0
    for start, stop, cpu_ns, work in slices:
        share = max(0, min(last, stop) - max(first, start)) / max(stop - start, 1)
        used += share * cpu_ns
        done += share * work
    return used, done


def _memory_bytes(machine: Machine, processes: int) -> int:
    """Of each process: together far more than the last cache holds."""
    last = max((cache.size_bytes for cache in machine.caches), default=0)
    size = min(max(_BEYOND * last // processes, _LEAST_BYTES), _MOST_BYTES)
    if machine.memory_bytes:
        size = min(size, int(machine.memory_bytes * _MEMORY_SHARE) // processes)
    return size // _BLOCK_BYTES * _BLOCK_BYTES


def _cached_bytes(machine: Machine, cores: Sequence[int]) -> Iterator[tuple[str, int]]:
    """Each cache, and how much of it each process may fill: half of its share, since others want some too."""
    for level in (1, 2, 3):
        sizes = [
            cache.size_bytes // max(1, len(set(cache.shared_by) & set(cores)))
            for cache in machine.caches
            if cache.level == level and cache.kind != "instruction" and set(cache.shared_by) & set(cores)
        ]
        if sizes:
            size = min(min(sizes) // 2, _MOST_CACHED_BYTES)
            if size >= _BLOCK_BYTES:
                yield f"L{level}", size // _BLOCK_BYTES * _BLOCK_BYTES
