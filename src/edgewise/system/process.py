"""A child process: one that ends when its parent does, and comes to its turns soon."""

from __future__ import annotations

import ctypes
import os
import platform
import signal
import sys

_PR_SET_PDEATHSIG = 1
# The number of the system call, which has no name in the C library of most systems.
_SCHED_SETATTR = {"x86_64": 314, "aarch64": 274}


def die_with_parent(parent: int) -> None:
    """Ask the kernel to end this process when its parent ends, however that comes about."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it ended before we asked
            os._exit(1)


class _Attributes(ctypes.Structure):
    """What the kernel is told of how a thread is scheduled: `struct sched_attr` as it first was."""

    _fields_ = (
        ("size", ctypes.c_uint32),
        ("policy", ctypes.c_uint32),
        ("flags", ctypes.c_uint64),
        ("nice", ctypes.c_int32),
        ("priority", ctypes.c_uint32),
        ("runtime_ns", ctypes.c_uint64),
        ("deadline_ns", ctypes.c_uint64),
        ("period_ns", ctypes.c_uint64),
    )


def take_turns_of(ns: int) -> bool:
    """Ask for turns of this length for the thread that asks and those it will start; whether the kernel took it.

    Its share of a core stays what it is. But who asks for shorter turns than the others there (1.4 ms and more on two
    cores) comes to them as soon as it is woken, instead of waiting until a turn of theirs is over: up to 4 ms.
    Linux does so from 6.12 on; before, it takes no notice.
    """
    # The kernel's numbers are those of 64-bit programs.
    number = _SCHED_SETATTR.get(platform.machine()) if sys.maxsize > 2**32 else None
    if sys.platform != "linux" or number is None:
        return False
    try:
        ordinary = os.sched_getscheduler(0) == os.SCHED_OTHER
    except OSError:
        # A C library may have the name and not do it.
        return False
    if not ordinary:
        return False
    nice = os.getpriority(os.PRIO_PROCESS, 0)
    asked = _Attributes(size=ctypes.sizeof(_Attributes), nice=nice, runtime_ns=ns)
    return bool(ctypes.CDLL(None).syscall(number, 0, ctypes.byref(asked), 0) == 0)
