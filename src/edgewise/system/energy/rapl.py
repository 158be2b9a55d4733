"""RAPL: the energy counters of Intel and AMD processors, from the kernel's powercap folder."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from .. import number, text
from .meter import Found, Meter

# The registers are renewed about every millisecond, in units of 2^-14 J on most processors: 61 µJ.
_UPDATE_NS = 1_000_000
_STEP_UJ = 61
_ZONE = re.compile(r"intel-rapl:\d+(:\d+)?$")


def find(root: Path) -> Found:
    # The zones of intel-rapl-mmio show the same packages a second time.
    folder = root / "class/powercap"
    zones = sorted(path for path in folder.glob("intel-rapl:*") if _ZONE.match(path.name))
    if not zones:
        return Found("rapl", missing=(f"no intel-rapl zone in {folder}",))
    names = {zone.name: text(zone / "name") or zone.name for zone in zones}
    whole = "platform" if "psys" in names.values() else None
    found, missing = [], []
    for zone in zones:
        counter = zone / "energy_uj"
        if number(counter) is None:
            missing.append(f"{counter} cannot be read; sudo chmod a+r {folder}/intel-rapl:*/energy_uj")
            continue
        name, parent = names[zone.name], names.get(zone.name.rpartition(":")[0])
        outer = _covers(parent) if parent else None
        covers = f"{outer} {name}" if outer else _covers(name)
        # Memory hangs beside the package, not inside it.
        part_of = whole if outer is None or name == "dram" else outer
        found.append(
            Meter(
                source="rapl",
                covers=covers,
                counts=True,
                step=_STEP_UJ,
                update_ns=_UPDATE_NS,
                value=unwrapped(counter, number(zone / "max_energy_range_uj")),
                part_of=part_of if part_of != covers else None,
            )
        )
    return Found("rapl", tuple(found), tuple(missing))


def _covers(name: str) -> str:
    return "platform" if name == "psys" else name.replace("package-", "package ")


def unwrapped(counter: Path, range_uj: int | None) -> Callable[[], int | None]:
    """The counter as a total that never falls; None for the reading at which it fell and its range is not known."""
    last: int | None = None
    total = 0

    def value() -> int | None:
        nonlocal last, total
        now = number(counter)
        if now is None:
            return None
        before, last = last, now
        if before is None:
            total = now
        elif now >= before:
            total += now - before
        elif range_uj:
            total += now - before + range_uj
        else:
            return None
        return total

    return value
