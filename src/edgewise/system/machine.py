"""What this machine is: processor, core clusters, caches, memory and accelerators."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import subprocess
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from ..core.types import Accelerator, Cache, Cluster, Machine
from . import core_list, integer, number, text
from .affinity import allowed_cores, cpu_quota, memory_limit_bytes, physical_cores, usable_cores

__all__ = ["cpu_quota", "machine", "physical_cores", "usable_cores"]

Sysctl = Callable[[str], str | None]


def _table(pairs: str) -> dict[str, str]:
    return dict(pair.split(" ") for pair in pairs.split(","))


# The instruction sets that change how fast a network runs, by the kernel's names, and the words labels show.
_ISA = _table(
    "avx512f AVX-512,avx2 AVX2,asimd NEON,neon NEON,sve2 SVE2,sve SVE,avx512_vnni VNNI,avx_vnni VNNI,"
    "asimddp DOT,i8mm I8MM,avx512_bf16 BF16,bf16 BF16,amx_tile AMX,avx512_fp16 -,asimdhp -,amx_int8 -,"
    "amx_bf16 -,fma -,f16c -,sse4_2 -"
)
_APPLE_ISA = _table(
    "avx512f avx512f,avx2_0 avx2,AdvSIMD asimd,arm.FEAT_DotProd asimddp,arm.FEAT_I8MM i8mm,"
    "arm.FEAT_BF16 bf16,arm.FEAT_FP16 asimdhp"
)
# Main ID registers: implementer, then part.
_ARM_CORES = {
    "0x41": _table(
        "0xc07 Cortex-A7,0xc09 Cortex-A9,0xc0f Cortex-A15,0xd01 Cortex-A32,0xd03 Cortex-A53,0xd04 Cortex-A35,"
        "0xd05 Cortex-A55,0xd07 Cortex-A57,0xd08 Cortex-A72,0xd09 Cortex-A73,0xd0a Cortex-A75,"
        "0xd0b Cortex-A76,0xd0d Cortex-A77,0xd0e Cortex-A76AE,0xd41 Cortex-A78,0xd42 Cortex-A78AE,"
        "0xd44 Cortex-X1,0xd46 Cortex-A510,0xd47 Cortex-A710,0xd48 Cortex-X2,0xd4b Cortex-A78C,"
        "0xd4c Cortex-X1C,0xd4d Cortex-A715,0xd4e Cortex-X3,0xd80 Cortex-A520,0xd81 Cortex-A720,"
        "0xd82 Cortex-X4,0xd85 Cortex-X925,0xd87 Cortex-A725,0xd0c Neoverse-N1,0xd40 Neoverse-V1,"
        "0xd49 Neoverse-N2,0xd4f Neoverse-V2,0xd84 Neoverse-V3,0xd8e Neoverse-N3"
    ),
    "0x4e": _table("0x003 Denver-2,0x004 Carmel"),
    "0x51": _table(
        "0x001 Oryon,0x800 Kryo-2xx-Gold,0x801 Kryo-2xx-Silver,0x802 Kryo-3xx-Gold,0x803 Kryo-3xx-Silver,"
        "0x804 Kryo-4xx-Gold,0x805 Kryo-4xx-Silver"
    ),
    "0x61": _table("0x022 Icestorm,0x023 Firestorm,0x032 Blizzard,0x033 Avalanche"),
}
_KINDS = {2: ("big", "little"), 3: ("big", "mid", "little"), 4: ("prime", "big", "mid", "little")}
_VENDORS = {"0x8086": "Intel", "0x1002": "AMD", "0x1022": "AMD", "0x10de": "NVIDIA"}
_UNITS = {"K": 2**10, "M": 2**20, "G": 2**30}


def machine(root: Path = Path("/"), sysctl: Sysctl | None = None) -> Machine:
    """This machine, or the one whose files were recorded below `root` or whose sysctl is given."""
    if sysctl is None and platform.system() == "Darwin" and root == Path("/"):
        sysctl = _run_sysctl
    return _apple(sysctl) if sysctl else _linux(root)


def _linux(root: Path) -> Machine:
    blocks = _cpuinfo(root)
    flag_sets = [set(block[key].split()) for block in blocks for key in ("flags", "Features") if key in block]
    # What only some cores can do, a thread that may move between them cannot use.
    flags = set.intersection(*flag_sets) if flag_sets else set()
    clusters = _clusters(root, blocks)
    memory = re.search(r"MemTotal:\s*(\d{1,15}) kB", text(root / "proc/meminfo") or "")
    kernel = root / "proc/sys/kernel"
    arch = text(kernel / "arch") or platform.machine()
    release = re.match(r"\d+\.\d+", text(kernel / "osrelease") or "")
    system = (text(kernel / "ostype") or platform.system(), release and release[0], arch)
    described = Machine(
        id="",
        label="",
        system=" ".join(part for part in system if part),
        cpu=_cpu(blocks, clusters),
        isa=tuple(name for name in _ISA if name in flags),
        clusters=clusters,
        caches=_caches(root, clusters),
        memory_bytes=int(memory[1]) * 1024 if memory else None,
        governor=text(root / "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor") or None,
        virtual="hypervisor" in flags or bool(text(root / "sys/hypervisor/type")),
        accelerators=_accelerators(root),
    )
    return _named(described, memory_limit_bytes(root))


def _cpuinfo(root: Path) -> list[dict[str, str]]:
    paragraphs = re.split(r"\n\s*\n", text(root / "proc/cpuinfo") or "")
    lines = ([line.partition(":") for line in paragraph.splitlines()] for paragraph in paragraphs)
    return [{key.strip(): value.strip() for key, colon, value in pairs if colon} for pairs in lines]


def _cpu(blocks: Sequence[dict[str, str]], clusters: Sequence[Cluster]) -> str:
    """The processor's name; on Arm, where there is none, the names of its cores, big ones first."""
    names = {}
    for block in blocks:
        if "CPU implementer" in block and (core := core_list(block.get("processor"))):
            maker, part = block["CPU implementer"], block.get("CPU part", "")
            names[core[0]] = _ARM_CORES.get(maker, {}).get(part, f"Arm {maker}/{part}")
    counts = Counter(names[core] for cluster in clusters for core in cluster.cores if core in names)
    if len(counts) > 1:
        return " + ".join(f"{count}x {name}" for name, count in counts.items())
    given = next((block["model name"] for block in blocks if block.get("model name")), "unknown processor")
    brand = re.sub(r"\((R|TM|r|tm)\)|\b(CPU|Processor|[\w-]+-Core)\b|@.*|with .*Graphics", " ", given)
    return next(iter(counts), " ".join(brand.split()) or given)


def _clusters(root: Path, blocks: Sequence[dict[str, str]]) -> tuple[Cluster, ...]:
    folder = root / "sys/devices/system/cpu"
    listed = {core for block in blocks for core in core_list(block.get("processor"))}
    online = core_list(text(folder / "online")) or tuple(sorted(listed)) or tuple(range(os.cpu_count() or 1))
    allowed = set(allowed_cores(root) or online)
    cores = [core for core in online if core in allowed] or list(online)
    capacities = {core: number(folder / f"cpu{core}/cpu_capacity") for core in cores}
    clocks_khz = {core: number(folder / f"cpu{core}/cpufreq/cpuinfo_max_freq") for core in cores}
    siblings = {
        core: set(core_list(text(topology / "core_cpus_list") or text(topology / "thread_siblings_list")))
        for core, topology in ((core, folder / f"cpu{core}/topology") for core in cores)
    }
    performance = set(core_list(text(root / "sys/devices/cpu_core/cpus")))
    efficiency = set(core_list(text(root / "sys/devices/cpu_atom/cpus"))) - performance
    groups = {"all": cores}
    if performance and efficiency and performance | efficiency >= set(cores):
        groups = {"p": [c for c in cores if c in performance], "e": [c for c in cores if c in efficiency]}
    elif not any("flags" in block for block in blocks):
        # Not on x86: there, favoured cores of one kind have clocks of their own.
        for values in (capacities, clocks_khz):
            kinds = sorted({value for value in values.values() if value is not None}, reverse=True)
            # More kinds than any processor has means values that differ from core to core.
            if len(kinds) in _KINDS and None not in values.values():
                names = zip(_KINDS[len(kinds)], kinds, strict=True)
                groups = {name: [core for core in cores if values[core] == kind] for name, kind in names}
                break
    return tuple(
        Cluster(
            name,
            tuple(members),
            capacity=max((v for core in members if (v := capacities[core]) is not None), default=None),
            max_hz=max((v * 1000 for core in members if (v := clocks_khz[core]) is not None), default=None),
            threads_per_core=max(len(siblings[core] & set(online)) or 1 for core in members),
        )
        for name, members in groups.items()
        if members
    )


def _caches(root: Path, clusters: Sequence[Cluster]) -> tuple[Cache, ...]:
    found = set()
    for core in (core for cluster in clusters for core in cluster.cores):
        for index in sorted((root / f"sys/devices/system/cpu/cpu{core}/cache").glob("index[0-9]*")):
            size = re.fullmatch(r"(\d{1,12})([KMG]?)", text(index / "size") or "")
            level, shared = number(index / "level"), core_list(text(index / "shared_cpu_list"))
            if level is not None and size is not None and int(size[1]) > 0:
                kind = (text(index / "type") or "unified").lower()
                found.add(Cache(level, kind, int(size[1]) * _UNITS.get(size[2], 1), shared or (core,)))
    return tuple(sorted(found, key=lambda cache: (cache.level, cache.kind, cache.shared_by, cache.size_bytes)))


def _accelerators(root: Path) -> tuple[Accelerator, ...]:
    found = []
    for path in sorted((root / "proc/driver/nvidia/gpus").glob("*/information")):
        if model := re.search(r"^Model:\s*(.+?)\s*$", text(path) or "", re.MULTILINE):
            found.append(Accelerator("gpu", model[1]))
    named = bool(found)
    for kind, pattern in (("gpu", "drm/card*"), ("npu", "accel/accel*")):
        for folder in sorted((root / "sys/class").glob(pattern)):
            vendor = _VENDORS.get(text(folder / "device/vendor") or "")
            # Entries such as card0-DP-1 are sockets for screens.
            if vendor is None or "-" in folder.name or (vendor == "NVIDIA" and named):
                continue
            label = text(folder / "device/product_name") or f"{vendor} {kind.upper()}"
            found.append(Accelerator(kind, label, number(folder / "device/mem_info_vram_total")))
    return tuple(found)


def _run_sysctl(name: str) -> str | None:
    try:
        return subprocess.check_output(["/usr/sbin/sysctl", "-n", name], text=True, timeout=5).strip()
    except (OSError, subprocess.SubprocessError):
        return None


def _apple(sysctl: Sysctl) -> Machine:
    def value(name: str) -> int | None:
        return integer(sysctl(name))

    performance, efficiency = value("hw.perflevel0.logicalcpu"), value("hw.perflevel1.logicalcpu")
    if performance and efficiency:
        # The kernel numbers the efficiency cores first.
        fast = tuple(range(efficiency, efficiency + performance))
        clusters: tuple[Cluster, ...] = (Cluster("p", fast), Cluster("e", tuple(range(efficiency))))
    else:
        cores = value("hw.logicalcpu") or os.cpu_count() or 1
        threads = max(cores // (value("hw.physicalcpu") or cores), 1)
        clusters = (Cluster("all", tuple(range(cores)), threads_per_core=threads),)
    isa = {name for key, name in _APPLE_ISA.items() if value(f"hw.optional.{key}")}
    chip = (Accelerator("gpu", "Apple GPU"), Accelerator("npu", "Apple Neural Engine"))
    described = Machine(
        id="",
        label="",
        system=" ".join(filter(None, ("macOS", sysctl("kern.osproductversion"), sysctl("hw.machine")))),
        cpu=sysctl("machdep.cpu.brand_string") or "unknown processor",
        isa=tuple(name for name in _ISA if name in isa),
        clusters=clusters,
        memory_bytes=value("hw.memsize"),
        virtual=value("kern.hv_vmm_present") == 1,
        accelerators=chip if value("hw.optional.arm64") else (),
    )
    return _named(described, None)


def _named(machine: Machine, limit_bytes: int | None) -> Machine:
    """The machine with its id, its label and the memory it is left with."""
    counts = [(c.name, len(c.cores), c.threads_per_core) for c in machine.clusters]
    total = machine.memory_bytes
    # Clock limits, governor and a container's memory limit change without a change of machine; these do not.
    extras = [(a.kind, a.label) for a in machine.accelerators]
    facts = (machine.cpu, sorted(machine.isa), counts, total and round(total / 2**30), extras)
    words = dict.fromkeys(_ISA[name] for name in machine.isa if _ISA[name] != "-")
    for newer, older in (("AVX-512", "AVX2"), ("SVE2", "SVE")):
        if newer in words:
            words.pop(older, None)
    memory_bytes = min((size for size in (total, limit_bytes) if size is not None), default=None)
    cores = "+".join(str(-(-count // threads)) for _, count, threads in counts)
    # A GPU without a name of its own is mostly part of the chip, which goes without saying.
    cards = [a.label for a in machine.accelerators if a.kind == "gpu" and not a.label.endswith(" GPU")]
    counted = (f"{count}x {card}" if count > 1 else card for card, count in Counter(cards).items())
    parts = (
        f"{cores} core{'' if cores == '1' else 's'}",
        f"{len(machine.cores)} threads" if any(threads > 1 for _, _, threads in counts) else "",
        " ".join(words),
        "" if memory_bytes is None else f"{memory_bytes / 2**30:.1f} GiB",
        "virtual" if machine.virtual else "",
    )
    return replace(
        machine,
        id=hashlib.sha256(repr(facts).encode()).hexdigest()[:12],
        label=f"{' + '.join((machine.cpu, *counted))} ({', '.join(part for part in parts if part)})",
        memory_bytes=memory_bytes,
    )
