"""Hardware counters (cache misses, instructions) of this process and the threads it will start."""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Event:
    """One kernel event: type and config are those of perf_event_attr."""

    name: str
    type: int
    config: int


HARDWARE = (Event("cache_misses", 0, 3), Event("instructions", 0, 1))
TASK_CLOCK = Event("task_clock_ns", 1, 1)

_SYSCALLS = {"x86_64": 298, "aarch64": 241}
# perf_event_attr up to config2: the size every kernel since 2.6.33 accepts.
_ATTRIBUTES = struct.Struct("=IIQQQQQIIQQ")
# Bits of the flag word. Counting user mode only is what an unprivileged process may do.
_INHERIT, _EXCLUDE_KERNEL, _EXCLUDE_HYPERVISOR = 1 << 1, 1 << 5, 1 << 6
_FORMAT_TIMES = 0b11
_CLOSE_ON_EXEC = 8


class Counters:
    """Open counters. They see the opening thread and every thread and process it starts from then on."""

    def __init__(self, descriptors: dict[str, int]) -> None:
        self._descriptors = descriptors

    def read(self) -> dict[str, int]:
        """Counts since opening. An event the processor has had no room to count is left out."""
        counts = {}
        for name, descriptor in self._descriptors.items():
            value, enabled_ns, running_ns = struct.unpack("=QQQ", os.read(descriptor, 24))
            if running_ns:
                # Events take turns where the processor has too few counters; scaling makes up for the gaps.
                counts[name] = value if running_ns >= enabled_ns else value * enabled_ns // running_ns
        return counts

    def close(self) -> None:
        while self._descriptors:
            os.close(self._descriptors.popitem()[1])

    def __enter__(self) -> Counters:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_counters(events: Sequence[Event] = HARDWARE) -> Counters | None:
    """Counters for those events the kernel grants; None where it grants none."""
    found = {event.name: descriptor for event in events if (descriptor := _open(event)) is not None}
    return Counters(found) if found else None


def _open(event: Event) -> int | None:
    call = _SYSCALLS.get(platform.machine())
    # A 32-bit process on a 64-bit kernel numbers its system calls differently.
    if call is None or not sys.platform.startswith("linux") or sys.maxsize < 2**32:
        return None
    attributes = ctypes.create_string_buffer(
        _ATTRIBUTES.pack(
            event.type,
            _ATTRIBUTES.size,
            event.config,
            0,
            0,
            _FORMAT_TIMES,
            _INHERIT | _EXCLUDE_KERNEL | _EXCLUDE_HYPERVISOR,
            0,
            0,
            0,
            0,
        ),
        _ATTRIBUTES.size,
    )
    syscall = ctypes.CDLL(None, use_errno=True).syscall
    syscall.restype = ctypes.c_long
    this_process, any_core, no_group = 0, -1, -1
    descriptor = syscall(
        ctypes.c_long(call),
        attributes,
        ctypes.c_long(this_process),
        ctypes.c_long(any_core),
        ctypes.c_long(no_group),
        ctypes.c_ulong(_CLOSE_ON_EXEC),
    )
    return descriptor if descriptor >= 0 else None
