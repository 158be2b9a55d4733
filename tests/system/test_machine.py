"""Recorded machines are read for what they are, damaged ones without complaint, this one as it is."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
import trees
from hypothesis import given, settings
from hypothesis import strategies as st

from edgewise.core.types import Accelerator, Machine
from edgewise.system.affinity import cluster_cores
from edgewise.system.machine import cpu_quota, machine, physical_cores, usable_cores
from edgewise.system.meters import Meters


@pytest.fixture
def recorded(tmp_path: Path) -> Callable[[trees.Files], Machine]:
    return lambda files: machine(trees.write(tmp_path, files))


def clusters(found: Machine) -> dict[str, tuple[int, ...]]:
    return {cluster.name: cluster.cores for cluster in found.clusters}


def test_big_little(recorded):
    found = recorded(trees.big_little())
    assert clusters(found) == {"big": (4, 5, 6, 7), "little": (0, 1, 2, 3)}
    assert found.cpu == "4x Cortex-A76 + 4x Cortex-A55"
    assert [(c.capacity, c.max_hz) for c in found.clusters] == [(1024, 2_400_000_000), (414, 1_800_000_000)]
    assert found.isa == ("asimd", "asimddp", "asimdhp")
    assert found.governor == "schedutil"
    assert found.label == "4x Cortex-A76 + 4x Cortex-A55 (4+4 cores, NEON DOT, 15.4 GiB)"
    assert found.system == "Linux 6.1 aarch64"
    assert not found.virtual
    assert cluster_cores(found, "big") == (4, 5, 6, 7)


def test_three_clusters_by_frequency(recorded):
    found = recorded(trees.phone())
    assert clusters(found) == {"big": (7,), "mid": (4, 5, 6), "little": (0, 1, 2, 3)}
    assert found.cpu == "1x Cortex-X1 + 3x Cortex-A78 + 4x Cortex-A55"
    assert {cluster.capacity for cluster in found.clusters} == {None}


def test_equal_capacities_leave_the_choice_to_frequency(recorded):
    files = trees.phone()
    for core in range(8):
        files |= trees.cpu(core, cpu_capacity=1024)
    assert set(clusters(recorded(files))) == {"big", "mid", "little"}


def test_four_kinds_and_more(recorded):
    files = trees.kernel("6.6", "aarch64", 12_000_000) | trees.online("0-7") | trees.arm_info(["0xd80"] * 8)
    for core, capacity in enumerate([1024, 900, 900, 900, 800, 800, 300, 300]):
        files |= trees.cpu(core, cpu_capacity=capacity)
    found = clusters(recorded(files))
    assert found == {"prime": (0,), "big": (1, 2, 3), "mid": (4, 5), "little": (6, 7)}
    for core in range(8):
        files |= trees.cpu(core, cpu_capacity=1000 + core)
    assert clusters(recorded(files)) == {"all": tuple(range(8))}


def test_intel_hybrid(recorded):
    found = recorded(trees.hybrid())
    assert clusters(found) == {"p": (0, 1, 2, 3), "e": (4, 5, 6, 7)}
    assert [cluster.threads_per_core for cluster in found.clusters] == [2, 1]
    assert physical_cores(found, found.cores) == (0, 2, 4, 5, 6, 7)
    assert physical_cores(found, (3, 2, 7)) == (3, 7)
    assert found.label == "12th Gen Intel Core i5-12600K (2+4 cores, 8 threads, AVX2 VNNI, 31.0 GiB)"
    assert found.accelerators == (Accelerator("gpu", "Intel GPU"), Accelerator("npu", "Intel NPU"))
    assert [c.shared_by for c in found.caches if c.level == 2] == [(0, 1), (2, 3), (4, 5, 6, 7)]
    assert [c.size_bytes for c in found.caches if c.level == 3] == [20 * 2**20]


def test_hybrid_confined_to_its_efficiency_cores(recorded):
    limits = {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpuset.cpus.effective": "5-6\n"}
    assert clusters(recorded(trees.hybrid() | limits)) == {"e": (5, 6)}


def test_server_with_threads_is_one_cluster(recorded):
    found = recorded(trees.server())
    assert clusters(found) == {"all": tuple(range(8))}
    assert physical_cores(found, found.cores) == (0, 1, 2, 3)
    assert found.cpu == "AMD EPYC 9124"
    assert found.label == "AMD EPYC 9124 + NVIDIA H200 (4 cores, 8 threads, AVX-512 VNNI BF16, 125.8 GiB)"
    assert found.accelerators == (Accelerator("gpu", "NVIDIA H200"),)


def test_bare_virtual_machine(recorded):
    found = recorded(trees.bare())
    assert found.label == "Intel Xeon (2 cores, AVX-512 VNNI BF16 AMX, 23.5 GiB, virtual)"
    assert found.virtual
    assert found.governor is None
    assert found.clusters[0].max_hz is None
    assert [cache.shared_by for cache in found.caches] == [(0, 1)]


def test_an_offline_core_is_no_core(recorded):
    assert clusters(recorded(trees.offline()))["big"] == (4, 6, 7)


def test_container(tmp_path):
    root = trees.write(tmp_path, trees.contained())
    found = machine(root)
    assert found.cores == (2, 6)
    assert found.memory_bytes == 4 * 2**30
    assert cpu_quota(root) == 1.5
    assert physical_cores(found, found.cores) == (2,)


def test_container_of_version_1(tmp_path):
    group = "sys/fs/cgroup/{}/docker/ab"
    limits = {
        "proc/self/cgroup": "4:memory:/docker/ab\n3:cpuset:/\n2:cpu,cpuacct:/docker/ab\n0::/\n",
        group.format("memory") + "/memory.limit_in_bytes": "1073741824\n",
        "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
        group.format("cpu") + "/cpu.cfs_quota_us": "50000\n",
        group.format("cpu") + "/cpu.cfs_period_us": "100000\n",
        "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
        "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
        "sys/fs/cgroup/cpuset/cpuset.cpus": "1\n",
    }
    root = trees.write(tmp_path, trees.bare() | limits)
    assert (machine(root).memory_bytes, machine(root).cores, cpu_quota(root)) == (2**30, (1,), 0.5)


def test_id_is_that_of_the_hardware(tmp_path):
    def id_of(name: str, files: trees.Files) -> str:
        return machine(trees.write(tmp_path / name, files)).id

    kept = trees.big_little()
    slower = kept | trees.cpu(0, cpufreq__scaling_governor="powersave", cpufreq__cpuinfo_max_freq=1)
    limited = kept | {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "1000000\n"}
    named = kept | {"proc/sys/kernel/hostname": "pi\n", "proc/sys/kernel/osrelease": "6.9\n"}
    assert len({id_of(str(n), files) for n, files in enumerate((kept, slower, limited, named))}) == 1
    assert len({id_of(build.__name__, build()) for build in trees.ALL}) == len(trees.ALL)


def test_macs():
    found = machine(sysctl=trees.M2.get)
    assert clusters(found) == {"p": (4, 5, 6, 7), "e": (0, 1, 2, 3)}
    assert found.label == "Apple M2 (4+4 cores, NEON DOT I8MM BF16, 16.0 GiB)"
    assert found.system == "macOS 14.5 arm64"
    assert [accelerator.kind for accelerator in found.accelerators] == ["gpu", "npu"]
    older = machine(sysctl=trees.INTEL_MAC.get)
    assert clusters(older) == {"all": tuple(range(12))}
    assert older.clusters[0].threads_per_core == 2
    assert machine(sysctl=lambda name: None).clusters[0].cores


def test_nothing_to_read(tmp_path):
    found = machine(tmp_path)
    assert found.cpu == "unknown processor"
    assert (found.memory_bytes, found.governor, found.accelerators) == (None, None, ())


DAMAGE = st.binary(max_size=60) | st.sampled_from(
    [
        b"",
        b"\xff\xfe",
        b"0-",
        b"-1",
        b"9" * 5000,
        b"9" * 400 + b" 1",
        b"3-1",
        "²".encode(),
        b"0::/../..",
        b"0::/\0",
        b"1:cpu:/a",
    ]
)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_damaged_files_never_raise(data):
    build = data.draw(st.sampled_from(trees.ALL))
    files = dict(build())
    names = sorted([*files, "proc/self/cgroup", "proc/stat"])
    damage = data.draw(st.dictionaries(st.sampled_from(names), DAMAGE, min_size=1, max_size=8))
    with tempfile.TemporaryDirectory() as folder:
        root = trees.write(Path(folder), files | damage)
        found = machine(root)
        assert found.cores
        assert set(physical_cores(found, found.cores)) <= set(found.cores)
        cpu_quota(root)
        with Meters(root) as meters:
            meters.read()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux has affinity masks")
def test_this_machine():
    found = machine()
    assert len(found.cores) <= (os.cpu_count() or 0)
    assert set(usable_cores(found)) == os.sched_getaffinity(0)
    assert set(physical_cores(found, found.cores)) <= set(found.cores)
    assert found.memory_bytes is not None
    assert found == machine()
