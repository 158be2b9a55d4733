"""Bytes that really cross to memory in one run: last-level cache misses on a CPU, Nsight Compute on an NVIDIA GPU.

`python -m edgewise.measure.traffic REQUEST.json` is the process that runs under `ncu`: it loads, warms up, and lets the
profiler see only the runs that count.
"""

from __future__ import annotations

import contextlib
import csv
import ctypes
import glob
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from ..core.errors import EdgewiseError, EngineFailure, Unavailable
from ..core.records import from_json, to_json
from ..core.roofs import Traffic
from ..core.types import Measurement, Model
from ..system import number
from .cell import Cell

RUNS = 3
_WARMUP = 5
_LINE_BYTES = 64
_READ, _WRITE, _BOTH = "dram__bytes_read.sum", "dram__bytes_write.sum", "dram__bytes.sum"
_PLACES = ("/usr/local/cuda*/bin/ncu", "/opt/nvidia/nsight-compute/*/ncu")
_UNITS = {"byte": 1, "kbyte": 10**3, "mbyte": 10**6, "gbyte": 10**9, "tbyte": 10**12}
_TIMEOUT_S = 300.0
_LONGEST = 300


def of_measurement(measured: Measurement) -> Traffic:
    """From the cache misses counted during its rounds, where the kernel lets a process count them.

    Each miss fetches a line. Lines written back are not in it, so this is the least that moved.
    """
    counted = [round for round in measured.measured if round.cache_misses is not None and round.samples_ns]
    runs = sum(len(round.samples_ns) for round in counted)
    line = number(Path("/sys/devices/system/cpu/cpu0/cache/index0/coherency_line_size")) or _LINE_BYTES
    misses = sum(round.cache_misses or 0 for round in counted)
    reason = "" if runs else "the kernel grants no hardware counters here (perf_event_open); in virtual machines few do"
    return Traffic(
        measured.task.subject,
        measured.label,
        measured.task.placement,
        measured.task.scenario,
        measured.machine,
        "perf",
        misses * line // runs if runs else None,
        runs,
        reason,
    )


def of_gpu(cell: Cell, runs: int = RUNS) -> Traffic:
    """By `ncu`: a process of its own runs the cell a few times, and every kernel's bytes are added up."""
    found: int | None = None
    reason = ""
    try:
        found = bytes_per_run(_profiled(cell, runs), runs)
    except EdgewiseError as error:
        reason = error.message
    return Traffic(
        cell.task.subject, cell.label, cell.task.placement, cell.task.scenario, cell.machine, "ncu", found, runs, reason
    )


def find_ncu() -> str:
    """Nsight Compute's command line: in the path, or where NVIDIA's packages put it, the newest first."""
    found = shutil.which("ncu")
    usual = [path for pattern in _PLACES for path in sorted(glob.glob(pattern), reverse=True)]
    if not found and not usual:
        raise Unavailable(
            "Nsight Compute (ncu) is not installed, so bytes moved on the GPU cannot be counted",
            "install nsight-compute from NVIDIA's repository, or put ncu into the path",
        )
    return found or usual[0]


def _profiled(cell: Cell, runs: int) -> str:
    """What ncu wrote."""
    ncu = find_ncu()
    with tempfile.TemporaryDirectory() as folder:
        asked, log = Path(folder) / "request.json", Path(folder) / "ncu.csv"
        request = {"model": to_json(cell.model), "placement": str(cell.task.placement), "runs": runs}
        asked.write_text(json.dumps(request | {"seed": cell.task.scenario.seed, "fill": cell.task.scenario.input}))
        command = [ncu, "--csv", "--print-units", "base", "--metrics", ",".join((_READ, _WRITE, _BOTH))]
        # Left alone it would empty the caches before every kernel and hold the clock down: neither is how it runs.
        command += ["--cache-control", "none", "--clock-control", "none", "--profile-from-start", "off"]
        command += ["--target-processes", "application-only", "--log-file", str(log)]
        command += [sys.executable, "-P", "-m", "edgewise.measure.traffic", str(asked)]
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        try:
            said, _ = process.communicate(timeout=max(_TIMEOUT_S, cell.timeout_s))
        except subprocess.TimeoutExpired:
            raise EngineFailure(f"ncu did not end within {max(_TIMEOUT_S, cell.timeout_s):g} s") from None
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
        written = log.read_text(errors="replace") if log.exists() else ""
    if process.returncode:
        raise EngineFailure(_why(written, said, process.returncode))
    return written


def _why(written: str, said: str, code: int) -> str:
    """The profiler's own error where it has one, else the last thing anybody said."""
    if "ERR_NVGPUCTRPERM" in written + said:
        return "the driver lets only the administrator read the GPU's counters (ERR_NVGPUCTRPERM)"
    errors = [line for line in written.splitlines() if line.startswith("==ERROR==")]
    lines = errors or [line for line in said.splitlines() if line.strip()] or [f"ncu left with exit code {code}"]
    return " ".join(lines[-1].removeprefix("==ERROR==").split())[:_LONGEST]


def bytes_per_run(text: str, runs: int) -> int:
    """The sum over all kernels in what `ncu --csv` wrote: one row for each metric, or one column."""
    totals = dict.fromkeys((_READ, _WRITE, _BOTH), 0.0)
    kernels = 0
    for name, unit, value in _metrics(text):
        if name in totals:
            factor = _UNITS.get(unit.strip().lower())
            if factor is None:
                raise EngineFailure(f"ncu gave {name} in {unit!r}; expected bytes")
            totals[name] += value * factor
            kernels += 1
    if not kernels:
        seen = " ".join(text.split())[-_LONGEST:]
        raise EngineFailure(f"ncu counted no kernel's bytes; it wrote: {seen or 'nothing'}")
    return round((totals[_READ] + totals[_WRITE] or totals[_BOTH]) / runs)


def _metrics(text: str) -> Iterator[tuple[str, str, float]]:
    """Name, unit and value of each metric of each kernel. Lines of ncu's own (==PROF== …) come before the table."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("==")]
    start = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), len(lines))
    rows = list(csv.reader(io.StringIO("\n".join(lines[start:]))))
    if not rows:
        return
    head = rows[0]
    if "Metric Name" in head:
        name, unit, value = (head.index(f"Metric {part}") for part in ("Name", "Unit", "Value"))
        for row in rows[1:]:
            if len(row) == len(head) and (read := _number(row[value])) is not None:
                yield row[name], row[unit], read
        return
    units = rows[1] if len(rows) > 1 else []
    for row in rows[2:]:
        if len(row) == len(head) == len(units):
            for column, unit_text, cell_text in zip(head, units, row, strict=True):
                if column in (_READ, _WRITE, _BOTH) and (read := _number(cell_text)) is not None:
                    yield column, unit_text, read


def _number(text: str) -> float | None:
    """With or without commas between the thousands; None where the GPU does not have the counter (`n/a`)."""
    plain = text.replace(",", "").strip()
    return float(plain) if re.fullmatch(r"[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?", plain) else None


def main() -> None:
    """In the process under ncu."""
    from ..core.text import parse_placement
    from ..model import feeds
    from ..parallel.build import build

    path = Path(sys.argv[1])
    if len(sys.argv) != 2 or not path.is_file():
        raise SystemExit("expected one argument: the file that says what to run")
    wanted = json.loads(path.read_text())
    model = from_json(Model, wanted["model"])
    if not Path(model.path).exists():
        raise SystemExit(f"there is no model at {model.path}")
    shapes = {t.name: tuple(d for d in t.shape or () if isinstance(d, int)) for t in model.inputs}
    inputs = feeds.feeds(model, shapes, wanted["seed"], wanted["fill"])
    executable = build(model, parse_placement(wanted["placement"]))
    for _ in range(_WARMUP):
        executable.run(inputs)
    watch = _profiler()
    watch("Start")
    for _ in range(wanted["runs"]):
        executable.run(inputs)
    watch("Stop")
    executable.close()


def _profiler() -> Callable[[str], None]:
    """Calls cudaProfilerStart or Stop of the library the engine itself has loaded, or the driver's own."""
    maps = Path("/proc/self/maps").read_text()
    loaded = re.search(r"(/\S*libcudart\.so\S*)", maps)
    name, library = ("cudaProfiler", loaded[1]) if loaded else ("cuProfiler", "libcuda.so.1")
    functions = ctypes.CDLL(library)

    def call(what: str) -> None:
        code = getattr(functions, name + what)()
        if code:
            raise SystemExit(f"{name}{what} failed with {code}")

    return call


if __name__ == "__main__":
    main()
