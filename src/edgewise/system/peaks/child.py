"""One process on one core that runs a kernel over and over: python -m edgewise.system.peaks.child REQUEST

REQUEST is JSON. The process says `ready`, reads when to begin, works for as long as asked, and writes what it did: a
list of [began_ns, ended_ns, cpu_ns, work]. What it dies of, its parent sees.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import sys
import time
from collections.abc import Callable
from typing import Any

from .kernel import Kernel

# Long against the microsecond a call from Python takes, short against the windows its parent looks at.
_SLICE_NS = 2_000_000
_HUGE = 2 << 20
_ARCH_PRCTL, _REQUEST_TILES, _TILES = 158, 0x1023, 18
_SIDE = 384
_PIECE_BYTES = 64 << 20


def _executable(code: bytes) -> Callable[..., None]:
    """The code as a function. Mapped from a file, so that nothing is both writable and executable, and the operating
    system brings the instruction cache up to date where the processor does not."""
    file = os.memfd_create("kernel")
    os.write(file, code)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    place = libc.mmap(None, len(code), mmap.PROT_READ | mmap.PROT_EXEC, mmap.MAP_PRIVATE, file, 0)
    os.close(file)
    if place == ctypes.c_void_p(-1).value:
        raise OSError(ctypes.get_errno(), "memory cannot be made executable here")
    form = ctypes.CFUNCTYPE(None, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p)
    run: Callable[..., None] = form(place)
    return run


def _buffer(size: int) -> tuple[mmap.mmap, int]:
    """Memory that is there, in huge pages where the system has them: with small ones the walk through the page tables
    is what is measured."""
    # Private: what is shared with others is not put into huge pages.
    memory = mmap.mmap(-1, size + _HUGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        memory.madvise(mmap.MADV_HUGEPAGE)
    place = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    place += -place % _HUGE
    ctypes.memset(place, 1, size)
    return memory, place


def _machine_code(kernel: Kernel, size: int) -> Callable[[int], int]:
    """What does the kernel `times` times and says how much work that was."""
    run = _executable(bytes.fromhex(kernel.code))
    if not kernel.moves:
        if kernel.isa.startswith("amx"):
            ctypes.CDLL(None).syscall(_ARCH_PRCTL, _REQUEST_TILES, _TILES)
        seed = ctypes.create_string_buffer(kernel.seed, len(kernel.seed))
        place = ctypes.addressof(seed)

        def compute(times: int, _kept: Any = seed) -> int:
            run(times, place, 0, None)
            return times * kernel.work

        return compute
    source, sink = _buffer(size), _buffer(size) if kernel.roof == "copy" else (None, 0)
    # A buffer far larger than the caches is walked through piece by piece, so that slices stay short.
    piece = min(size, _PIECE_BYTES)
    blocks, pieces = piece // kernel.block_bytes, size // piece
    at = 0

    def move(times: int, _kept: Any = (source, sink)) -> int:
        nonlocal at
        if pieces == 1:
            run(times, source[1], blocks, sink[1])
        else:
            for _ in range(times):
                run(1, source[1] + at * piece, blocks, sink[1] + at * piece)
                at = (at + 1) % pieces
        return times * blocks * kernel.work

    return move


def _numpy(roof: str, size: int) -> Callable[[int], int]:
    import numpy as np

    if roof == "fp32":
        a = np.full((_SIDE, _SIDE), 1e-3, np.float32)
        out = np.empty_like(a)

        def multiply(times: int) -> int:
            for _ in range(times):
                np.matmul(a, a, out=out)
            return times * 2 * _SIDE**3

        return multiply
    source = np.full(size // 4, 1e-3, np.float32)
    sink = np.ones_like(source) if roof == "copy" else source

    def move(times: int) -> int:
        for _ in range(times):
            if roof == "copy":
                np.copyto(sink, source)
            else:
                np.dot(source, source)
        return times * source.nbytes * (2 if roof == "copy" else 1)

    return move


def _enough(run: Callable[[int], int]) -> int:
    """How many times make a slice; finding out is the warm-up, too."""
    times = 1
    while True:
        began = time.perf_counter_ns()
        run(times)
        took = time.perf_counter_ns() - began
        if took >= _SLICE_NS:
            return times
        times = min(times * 16, times * _SLICE_NS // max(took, 1) + 1)


def main() -> None:
    wanted = json.loads(sys.argv[1])
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {wanted["core"]})
    if wanted["kernel"] is None:
        run = _numpy(wanted["roof"], wanted["bytes"])
    else:
        run = _machine_code(Kernel.parse(wanted["kernel"]), wanted["bytes"])
    times = _enough(run)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    word = sys.stdin.readline()
    if not word:
        return
    begin = int(word)
    end = begin + wanted["ns"]
    slices = []
    while time.perf_counter_ns() < begin:
        pass
    while (began := time.perf_counter_ns()) < end:
        used = time.thread_time_ns()
        work = run(times)
        used = time.thread_time_ns() - used
        slices.append((began, time.perf_counter_ns(), used, work))
    sys.stdout.write(json.dumps(slices))


if __name__ == "__main__":
    main()
