"""Who is writing a result: this process, told apart from a later one of the same number."""

from __future__ import annotations

import os

import psutil

_SAME_START_S = 2.0


def me() -> str:
    return f"{os.getpid()}:{psutil.Process().create_time():.2f}"


def alive(owner: str | None) -> bool:
    if not owner:
        return False
    number, _, created = owner.partition(":")
    try:
        # The system derives it from the time of boot, which moves a little when the clock is set.
        return bool(abs(psutil.Process(int(number)).create_time() - float(created)) < _SAME_START_S)
    except (psutil.NoSuchProcess, psutil.AccessDenied, ValueError):
        return False
