"""How much energy this device uses: every meter found here, and why the others are not."""

from __future__ import annotations

from pathlib import Path

from . import battery, hwmon, nvml, powermetrics, rapl
from .declared import declared
from .meter import Found, Meter, Reading
from .window import Idle, Window, idle, window

__all__ = ["Idle", "Meter", "Reading", "Window", "declared", "idle", "meters", "missing", "window"]

SYS = Path("/sys")


def meters(root: Path = SYS) -> list[Meter]:
    """The meters that can be read here and now. An estimate is none of them: see `declared`."""
    return [meter for found in _look(root) for meter in found.meters]


def missing(root: Path = SYS) -> list[tuple[str, str]]:
    """(source, reason) for what is not here or may not be read; the reason names the command that helps."""
    return [(found.source, reason) for found in _look(root) for reason in found.missing]


def _look(root: Path) -> list[Found]:
    # A recorded tree says nothing about libraries and programs: those are asked about this machine only.
    here = [nvml.find(), powermetrics.find()] if root == SYS else []
    return [rapl.find(root), *hwmon.find(root), battery.find(root), *here]
