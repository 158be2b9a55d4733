"""The battery's own gauge: the power of the whole device, while it runs on the battery."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from .. import text
from .meter import Found, Meter, from_files

# Gauges average over seconds.
_UPDATE_NS = 2_000_000_000
_STEP_UW = 1000


def find(root: Path) -> Found:
    folder = root / "class/power_supply"
    found, missing = [], []
    for supply in sorted(folder.glob("*")):
        # A battery of scope "Device" is that of a mouse or a headset.
        if text(supply / "type") != "Battery" or text(supply / "scope") == "Device":
            continue
        power = _power(supply)
        status = text(supply / "status") or "unknown"
        if power() is None:
            missing.append(f"{supply} tells neither power_now nor current_now and voltage_now")
        elif status != "Discharging":
            missing.append(f"{supply.name} is not discharging (status: {status}); unplug the charger")
        else:
            found.append(
                Meter(
                    source="battery",
                    covers=f"device {supply.name}",
                    counts=False,
                    step=_STEP_UW,
                    update_ns=_UPDATE_NS,
                    value=_while_discharging(supply, power),
                )
            )
    if not found and not missing:
        missing.append(f"no battery in {folder}")
    return Found("battery", tuple(found), tuple(missing))


def _power(supply: Path) -> Callable[[], int | None]:
    watts = from_files(supply / "power_now")
    # µA times µV.
    product = from_files(supply / "current_now", supply / "voltage_now", divide=1_000_000)
    return watts if watts() is not None else product


def _while_discharging(supply: Path, power: Callable[[], int | None]) -> Callable[[], int | None]:
    # With the charger in, the gauge tells what flows into the battery and nothing of what the device uses.
    return lambda: power() if text(supply / "status") == "Discharging" else None
