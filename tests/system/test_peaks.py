"""Roofs of the processor: kernels are what their text says, and what cannot run costs only itself."""

from __future__ import annotations

import json
import platform
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from edgewise.core.types import Cache, Cluster, Machine
from edgewise.system.machine import machine
from edgewise.system.peaks import cpu
from edgewise.system.peaks.kernel import TILES, Kernel

ARCHITECTURES = ("x86_64", "aarch64")
_ARM_FEATURES = "+v8.6a,+bf16,+i8mm,+dotprod,+fullfp16"
here = pytest.mark.skipif(not cpu.kernels(), reason="no kernels for this system")


def _assembled(assembly: str, architecture: str, folder: Path) -> bytes:
    source, made, code = folder / "kernel.s", folder / "kernel.o", folder / "kernel.bin"
    if architecture == "x86_64":
        source.write_text(f".intel_syntax noprefix\n{assembly}\n")
        tools = (["as", "--64", "-o", str(made), str(source)], "objcopy")
    else:
        source.write_text(f"{assembly}\n")
        command = ["llvm-mc", "-triple=aarch64", f"-mattr={_ARM_FEATURES}", "-filetype=obj", "-o", str(made)]
        tools = ([*command, str(source)], "llvm-objcopy")
    if not all(map(shutil.which, (tools[0][0], tools[1]))):
        pytest.skip(f"there is no {tools[0][0]} here")
    subprocess.run(tools[0], check=True)
    subprocess.run([tools[1], "-O", "binary", "-j", ".text", str(made), str(code)], check=True)
    return code.read_bytes()


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_code_is_what_its_assembly_says(architecture: str, tmp_path: Path) -> None:
    if architecture == "x86_64" and platform.machine() != "x86_64":
        pytest.skip("the assembler here is not one for x86-64")
    for kernel in cpu.kernels(architecture):
        assert _assembled(kernel.assembly, architecture, tmp_path).hex() == kernel.code, kernel.instruction


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_architecture_reads_copies_and_multiplies(architecture: str) -> None:
    kernels = cpu.kernels(architecture)
    assert {*cpu.PRECISIONS, "read", "copy"} <= {kernel.roof for kernel in kernels}
    assert all(kernel.moves == (not kernel.seed) for kernel in kernels)
    assert len(TILES) == 64 + 1024


def test_code_for_aarch64_leaves_the_callers_registers_alone() -> None:
    """v8 to v15 are the caller's: no word of ours writes one (the lowest five bits), but for branches and stores."""
    for kernel in cpu.kernels("aarch64"):
        code = bytes.fromhex(kernel.code)
        words = [int.from_bytes(code[i : i + 4], "little") for i in range(0, len(code), 4)]
        vectors = [word for word in words if word >> 25 & 0x7 == 0x7 or word >> 24 in (0x4E, 0x6E, 0x6F, 0x4D)]
        assert kernel.moves or len(vectors) >= 46
        assert not any(8 <= word & 31 <= 15 for word in vectors), kernel.instruction


def test_an_unknown_architecture_has_no_kernels() -> None:
    assert cpu.kernels("riscv64") == () == cpu.kernels("kernel")


def test_a_kernel_reaches_another_process_unchanged() -> None:
    for kernel in (kernel for name in ARCHITECTURES for kernel in cpu.kernels(name)):
        assert Kernel.parse(json.loads(json.dumps(kernel.text()))) == kernel


@here
def test_instructions_that_are_advertised_and_die_cost_only_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: before the kernel for fp32, one that no processor runs; and none for anything else."""
    trap = {"x86_64": "0f0b", "aarch64": "00000000"}[platform.machine()]
    good = next(kernel for kernel in cpu.kernels() if kernel.roof == "fp32" and kernel.isa in machine().isa)
    monkeypatch.setattr(cpu, "_WORK_NS", 30_000_000)
    monkeypatch.setattr(cpu, "kernels", lambda: (replace(good, instruction="a trap", code=trap), good))
    monkeypatch.setattr(cpu, "_MOST_BYTES", 4 << 20)
    found = cpu.roofs(machine(), machine().cores[:1], device="cpu#0", threads=1)
    assert (f"fp32 by a trap ({good.isa})", "the process died by SIGILL") in found.missing
    (fp32,) = [roof for roof in found.roofs if roof.name == "fp32"]
    assert good.instruction in fp32.method and fp32.per_s >= fp32.low > 1e8
    missing = dict(found.missing)
    assert "none of" in missing["bf16"] and "none of" in missing["int8"]
    # Without a kernel numpy measures memory, and says so.
    assert [roof.method for roof in found.roofs if roof.kind == "memory"] == [
        "numpy dot, 1 process",
        "numpy copyto, 1 process",
    ]
    assert (found.device, found.threads, found.machine) == ("cpu#0", 1, machine().id)


def test_tiles_and_vectors_both_have_a_roof(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not every engine uses the tiles, and some are told not to."""

    def planted(roof: str, kernel: Kernel | None, size: int, cores: Sequence[int]) -> list[float]:
        return [1e12 if kernel and kernel.isa.startswith("amx") else 1e11]

    table = cpu.kernels("x86_64")
    monkeypatch.setattr(cpu, "kernels", lambda: table)
    monkeypatch.setattr(cpu, "_confirmed", planted)
    tiles = replace(_planted((), 1 << 30), isa=("fma", "avx512f", "avx512_vnni", "amx_int8"))
    found = {roof.name: roof for roof in cpu.roofs(tiles, (0, 1)).roofs if roof.kind == "compute"}
    assert list(found) == ["fp32", "int8", "int8 without AMX"]
    assert "amx_int8" in found["int8"].method and "avx512_vnni" in found["int8 without AMX"].method
    assert found["int8"].per_s == 10 * found["int8 without AMX"].per_s


def test_work_counts_only_while_all_are_at_work() -> None:
    """One process works 100 ms, the other the last 60 of them: two windows of 30, in which both do their share."""
    ms = 1_000_000
    first = [(i * ms, (i + 1) * ms, ms, 5) for i in range(100)]
    second = [(i * ms, (i + 1) * ms, ms, 7) for i in range(40, 100)]
    rates = list(cpu._rates([first, second]))
    assert rates == pytest.approx([12e3] * len(rates)) and rates
    with pytest.raises(ValueError, match="no work"):
        list(cpu._rates([first, []]))


def test_what_others_take_of_a_core_is_not_the_processors_doing() -> None:
    """One process has its core for all of the first 100 ms, then for a tenth: those windows do not count."""
    ms = 1_000_000
    mine = [(i * ms, (i + 1) * ms, ms, 10) for i in range(100)]
    mine += [(i * ms, (i + 1) * ms, ms // 10, 1) for i in range(100, 300)]
    assert list(cpu._rates([mine])) == pytest.approx([10e3] * 2)
    # Four fifths of a core do four fifths of the work, and the roof is that of a whole one.
    shared = [(i * ms, (i + 1) * ms, 4 * ms // 5, 8) for i in range(100)]
    assert list(cpu._rates([shared])) == pytest.approx([10e3] * 2)


def _planted(caches: tuple[Cache, ...], memory_bytes: int) -> Machine:
    return Machine("m", "m", "Linux", "a CPU", (), (Cluster("all", (0, 1)),), caches, memory_bytes)


def test_buffers_fit_the_caches_they_are_for_and_exceed_all_for_memory() -> None:
    caches = (
        Cache(1, "data", 48 << 10, (0,)),
        Cache(1, "data", 48 << 10, (1,)),
        Cache(1, "instruction", 8 << 10, (0,)),
        Cache(2, "unified", 2 << 20, (0,)),
        Cache(2, "unified", 2 << 20, (1,)),
        Cache(3, "unified", 32 << 20, (0, 1)),
    )
    found = dict(cpu._cached_bytes(_planted(caches, 64 << 30), (0, 1)))
    assert found == {"L1": 24 << 10, "L2": 1 << 20, "L3": 8 << 20}
    assert 2 * cpu._memory_bytes(_planted(caches, 64 << 30), 2) >= 4 * (32 << 20)
    # A small machine is not filled up.
    assert 4 * cpu._memory_bytes(_planted(caches, 256 << 20), 4) <= 64 << 20


@here
@pytest.mark.alone
def test_two_measurements_of_the_roofs_agree() -> None:
    """On a quiet machine they do within some percent; here others may be at work, so much less is asked."""
    cores = machine().cores[:1]
    first, second = (cpu.roofs(machine(), cores) for _ in range(2))
    assert [roof.name for roof in first.roofs] == [roof.name for roof in second.roofs]
    for one, other in zip(first.roofs, second.roofs, strict=True):
        if one.name in ("L2", "L3"):
            continue  # others on the same host may share them
        if "amx" in one.method:
            continue  # and these: half or all of them is there, by the moment (decision 10)
        assert one.per_s == pytest.approx(other.per_s, rel=0.5), one.name
    rates = {roof.name: roof.per_s for roof in first.roofs}
    assert {"fp32", "memory", "memory copy"} <= set(rates)
    if "L1" in rates:
        assert rates["L1"] > rates["memory"]
