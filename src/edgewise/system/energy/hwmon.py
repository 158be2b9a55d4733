"""Power sensors of the kernel's hwmon folder, and the INA3221 monitors of Jetson boards in both their layouts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from .. import number, text
from .meter import Found, Meter, Source, from_files

# Where a chip does not say how often it measures.
_UPDATE_NS = 100_000_000
# The rail that feeds the whole module, as successive boards label it.
_INPUTS = ("VDD_IN", "POM_5V_IN")
_GPUS = ("amdgpu", "i915", "xe", "nouveau")


def find(root: Path) -> tuple[Found, Found]:
    """Found under "hwmon" and found under "jetson"."""
    chips = sorted((root / "class/hwmon").glob("hwmon*"))
    tegra = "nvidia,tegra" in (text(root / "firmware/devicetree/base/compatible") or "")
    # The kernel repeats batteries here, charging or not: battery.py knows which of that is use.
    supplies = {path.name.replace("-", "_") for path in (root / "class/power_supply").glob("*")}
    monitors: list[Meter] = []
    sensors: list[Meter] = []
    unreadable: list[str] = []
    for chip in chips:
        if text(chip / "name") == "ina3221":
            (monitors if tegra else sensors).extend(_ina3221(chip, "jetson" if tegra else "hwmon"))
        elif text(chip / "name") not in supplies:
            _sensors(chip, sensors, unreadable)
    # NVIDIA's own driver of older systems puts the same chip under iio and computes the power itself.
    for chip in sorted((root / "bus/i2c/drivers/ina3221x").glob("*/iio:device*")):
        monitors += _ina3221x(chip)
    none = () if sensors or unreadable else (f"no power sensor in {root / 'class/hwmon'}",)
    jetson = Found("jetson", tuple(_nested(monitors)), () if monitors else ("no INA3221 of a Jetson board",))
    return Found("hwmon", tuple(sensors), (*none, *unreadable)), jetson


def _sensors(chip: Path, sensors: list[Meter], unreadable: list[str]) -> None:
    name = text(chip / "name") or chip.name
    # Some chips give the same sensor as a mean and as a value of the moment: the latter is one, the former the spare.
    powers = {
        path.name.partition("_")[0]: path for kind in ("average", "input") for path in chip.glob(f"power*_{kind}")
    }
    counters = {path.name.partition("_")[0]: path for path in chip.glob("energy*_input")}
    for key, path in sorted((powers | counters).items()):
        if number(path) is None:
            unreadable.append(f"{path} cannot be read; sudo chmod a+r {path}")
            continue
        label = text(chip / f"{key}_label")
        covers = " ".join(filter(None, (f"gpu ({name})" if name in _GPUS else name, label)))
        twice = any(sensor.covers == covers for sensor in sensors)
        sensors.append(
            Meter(
                source="hwmon",
                covers=f"{covers} {chip.name}" if twice else covers,
                counts=key in counters,
                step=1,
                update_ns=_update_ns(chip, key),
                value=from_files(path),
            )
        )


def _update_ns(chip: Path, key: str) -> int:
    said_ms = number(chip / f"{key}_average_interval") or number(chip / "update_interval")
    return said_ms * 1_000_000 if said_ms and said_ms > 0 else _UPDATE_NS


def _ina3221(chip: Path, source: Source) -> list[Meter]:
    """Voltage in mV times current in mA; the channels above the third are sums and shunt voltages."""
    found = []
    for channel in (1, 2, 3):
        volts, amperes = chip / f"in{channel}_input", chip / f"curr{channel}_input"
        power = from_files(volts, amperes)
        label = text(chip / f"in{channel}_label") or f"{chip.name} channel {channel}"
        # NC: not connected.
        if power() is not None and label != "NC" and number(chip / f"in{channel}_enable") != 0:
            # The current is told in whole mA.
            found.append(_rail(label, source, number(volts) or 1, _update_ns(chip, "in"), power))
    return found


def _ina3221x(chip: Path) -> list[Meter]:
    found = []
    for channel in (0, 1, 2):
        watts = from_files(chip / f"in_power{channel}_input", scale=1000)
        product = from_files(chip / f"in_voltage{channel}_input", chip / f"in_current{channel}_input")
        power = watts if watts() is not None else product
        label = text(chip / f"rail_name_{channel}") or f"{chip.name} channel {channel}"
        if power() is not None and label != "NC":
            found.append(_rail(label, "jetson", 1000, _UPDATE_NS, power))
    return found


def _rail(label: str, source: Source, step_uw: int, update_ns: int, power: Callable[[], int | None]) -> Meter:
    covers = f"board {label}" if label in _INPUTS else f"rail {label}"
    return Meter(source=source, covers=covers, counts=False, step=step_uw, update_ns=update_ns, value=power)


def _nested(rails: list[Meter]) -> list[Meter]:
    """The whole board first, and every other rail as a part of it."""
    board = next((rail.covers for rail in rails if rail.covers.startswith("board ")), None)
    for rail in rails:
        rail.part_of = board if rail.covers != board else None
    return sorted(rails, key=lambda rail: rail.covers != board)
