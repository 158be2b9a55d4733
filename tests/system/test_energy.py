"""Meters are found in recorded trees, read in whole µJ and µW, and refuse what they cannot know.

There is no GPU, no Mac and no battery where these tests run: NVML is answered by an object that fills the same ctypes
pointers the library would, powermetrics by a program that prints a sample in its format, and sysfs by recorded trees.
"""

from __future__ import annotations

import ctypes
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trees

from edgewise.core.errors import InputError
from edgewise.system.energy import Meter, Reading, battery, declared, idle, meters, missing, nvml, powermetrics, window
from edgewise.system.energy.meter import Source
from edgewise.system.energy.window import energy

MS = 1_000_000
S = 1_000_000_000


def rapl() -> dict[str, str]:
    """Two packages with their memory, the cores of the first, and the package shown again over MMIO."""
    zones = {"0": "package-0", "0:0": "core", "0:1": "dram", "1": "package-1", "1:0": "dram"}
    files = {}
    for number, (zone, name) in enumerate(zones.items(), start=1):
        folder = f"class/powercap/intel-rapl:{zone}"
        files |= {f"{folder}/name": f"{name}\n", f"{folder}/energy_uj": f"{number * 1_000_000}\n"}
        files |= {f"{folder}/max_energy_range_uj": "262143328850\n"}
    files["class/powercap/intel-rapl/enabled"] = "1\n"
    return files | {"class/powercap/intel-rapl-mmio:0/energy_uj": "5\n", "class/powercap/dtpm/name": "dtpm\n"}


def orin() -> dict[str, str | bytes]:
    """INA3221 under hwmon, as on Orin: mV and mA, and the sum of the shunts in the channels above."""
    folder = "class/hwmon/hwmon3"
    rails = {1: ("VDD_CPU_GPU_CV", 4960, 880), 2: ("VDD_IN", 4976, 1816), 3: ("VDD_SOC", 4968, 400)}
    files: dict[str, str | bytes] = {
        "firmware/devicetree/base/compatible": b"nvidia,p3768-0000+p3767-0005\0nvidia,tegra234\0",
        f"{folder}/name": "ina3221\n",
        f"{folder}/update_interval": "20\n",
        f"{folder}/in7_label": "sum of shunt voltages\n",
        f"{folder}/in7_input": "9000\n",
        f"{folder}/curr4_input": "9000\n",
    }
    for channel, (label, millivolts, milliamperes) in rails.items():
        files |= {f"{folder}/in{channel}_label": f"{label}\n", f"{folder}/in{channel}_input": f"{millivolts}\n"}
        files |= {f"{folder}/curr{channel}_input": f"{milliamperes}\n"}
    return files


def nano() -> dict[str, str | bytes]:
    """NVIDIA's older driver: the chip under iio, with its own mW; one channel has only voltage and current."""
    folder = "bus/i2c/drivers/ina3221x/6-0040/iio:device0"
    return {
        f"{folder}/rail_name_0": "POM_5V_IN\n",
        f"{folder}/in_power0_input": "2230\n",
        f"{folder}/rail_name_1": "POM_5V_GPU\n",
        f"{folder}/in_voltage1_input": "5000\n",
        f"{folder}/in_current1_input": "24\n",
    }


def laptop(status: str = "Discharging", **gauge: int) -> dict[str, str | bytes]:
    folder = "class/power_supply/BAT0"
    files: dict[str, str | bytes] = {f"{folder}/type": "Battery\n", f"{folder}/status": f"{status}\n"}
    files |= {f"{folder}/{name}": f"{value}\n" for name, value in gauge.items()}
    mouse = {"type": "Battery", "scope": "Device", "status": "Discharging", "power_now": "1"}
    files |= {f"class/power_supply/hid-mouse/{name}": f"{value}\n" for name, value in mouse.items()}
    return files | {"class/power_supply/AC/type": "Mains\n"}


def fixed(
    value: Callable[[], int | None], *, counts: bool, update_ns: int = MS, step: int = 1, source: Source = "hwmon"
):
    return Meter(source=source, covers="test", counts=counts, step=step, update_ns=update_ns, value=value)


def powers(*values: int | None, every_ns: int = S) -> list[Reading]:
    return [Reading(None, value, index * every_ns) for index, value in enumerate(values)]


def totals(*values: int | None, every_ns: int = S) -> list[Reading]:
    return [Reading(value, None, index * every_ns) for index, value in enumerate(values)]


def test_rapl_gives_each_zone_once_and_says_what_contains_it(tmp_path: Path):
    found = meters(trees.write(tmp_path, rapl()))
    assert {(meter.source, meter.covers, meter.part_of) for meter in found} == {
        ("rapl", "package 0", None),
        ("rapl", "package 0 core", "package 0"),
        ("rapl", "package 0 dram", None),
        ("rapl", "package 1", None),
        ("rapl", "package 1 dram", None),
    }
    assert {meter.covers: meter.read().energy_uj for meter in found}["package 1"] == 4_000_000
    assert all(meter.read().power_uw is None for meter in found)


def test_a_platform_zone_contains_packages_and_memory(tmp_path: Path):
    platform = {"class/powercap/intel-rapl:2/name": "psys\n", "class/powercap/intel-rapl:2/energy_uj": "9\n"}
    found = {meter.covers: meter.part_of for meter in meters(trees.write(tmp_path, rapl() | platform))}
    assert found["platform"] is None
    assert found["package 0"] == found["package 0 dram"] == "platform"
    assert found["package 0 core"] == "package 0"


def test_a_counter_that_wraps_goes_on(tmp_path: Path):
    root = trees.write(tmp_path, rapl())
    counter = root / "class/powercap/intel-rapl:0/energy_uj"
    meter = next(meter for meter in meters(root) if meter.covers == "package 0")
    counter.write_text("262143328000\n")
    first = meter.read().energy_uj
    counter.write_text("150\n")
    second = meter.read().energy_uj
    counter.write_text("1150\n")
    third = meter.read().energy_uj
    assert first is not None and second is not None and third is not None
    assert (second - first, third - second) == (1000, 1000)


def test_a_counter_of_unknown_range_that_falls_is_no_reading(tmp_path: Path):
    files = {name: text for name, text in rapl().items() if not name.endswith("range_uj")}
    root = trees.write(tmp_path, files)
    meter = next(meter for meter in meters(root) if meter.covers == "package 0")
    seen = []
    for total in (900, 100, 300):
        (root / "class/powercap/intel-rapl:0/energy_uj").write_text(f"{total}\n")
        seen.append(meter.read().energy_uj)
    assert seen == [900, None, 1100]


def test_a_counter_that_may_not_be_read_is_missing_with_the_command_that_helps(tmp_path: Path):
    root = trees.write(tmp_path, rapl())
    counter = root / "class/powercap/intel-rapl:1/energy_uj"
    # A folder fails to be read even for root, whom permissions do not stop.
    counter.unlink()
    counter.mkdir()
    assert "package 1" not in [meter.covers for meter in meters(root)]
    [reason] = [reason for source, reason in missing(root) if source == "rapl"]
    assert str(counter) in reason and f"sudo chmod a+r {root}/class/powercap/intel-rapl:*/energy_uj" in reason


def test_where_nothing_is_every_source_says_so(tmp_path: Path):
    assert meters(tmp_path) == []
    assert [source for source, _ in missing(tmp_path)] == ["rapl", "hwmon", "jetson", "battery"]
    assert all(reason for _, reason in missing(tmp_path))


def test_this_machine_can_be_asked():
    assert {source for source, _ in missing()} | {meter.source for meter in meters()} >= {
        "rapl",
        "nvml",
        "powermetrics",
    }


def test_hwmon_gives_power_and_energy_of_its_chips(tmp_path: Path):
    files = {
        "class/hwmon/hwmon0/name": "amdgpu\n",
        "class/hwmon/hwmon0/power1_label": "PPT\n",
        "class/hwmon/hwmon0/power1_average": "31000000\n",
        "class/hwmon/hwmon0/power1_input": "30000000\n",
        "class/hwmon/hwmon0/power1_cap": "200000000\n",
        "class/hwmon/hwmon1/name": "power_meter\n",
        "class/hwmon/hwmon1/power1_average": "120000000\n",
        "class/hwmon/hwmon1/power1_average_interval": "300\n",
        "class/hwmon/hwmon2/name": "i915\n",
        "class/hwmon/hwmon2/energy1_input": "7000000\n",
        "class/hwmon/hwmon3/name": "coretemp\n",
        "class/hwmon/hwmon4/name": "dead\n",
        "class/hwmon/hwmon4/power1_input": "N/A\n",
    }
    root = trees.write(tmp_path, files)
    gpu, board, other = meters(root)
    assert (gpu.covers, gpu.read().power_uw, gpu.read().energy_uj) == ("gpu (amdgpu) PPT", 30_000_000, None)
    assert (board.covers, board.read().power_uw, board.update_ns) == ("power_meter", 120_000_000, 300 * MS)
    assert (other.covers, other.read().energy_uj, other.counts) == ("gpu (i915)", 7_000_000, True)
    assert any("hwmon4" in reason for source, reason in missing(root) if source == "hwmon")


def test_jetson_rails_are_voltage_times_current_and_parts_of_the_board(tmp_path: Path):
    found = meters(trees.write(tmp_path, orin()))
    assert [(meter.source, meter.covers, meter.read().power_uw, meter.part_of) for meter in found] == [
        ("jetson", "board VDD_IN", 4976 * 1816, None),
        ("jetson", "rail VDD_CPU_GPU_CV", 4960 * 880, "board VDD_IN"),
        ("jetson", "rail VDD_SOC", 4968 * 400, "board VDD_IN"),
    ]
    assert {meter.update_ns for meter in found} == {20 * MS}


def test_older_jetsons_give_the_same_through_iio(tmp_path: Path):
    found = meters(trees.write(tmp_path, nano()))
    assert [(meter.source, meter.covers, meter.read().power_uw, meter.part_of) for meter in found] == [
        ("jetson", "board POM_5V_IN", 2_230_000, None),
        ("jetson", "rail POM_5V_GPU", 120_000, "board POM_5V_IN"),
    ]


def test_the_same_chip_on_another_board_is_no_jetson(tmp_path: Path):
    files = {name: text for name, text in orin().items() if "devicetree" not in name}
    assert {meter.source for meter in meters(trees.write(tmp_path, files))} == {"hwmon"}


@pytest.mark.parametrize(
    "gauge",
    [{"power_now": 9_500_000}, {"current_now": 826_087, "voltage_now": 11_500_001}, {"power_now": -9_500_000}],
    ids=["power", "current-times-voltage", "negative"],
)
def test_a_battery_tells_the_power_of_the_device(tmp_path: Path, gauge: dict[str, int]):
    [meter] = meters(trees.write(tmp_path, laptop(**gauge)))
    assert (meter.source, meter.covers) == ("battery", "device BAT0")
    assert meter.read().power_uw == pytest.approx(9_500_000, abs=10)


def test_a_battery_counts_only_while_it_discharges(tmp_path: Path):
    root = trees.write(tmp_path, laptop(power_now=9_500_000))
    [meter] = meters(root)
    (root / "class/power_supply/BAT0/status").write_text("Charging\n")
    assert meter.read().power_uw is None
    assert meters(root) == []
    assert "unplug the charger" in dict(missing(root))["battery"]


def test_the_copy_of_a_battery_under_hwmon_is_not_a_sensor(tmp_path: Path):
    copy: dict[str, str | bytes] = {
        "class/hwmon/hwmon0/name": "BAT0\n",
        "class/hwmon/hwmon0/power1_input": "30000000\n",
    }
    assert meters(trees.write(tmp_path, laptop("Charging", power_now=30_000_000) | copy)) == []


def test_two_chips_of_one_kind_are_told_apart(tmp_path: Path):
    files = {f"class/hwmon/hwmon{n}/name": "ina226\n" for n in (0, 1)}
    files |= {f"class/hwmon/hwmon{n}/power1_input": "1000000\n" for n in (0, 1)}
    assert [meter.covers for meter in meters(trees.write(tmp_path, files))] == ["ina226", "ina226 hwmon1"]


def test_rails_that_are_off_or_not_connected_are_left_out(tmp_path: Path):
    off: dict[str, str | bytes] = {"class/hwmon/hwmon3/in1_label": "NC\n", "class/hwmon/hwmon3/in3_enable": "0\n"}
    assert [meter.covers for meter in meters(trees.write(tmp_path, orin() | off))] == ["board VDD_IN"]


def test_a_battery_without_a_gauge_is_missing(tmp_path: Path):
    assert "power_now" in battery.find(trees.write(tmp_path, laptop())).missing[0]


class FakeNvml:
    """Fills in what libnvidia-ml would: there is no GPU here. The first GPU counts energy, the second is too old."""

    def __init__(self, count: int = 3, start: int = 0) -> None:
        self.count, self.start, self.energy_mj = count, start, 5_000

    def nvmlInit_v2(self) -> int:
        return self.start

    def nvmlDeviceGetCount_v2(self, count: Any) -> int:
        count._obj.value = self.count
        return 0

    def nvmlDeviceGetHandleByIndex_v2(self, index: ctypes.c_uint, handle: Any) -> int:
        handle._obj.value = index.value + 1
        return 0

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: ctypes.c_void_p, answer: Any) -> int:
        answer._obj.value = self.energy_mj
        return 0 if handle.value == 1 else 3

    def nvmlDeviceGetPowerUsage(self, handle: ctypes.c_void_p, answer: Any) -> int:
        answer._obj.value = 71_250
        return 0 if handle.value in {1, 2} else 3


def test_nvml_counts_energy_where_it_can_and_tells_power_where_it_cannot():
    found = nvml.find(FakeNvml)
    first, second = found.meters
    assert (first.source, first.covers, first.read().energy_uj) == ("nvml", "gpu 0", 5_000_000)
    assert (second.covers, second.read().energy_uj, second.read().power_uw) == ("gpu 1", None, 71_250_000)
    assert "gpu 2" in found.missing[0]


def test_a_driver_too_old_to_count_energy_tells_power():
    class Old:
        def __getattr__(self, name: str) -> Any:
            if name == "nvmlDeviceGetTotalEnergyConsumption":
                raise AttributeError(name)
            return getattr(FakeNvml(count=1), name)

    [meter] = nvml.find(Old).meters
    assert (meter.counts, meter.read().power_uw) == (False, 71_250_000)


def test_without_driver_or_gpu_nvml_is_missing_with_the_reason():
    def absent() -> Any:
        raise OSError("cannot open shared object file")

    assert "no NVIDIA driver" in nvml.find(absent).missing[0]
    assert "code 9" in nvml.find(lambda: FakeNvml(start=9)).missing[0]
    assert "no GPU" in nvml.find(lambda: FakeNvml(count=0)).missing[0]


def plist(processor: str, elapsed_ns: int = 200_000_000) -> bytes:
    head = '<?xml version="1.0" encoding="UTF-8"?>\n<plist version="1.0">\n<dict>\n'
    body = f"<key>elapsed_ns</key><integer>{elapsed_ns}</integer>\n<key>processor</key><dict>{processor}</dict>\n"
    return f"{head}{body}</dict>\n</plist>\n".encode()


def entry(**values: float) -> str:
    return "".join(f"<key>{key}</key><real>{value}</real>" for key, value in values.items())


@pytest.mark.parametrize(
    "processor",
    [
        entry(cpu_power=1500, gpu_power=400, ane_power=100, combined_power=2000),
        entry(cpu_power=1500, gpu_power=400, ane_power=100),
        entry(package_watts=2.0),
    ],
    ids=["combined", "parts", "intel"],
)
def test_powermetrics_tells_the_energy_of_a_sample(processor: str):
    assert powermetrics.sample_uj(plist(processor)) == 400_000


@pytest.mark.parametrize("damaged", [b"", b"<plist>", b"\xff\0", plist(entry(cpu_freq=1)), plist("")[:-20]])
def test_a_damaged_sample_of_powermetrics_is_none(damaged: bytes):
    assert powermetrics.sample_uj(damaged) is None


def stand_in(*documents: bytes, stays: bool) -> tuple[str, ...]:
    told = b"\0".join(documents)
    wait = "sys.stdin = None; time.sleep(60)" if stays else "pass"
    return sys.executable, "-c", f"import sys, time\nsys.stdout.buffer.write({told!r})\nsys.stdout.flush()\n{wait}"


def soon(meter: Meter, expected: int | None) -> None:
    end = time.monotonic() + 10
    while meter.read().energy_uj != expected and time.monotonic() < end:
        time.sleep(0.01)
    assert meter.read().energy_uj == expected


def test_the_stream_of_powermetrics_adds_up():
    document = plist(entry(combined_power=2000))
    meter = powermetrics.meter(stand_in(document, document, document, stays=True))
    try:
        soon(meter, 1_200_000)
    finally:
        meter.close()


@pytest.mark.parametrize("documents", [(plist(entry(combined_power=2000)),), (b"<plist>not this</plist>",), ()])
def test_a_stream_that_ends_or_says_something_else_is_no_reading(documents: tuple[bytes, ...]):
    meter = powermetrics.meter(stand_in(*documents, stays=False))
    try:
        soon(meter, None)
    finally:
        meter.close()


def test_powermetrics_is_macos_only_and_a_program_that_is_not_there_is_no_reading():
    assert powermetrics.find("linux").meters == ()
    assert powermetrics.meter(("no-such-program-here",)).read().energy_uj is None


def test_power_is_integrated_as_trapezoids_within_the_bound():
    meter = fixed(lambda: 0, counts=False, step=0)
    # Up from 1 W to 5 W in 4 s, then 5 W for 2 s: 12 J + 10 J.
    used_uj, error_uj, reason = energy(meter, powers(*(w * 1_000_000 for w in (1, 2, 3, 4, 5, 5, 5))))
    assert (used_uj, reason) == (22_000_000, None)
    # Half of each step of 1 W, four times, and 4 W of difference over an update of 1 ms.
    assert error_uj == 2_000_000 + 4_000


def test_the_bound_holds_for_a_curve_between_the_samples():
    meter = fixed(lambda: 0, counts=False, step=1)
    # t² W over 10 s is 333.33… J.
    used_uj, error_uj, _ = energy(meter, powers(*(t * t * 1_000_000 for t in range(11))))
    assert used_uj is not None and error_uj is not None
    assert used_uj != 333_333_333 and abs(used_uj - 333_333_333) < error_uj


def test_a_counter_is_as_good_as_its_step_and_its_updates():
    meter = fixed(lambda: 0, counts=True, step=61, update_ns=MS, source="rapl")
    assert energy(meter, totals(500, 10_000_500)) == (10_000_000, 61 + 10_000, None)


@pytest.mark.parametrize(
    ("counts", "readings", "reason"),
    [
        (True, totals(0, 900, every_ns=9 * MS), "9 ms is too short for hwmon, which needs 10 ms"),
        (True, totals(900, 100), "started again"),
        (True, totals(900, 900), "did not move"),
        (True, totals(0, None, 900), "no answer 1 times of 3"),
        (False, powers(1, 2, 3), "expected 5 or more"),
        (False, powers(1, 2, None, 3, 4, 5), "no answer 1 times of 6"),
    ],
)
def test_what_a_meter_cannot_know_is_refused_with_the_reason(counts: bool, readings: list[Reading], reason: str):
    used_uj, error_uj, why = energy(fixed(lambda: 0, counts=counts), readings)
    assert (used_uj, error_uj) == (None, None)
    assert why is not None and reason in why


def test_a_window_samples_power_while_its_body_runs():
    with window(fixed(lambda: 2_000_000, counts=False, update_ns=5 * MS)) as measured:
        time.sleep(0.2)
    assert measured.reason is None and measured.samples >= 5
    assert measured.elapsed_ns >= 200 * MS
    assert measured.power_uw == pytest.approx(2_000_000, abs=100)
    assert measured.energy_uj == pytest.approx(measured.elapsed_ns * 2 / 1000, abs=2)


def test_a_window_over_a_counter_needs_its_two_ends_only():
    with window(fixed(lambda: time.perf_counter_ns() // 1000 * 3, counts=True)) as measured:
        time.sleep(0.2)
    assert measured.samples == 2
    # 3 µJ in each µs are 3 W.
    assert measured.power_uw == pytest.approx(3_000_000, rel=0.1)
    assert measured.error_uj is not None and 0 < measured.error_uj < (measured.energy_uj or 0)


def test_a_window_closes_when_its_body_fails():
    measured = window(fixed(lambda: 1, counts=False, update_ns=S), every_s=0.01)
    with pytest.raises(ZeroDivisionError), measured:
        _ = 1 / 0
    assert measured.reason is not None and "too short" in measured.reason


def test_an_estimate_is_labelled_and_carries_no_error_bar():
    meter = declared(15_000_000)
    with window(meter) as measured:
        time.sleep(0.02)
    assert meter.source == "estimate"
    assert (measured.power_uw, measured.error_uj) == (pytest.approx(15_000_000, abs=100), None)
    assert idle(meter, 0.01).spread_uw is None


@pytest.mark.parametrize("wrong", [0, -1])
def test_times_and_powers_that_make_no_sense_are_refused(wrong: int):
    meter = fixed(lambda: 1, counts=False)
    with pytest.raises(InputError):
        declared(wrong)
    with pytest.raises(InputError):
        window(meter, every_s=wrong)
    with pytest.raises(InputError):
        idle(meter, wrong)


def test_idle_power_has_a_mean_and_a_spread():
    flips = iter(range(10**6))
    told = idle(fixed(lambda: 1_000_000 + 200_000 * (next(flips) % 2), counts=False, update_ns=5 * MS), 0.2)
    assert told.power_uw == pytest.approx(1_100_000, rel=0.02)
    assert told.spread_uw == pytest.approx(100_000, rel=0.2)
    counted = idle(fixed(lambda: time.perf_counter_ns() // 1000 * 3, counts=True), 0.2)
    assert counted.power_uw == pytest.approx(3_000_000, rel=0.1)
    assert counted.spread_uw is not None and counted.samples > 5


def test_idle_shorter_than_the_meter_needs_is_refused():
    told = idle(fixed(lambda: 1, counts=False, update_ns=S), 0.02)
    assert (told.power_uw, told.spread_uw) == (None, None)
    assert told.reason is not None and "too short" in told.reason
