"""Bytes counted: what Nsight Compute writes is read in all its forms, and what fails is a reason."""

from __future__ import annotations

import stat
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgewise.core.errors import EngineFailure, Unavailable
from edgewise.core.text import parse_placement
from edgewise.core.types import Measurement, Model, Round, Scenario, Start, Task
from edgewise.measure import traffic
from edgewise.measure.cell import Cell

HEAD = (
    '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device",'
    '"CC","Section Name","Metric Name","Metric Unit","Metric Value"'
)
_KERNEL = (
    '"{id}","42","python3","127.0.0.1","void gemm<float, 4>(float*, int)","1","7","(256, 1, 1)","(8, 1, 1)","0","9.0"'
)


def row(number: int, name: str, unit: str, value: str) -> str:
    return _KERNEL.format(id=number) + f',"Command line profiler metrics","{name}","{unit}","{value}"'


LONG = "\n".join(
    (
        "==PROF== Connected to process 42 (/usr/bin/python3.11)",
        '==PROF== Profiling "gemm" - 0: 0%....50%....100% - 1 pass',
        "==PROF== Disconnected from process 42",
        HEAD,
        row(0, "dram__bytes.sum", "byte", "3,000,000"),
        row(0, "dram__bytes_read.sum", "byte", "2,000,000"),
        row(0, "dram__bytes_write.sum", "byte", "1,000,000"),
        row(1, "dram__bytes.sum", "byte", "600"),
        row(1, "dram__bytes_read.sum", "byte", "600"),
        row(1, "dram__bytes_write.sum", "byte", "0"),
    )
)
WIDE = "\n".join(
    (
        '"ID","Kernel Name","dram__bytes.sum","dram__bytes_read.sum","dram__bytes_write.sum"',
        '"","","Mbyte","Mbyte","Kbyte"',
        '"0","gemm","3.00","2.00","1000"',
        '"1","relu","0.5","0.25","250"',
    )
)


def test_rows_of_metrics_add_up() -> None:
    assert traffic.bytes_per_run(LONG, 3) == round(3_000_600 / 3)


def test_columns_of_metrics_in_other_units_add_up() -> None:
    assert traffic.bytes_per_run(WIDE, 1) == 3_500_000


def test_the_sum_of_both_counts_where_only_it_is_known() -> None:
    text = "\n".join((HEAD, row(0, "dram__bytes.sum", "Kbyte", "12.5"), row(0, "dram__bytes_read.sum", "byte", "n/a")))
    assert traffic.bytes_per_run(text, 1) == 12_500


@pytest.mark.parametrize("text", ["", "==WARNING== No kernels were profiled.", HEAD, "garbage\n,,,\n", '"ID"\n"x'])
def test_no_kernels_is_a_reason(text: str) -> None:
    with pytest.raises(EngineFailure, match="counted no kernel"):
        traffic.bytes_per_run(text, 3)


def test_a_unit_that_is_none_is_refused() -> None:
    with pytest.raises(EngineFailure, match="expected bytes"):
        traffic.bytes_per_run("\n".join((HEAD, row(0, "dram__bytes.sum", "furlong", "1"))), 1)


def _cell() -> Cell:
    task = Task("digest", parse_placement("null:npu"), Scenario())
    return Cell(task, Model("digest", "none.onnx", (), ()), "m", (), "", "net", timeout_s=5.0)


def test_without_nsight_compute_there_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(traffic, "_PLACES", ())
    with pytest.raises(Unavailable, match="not installed"):
        traffic.find_ncu()
    found = traffic.of_gpu(_cell())
    assert found.bytes_per_run is None and "not installed" in found.reason and found.source == "ncu"


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo '==ERROR== ERR_NVGPUCTRPERM - The user does not have permission'; exit 1", "administrator"),
        ("echo 'something broke' >&2; exit 3", "something broke"),
        ("exit 9", "exit code 9"),
        ("exit 0", "counted no kernel"),
    ],
)
def test_what_nsight_compute_fails_with_is_a_reason(
    script: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "ncu"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(traffic, "find_ncu", lambda: str(program))
    found = traffic.of_gpu(_cell())
    assert found.bytes_per_run is None and said in found.reason


def test_what_nsight_compute_wrote_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: a program that writes a recorded table where it is told to."""
    (tmp_path / "table").write_text(LONG)
    program = tmp_path / "ncu"
    program.write_text(
        '#!/bin/sh\nwhile [ "$1" != --log-file ]; do shift; done\n'
        f'cp "{tmp_path}/table" "$2"\necho "what the engine prints"\n'
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(traffic, "find_ncu", lambda: str(program))
    found = traffic.of_gpu(_cell(), runs=3)
    assert (found.bytes_per_run, found.runs, found.reason) == (1_000_200, 3, "")


def _measured(misses: int | None) -> Measurement:
    task = Task("digest", parse_placement("ort:cpu@1"), Scenario())
    warm = Round(0, True, 0, 10, (5, 5), cache_misses=misses and 10**9)
    rounds = (warm, *(Round(0, False, 0, 10, (5, 5), cache_misses=misses) for _ in range(3)))
    return Measurement(task, "m", (), "", (Start(0, 1, 1, None, _ran()),), rounds, True, "net")


def _ran() -> object:
    from edgewise.core.types import Ran

    return Ran()


def test_cache_misses_are_lines_of_memory() -> None:
    found = traffic.of_measurement(_measured(1000))
    assert found.bytes_per_run is not None
    # Six runs with 3,000 misses; a line has 32, 64, 128 or 256 bytes.
    assert found.bytes_per_run in np.array([32, 64, 128, 256]) * 500
    assert (found.runs, found.source) == (6, "perf")


def test_where_nothing_is_counted_there_is_a_reason() -> None:
    found = traffic.of_measurement(_measured(None))
    assert found.bytes_per_run is None and "counters" in found.reason
    assert replace(found, reason="") != found
