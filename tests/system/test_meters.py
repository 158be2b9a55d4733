"""Readings come from the right files, cost little, and see the CPU time of other processes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import trees

from edgewise.system import meters
from edgewise.system.meters import Meters

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
THREADED = """
import hashlib, threading
work = lambda: [hashlib.pbkdf2_hmac("sha256", b"a", b"b", 100_000) for _ in range(100)]
for _ in range(2): threading.Thread(target=work, daemon=True).start()
input()
"""


@pytest.fixture
def hog() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", "print(flush=True)\nwhile True: pass"], stdout=subprocess.PIPE)
    assert process.stdout
    process.stdout.readline()
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_stat_is_counted_without_guests(tmp_path: Path):
    root = trees.write(tmp_path, trees.bare())
    with Meters(root) as opened:
        reading = opened.read()
        assert opened.resolution_ns == 20_000_000
    assert reading.busy_ns == (5976 + 10 + 2023 + 3 + 46) * 10_000_000
    assert reading.stolen_ns == 2012 * 10_000_000
    assert (reading.clock_hz, reading.temperature_mc) == (None, None)


def test_the_topmost_group_counts_finer_and_a_containers_does_not_count(tmp_path: Path):
    group = {"sys/fs/cgroup/cpuacct/cpuacct.usage": "123456789\n"}
    inside = trees.write(tmp_path / "inside", trees.bare() | group)
    assert meters.read(inside).busy_ns == 8058 * 10_000_000
    top = trees.write(tmp_path / "top", trees.bare() | group | {"sys/fs/cgroup/cpuacct/release_agent": ""})
    assert meters.read(top).busy_ns == 123_456_789


def test_clock_is_the_mean_and_temperature_the_processors_hottest(tmp_path: Path):
    root = trees.write(tmp_path, trees.big_little())
    reading = meters.read(root)
    assert reading.clock_hz == 1_704_000_000
    assert reading.temperature_mc == 55_461
    with Meters(root, cores=(4, 5)) as opened:
        assert opened.read().clock_hz == 2_400_000_000


def test_hwmon_where_there_are_no_zones(tmp_path: Path):
    assert meters.read(trees.write(tmp_path, trees.hybrid())).temperature_mc == 47_000


def test_a_dead_sensor_is_missing_not_cold(tmp_path: Path):
    files = {
        "sys/class/thermal/thermal_zone0/temp": "-274000\n",
        "sys/class/thermal/thermal_zone1/temp": "\n",
    }
    assert meters.read(trees.write(tmp_path, files)).temperature_mc is None


def test_nothing_to_read(tmp_path: Path):
    reading = meters.read(tmp_path)
    assert (reading.busy_ns, reading.stolen_ns, reading.clock_hz, reading.temperature_mc) == (None,) * 4


def test_a_sandbox_that_counts_nothing_is_no_reading(tmp_path: Path):
    assert meters.read(trees.write(tmp_path, {"proc/stat": "cpu  0 0 0 0 0 0 0 0 0 0\n"})).busy_ns is None


def test_files_are_read_anew_and_closed_once(tmp_path: Path):
    opened = Meters(trees.write(tmp_path, trees.bare()))
    (tmp_path / "proc/stat").write_text("cpu  1 0 0 9 0 0 0 0 0 0\n")
    assert opened.read().busy_ns == 10_000_000
    opened.close()
    opened.close()
    assert opened.read().busy_ns is None


@linux
def test_a_reading_is_cheap():
    with Meters() as opened:
        spent = []
        for _ in range(200):
            started = time.perf_counter_ns()
            opened.read()
            spent.append(time.perf_counter_ns() - started)
    # The median of many, so that a neighbour's burst does not fail it; large machines have more files.
    assert sorted(spent)[100] < 200_000 * max((os.cpu_count() or 2) / 2, 1)


@linux
def test_foreign_time_is_seen(hog):
    with Meters() as opened:
        before, used = opened.read(), meters.process_cpu_ns(hog.pid)
        time.sleep(0.8)
        after, spent = opened.read(), meters.process_cpu_ns(hog.pid)
    assert None not in (before.busy_ns, after.busy_ns, used, spent)
    grown, foreign = after.busy_ns - before.busy_ns, spent - used
    assert foreign > 50_000_000
    # Others run on this machine too, so only a lower bound is sure; the upper one is what all cores could do.
    assert grown >= foreign - 2 * opened.resolution_ns
    assert grown <= (after.at_ns - before.at_ns) * (os.cpu_count() or 1) + 2 * opened.resolution_ns


@linux
def test_process_time_has_all_threads():
    process = subprocess.Popen([sys.executable, "-c", THREADED], stdin=subprocess.PIPE)
    time.sleep(0.6)
    whole = meters.process_cpu_ns(process.pid)
    user_jiffies = int(Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[11])
    process.kill()
    process.wait()
    assert process.stdin
    process.stdin.close()
    assert whole is not None
    assert whole > 100_000_000
    assert abs(whole / 10_000_000 - user_jiffies) < 60
    assert meters.process_cpu_ns(process.pid) is None
    assert meters.process_cpu_ns(0) is None
    assert meters.process_cpu_ns(2**40) is None


def test_other_systems_answer_through_psutil(monkeypatch):
    monkeypatch.setattr(meters, "_LINUX", False)
    used = meters.process_cpu_ns(os.getpid())
    assert used is not None
    assert used > 0
    assert meters.process_cpu_ns(2**22 + 1) is None
    busy_ns = meters.read().busy_ns
    assert busy_ns is not None
    assert busy_ns > 0


@linux
def test_peak_is_kept_and_reset():
    size = 64 * 2**20
    held = bytearray(os.urandom(1024)) * (size // 1024)
    peak = meters.peak_bytes()
    assert peak is not None
    assert peak >= size
    del held
    if not meters.reset_peak():
        pytest.skip("this kernel does not reset the peak")
    after, now = meters.peak_bytes(), meters.rss_bytes()
    assert after is not None
    assert now is not None
    assert after < peak - size // 2
    assert abs(after - now) < 16 * 2**20
