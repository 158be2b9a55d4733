"""Recorded machines: the files below /proc and /sys that tell one from another, written into a folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

Files = dict[str, str]

X86 = "fpu sse4_2 f16c fma avx2"
ARM = "fp asimd evtstrm aes crc32 asimdhp asimddp"


def write(root: Path, files: Mapping[str, str | bytes]) -> Path:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return root


def kernel(release: str, arch: str, memory_kb: int) -> Files:
    return {
        "proc/sys/kernel/ostype": "Linux\n",
        "proc/sys/kernel/osrelease": f"{release}\n",
        "proc/sys/kernel/arch": f"{arch}\n",
        "proc/meminfo": f"MemTotal:       {memory_kb} kB\nMemFree:        1 kB\n",
    }


def cpu(core: int, **facts: object) -> Files:
    """The folder of one core; a keyword's double underscore is a slash."""
    folder = f"sys/devices/system/cpu/cpu{core}"
    return {f"{folder}/{name.replace('__', '/')}": f"{value}\n" for name, value in facts.items()}


def cache(core: int, index: int, level: int, kind: str, *, size: str, shared: str) -> Files:
    folder = f"sys/devices/system/cpu/cpu{core}/cache/index{index}"
    facts = {"level": level, "type": kind, "size": size, "shared_cpu_list": shared}
    return {f"{folder}/{name}": f"{value}\n" for name, value in facts.items()}


def x86_info(cores: int, model: str, flags: str) -> Files:
    blocks = [f"processor\t: {n}\nvendor_id\t: x\nmodel name\t: {model}\nflags\t\t: {flags}\n" for n in range(cores)]
    return {"proc/cpuinfo": "\n".join(blocks)}


def arm_info(parts: list[str], features: str = ARM, implementer: str = "0x41") -> Files:
    blocks = [
        f"processor\t: {n}\nBogoMIPS\t: 48.00\nFeatures\t: {features}\nCPU implementer\t: {implementer}\n"
        f"CPU architecture: 8\nCPU part\t: {part}\n"
        for n, part in enumerate(parts)
    ]
    return {"proc/cpuinfo": "\n".join(blocks)}


def online(listed: str) -> Files:
    return {"sys/devices/system/cpu/online": f"{listed}\n"}


def big_little() -> Files:
    """RK3588: four Cortex-A55, four Cortex-A76."""
    files = kernel("6.1.75-rockchip", "aarch64", 16_123_456) | online("0-7")
    files |= arm_info(["0xd05"] * 4 + ["0xd0b"] * 4)
    for core in range(8):
        small = core < 4
        files |= cpu(
            core,
            cpu_capacity=414 if small else 1024,
            cpufreq__cpuinfo_max_freq=1_800_000 if small else 2_400_000,
            cpufreq__scaling_cur_freq=1_008_000 if small else 2_400_000,
            cpufreq__scaling_governor="schedutil",
            topology__thread_siblings_list=core,
        )
    for zone, (kind, heat) in enumerate([("soc-thermal", 51_000), ("bigcore0-thermal", 55_461), ("wifi", 70_000)]):
        files[f"sys/class/thermal/thermal_zone{zone}/type"] = f"{kind}\n"
        files[f"sys/class/thermal/thermal_zone{zone}/temp"] = f"{heat}\n"
    return files


def phone() -> Files:
    """One Cortex-X1, three A78, four A55, whose kernel gives frequencies and no capacities."""
    files = kernel("5.4.210-android", "aarch64", 7_654_321) | online("0-7")
    files |= arm_info(["0xd05"] * 4 + ["0xd41"] * 3 + ["0xd44"], features=ARM + " i8mm bf16")
    for core in range(8):
        clock_khz = 1_804_800 if core < 4 else 2_419_200 if core < 7 else 2_841_600
        files |= cpu(core, cpufreq__cpuinfo_max_freq=clock_khz, cpufreq__scaling_governor="walt")
    return files


def hybrid() -> Files:
    """Like a Core i5-12600K: two P cores of two threads, four E cores, integrated GPU, NPU."""
    files = kernel("6.8.0-45-generic", "x86_64", 32_500_000) | online("0-7")
    files |= x86_info(8, "12th Gen Intel(R) Core(TM) i5-12600K", X86 + " avx_vnni")
    files |= {"sys/devices/cpu_core/cpus": "0-3\n", "sys/devices/cpu_atom/cpus": "4-7\n"}
    for core in range(8):
        pair = f"{core // 2 * 2}-{core // 2 * 2 + 1}" if core < 4 else f"{core}"
        files |= cpu(
            core,
            cpufreq__cpuinfo_max_freq=4_900_000 if core < 4 else 3_600_000,
            cpufreq__scaling_governor="powersave",
            topology__core_cpus_list=pair,
        )
        files |= cache(core, 0, 1, "Data", size="48K" if core < 4 else "32K", shared=pair)
        files |= cache(core, 1, 1, "Instruction", size="32K", shared=pair)
        files |= cache(core, 2, 2, "Unified", size="1280K" if core < 4 else "2048K", shared=pair if core < 4 else "4-7")
        files |= cache(core, 3, 3, "Unified", size="20M", shared="0-7")
    return files | {
        "sys/class/drm/card0/device/vendor": "0x8086\n",
        "sys/class/drm/card0-DP-1/device/vendor": "0x8086\n",
        "sys/class/drm/renderD128/device/vendor": "0x8086\n",
        "sys/class/accel/accel0/device/vendor": "0x8086\n",
        "sys/class/hwmon/hwmon0/name": "nvme\n",
        "sys/class/hwmon/hwmon0/temp1_input": "61850\n",
        "sys/class/hwmon/hwmon1/name": "coretemp\n",
        "sys/class/hwmon/hwmon1/temp1_input": "45000\n",
        "sys/class/hwmon/hwmon1/temp2_input": "47000\n",
    }


def server() -> Files:
    """An EPYC of four cores with two threads each (siblings are n and n+4), favoured cores, and an H200."""
    files = kernel("6.5.0", "x86_64", 131_900_000) | online("0-7")
    files |= x86_info(8, "AMD EPYC 9124 16-Core Processor", X86 + " avx512f avx512_vnni avx512_bf16")
    for core in range(8):
        pair = f"{core % 4},{core % 4 + 4}"
        files |= cpu(core, cpufreq__cpuinfo_max_freq=3_700_000 + core % 4, topology__thread_siblings_list=pair)
        files |= cache(core, 0, 1, "Data", size="32K", shared=pair)
    return files | {
        "proc/driver/nvidia/gpus/0000:18:00.0/information": "Model: \t\t NVIDIA H200\nIRQ:   \t\t 0\n",
        "sys/class/drm/card1/device/vendor": "0x10de\n",
        "sys/class/drm/card0/device/vendor": "0x1a03\n",
    }


def bare() -> Files:
    """A small virtual machine: no clocks, no sensors, capacities all alike."""
    files = kernel("6.18.44-fc-v445", "x86_64", 24_682_416) | online("0-1")
    flags = f"{X86} hypervisor avx512f avx_vnni avx512_vnni avx512_bf16 avx512_fp16 amx_bf16 amx_tile amx_int8"
    files |= x86_info(2, "Intel(R) Xeon(R) Processor", flags)
    for core in range(2):
        files |= cpu(core, cpu_capacity=1024, topology__thread_siblings_list=core)
        files |= cache(core, 3, 3, "Unified", size="266240K", shared="0-1")
    files["proc/stat"] = "cpu  5976 10 2023 209883 222 3 46 2012 500 0\ncpu0 1 2 3\n"
    return files


def offline() -> Files:
    """big_little with core 5 switched off: the kernel lists it nowhere but as a folder."""
    files = big_little() | online("0-4,6-7")
    for name in [name for name in files if name.startswith("sys/devices/system/cpu/cpu5/")]:
        del files[name]
    return files | cpu(5, online=0)


def contained() -> Files:
    """server, seen from a version 2 control group with a quota, a memory limit and two cores."""
    group = "sys/fs/cgroup/kube/pod1"
    return server() | {
        "proc/self/cgroup": "0::/kube/pod1\n",
        "sys/fs/cgroup/cpuset.cpus.effective": "0-7\n",
        f"{group}/cpuset.cpus.effective": "2,6\n",
        f"{group}/memory.max": "max\n",
        f"{group}/cpu.max": "150000 100000\n",
        "sys/fs/cgroup/kube/memory.max": "4294967296\n",
        "sys/fs/cgroup/kube/cpu.max": "max 100000\n",
    }


ALL = (big_little, phone, hybrid, server, bare, offline, contained)

M2 = {
    "hw.logicalcpu": "8",
    "hw.physicalcpu": "8",
    "hw.memsize": "17179869184",
    "hw.machine": "arm64",
    "hw.nperflevels": "2",
    "hw.perflevel0.logicalcpu": "4",
    "hw.perflevel1.logicalcpu": "4",
    "hw.optional.arm64": "1",
    "hw.optional.AdvSIMD": "1",
    "hw.optional.arm.FEAT_DotProd": "1",
    "hw.optional.arm.FEAT_FP16": "1",
    "hw.optional.arm.FEAT_I8MM": "1",
    "hw.optional.arm.FEAT_BF16": "1",
    "hw.optional.arm.FEAT_SME": "0",
    "kern.hv_vmm_present": "0",
    "kern.osproductversion": "14.5",
    "machdep.cpu.brand_string": "Apple M2",
}
INTEL_MAC = {
    "hw.logicalcpu": "12",
    "hw.physicalcpu": "6",
    "hw.memsize": "34359738368",
    "hw.machine": "x86_64",
    "hw.optional.avx2_0": "1",
    "kern.osproductversion": "13.6",
    "machdep.cpu.brand_string": "Intel(R) Core(TM) i7-8700B CPU @ 3.20GHz",
}
