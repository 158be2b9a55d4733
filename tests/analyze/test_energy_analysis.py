"""Joules per inference on planted windows: who uses least, what idling takes, and what must not be compared."""

from __future__ import annotations

from typing import Any

import pytest
from planted import machine, measured, noise

from edgewise.analyze import energy
from edgewise.analyze.evidence import Evidence
from edgewise.core.energy import Energy, Used, by_meter, whole
from edgewise.core.types import Agreement, Finding, Measurement, Section
from edgewise.report.sentences import sentence

WATT = 1_000_000
S = 1_000_000_000
MS = 1_000_000


def window(
    power_w: float,
    *,
    seconds: float = 1.0,
    runs: int = 1000,
    idle_w: float | None = 2.0,
    source: str = "rapl",
    covers: str = "package 0",
    error: float = 0.01,
    spread_w: float = 0.01,
    part_of: str | None = None,
    start: int = 0,
) -> Energy:
    used_uj = round(power_w * seconds * WATT)
    return Energy(
        source,
        covers,
        start,
        runs,
        round(seconds * S),
        used_uj,
        round(used_uj * error),
        None if idle_w is None else round(idle_w * WATT),
        None if idle_w is None else round(spread_w * WATT),
        part_of,
    )


def declared(power_w: float, seconds: float = 1.0, runs: int = 1000) -> Energy:
    return Energy("estimate", "device", 0, runs, round(seconds * S), round(power_w * seconds * WATT))


def net(target: str, ms: float, *energies: Energy, **options: Any) -> Measurement:
    return measured(target, noise(ms * MS), energies=energies, **options)


def drawn(*measurements: Measurement) -> Section:
    return energy.run(Evidence(machines={"m": machine()}, measurements=measurements))


def column(section: Section, name: str) -> list[Any]:
    index = [c.name for c in section.columns].index(name)
    return [row[index] for row in section.rows]


def said(section: Section, code: str) -> Finding:
    [finding] = [f for f in section.findings if f.code == code]
    sentence(finding)
    return finding


def codes(section: Section) -> set[str]:
    return {f.code for f in section.findings}


def test_active_minus_idle_and_in_all_are_both_there() -> None:
    [used] = by_meter([window(10.0, seconds=2.0, runs=1000)], batch=1)
    assert used.total_uj == 20_000
    assert used.active_uj == 16_000
    assert used.per_joule == pytest.approx(50)
    assert used.active_per_joule == pytest.approx(62.5)
    assert used.idle_share == pytest.approx(0.2)
    assert used.power_uw == pytest.approx(10 * WATT)
    # 1 % of the reading, and 10 mW of idle power over two seconds.
    assert used.active_range == pytest.approx((16_000 - 220, 16_000 + 220))


def test_a_batch_is_that_many_inferences() -> None:
    [used] = by_meter([window(10.0, runs=100)], batch=8)
    assert used.inferences == 800 and used.per_joule == pytest.approx(80)


def test_a_declared_power_gives_inferences_per_second_per_watt() -> None:
    [used] = by_meter([declared(15.0, seconds=4.0, runs=600)], batch=1)
    assert used.per_joule == pytest.approx((600 / 4.0) / 15)
    assert used.total_range is None and used.active_uj is None


def test_pauses_between_rounds_are_not_charged_to_inferences() -> None:
    with_pauses = window(10.0, seconds=2.0)
    [used] = by_meter([with_pauses], 1, {0: 1_500_000_000})
    # Half a second of 2 W is taken off what it used in all, and what the work took beyond idle is unchanged.
    assert used.total_uj == 19_000 and used.active_uj == 16_000
    [guess] = by_meter([declared(15.0, seconds=2.0, runs=300)], 1, {0: 1_500_000_000})
    assert guess.per_joule == pytest.approx(300 / 1.5 / 15)


def test_starts_add_up_and_those_without_a_reading_are_left_out() -> None:
    lost = Energy("rapl", "package 0", 1, 500, S, None, reason="rapl gave no answer 1 times of 2")
    [used] = by_meter([window(10.0), lost, window(20.0, start=2)], batch=1)
    assert used.inferences == 2000 and used.total_uj == 15_000 and used.reason is None
    [nothing] = by_meter([lost], batch=1)
    assert nothing.total_uj is None and nothing.reason == lost.reason


def test_the_one_that_uses_least_is_named_and_whether_it_is_the_fastest() -> None:
    quick, frugal = net("ort:cpu@2", 1.0, window(22.0)), net("ort:cpu@1", 1.8, window(12.0))
    section = drawn(quick, frugal)
    assert column(section, "target") == ["ort:cpu@1", "ort:cpu@2"]
    assert column(section, "rank") == [1, 2]
    best = said(section, "most_efficient")
    assert best["target"] == "ort:cpu@1" and best["uj"] == pytest.approx(10_000, rel=0.01)
    trade = said(section, "faster_uses_more")
    assert trade["fastest"] == "ort:cpu@2"
    assert trade["energy"] == pytest.approx(2.0, rel=0.01) and trade["speed"] == pytest.approx(1.8, rel=0.02)
    assert "1.80× as fast as ort:cpu@1 and uses 2.00× the energy" in sentence(trade)


def test_where_the_fastest_also_uses_least_it_says_so() -> None:
    section = drawn(net("ort:cpu@2", 1.0, window(12.0)), net("ort:cpu@1", 1.8, window(22.0)))
    assert said(section, "fastest_is_efficient")["target"] == "ort:cpu@2"


def test_what_the_error_bars_do_not_separate_is_a_tie() -> None:
    section = drawn(net("a:cpu", 1.0, window(12.0, error=0.05)), net("b:cpu", 1.0, window(12.3, error=0.05)))
    assert column(section, "rank") == [1, 1]
    assert said(section, "efficiency_tie")["ties"] == "b:cpu"
    assert "most_efficient" not in codes(section)


def test_estimates_are_labelled_and_never_ranked_against_readings() -> None:
    section = drawn(net("a:cpu", 1.0, window(12.0)), net("b:cpu", 1.0, declared(1.0)))
    ranks = dict(zip(column(section, "source"), column(section, "rank"), strict=True))
    assert ranks == {"rapl": 1, "estimate": None}
    assert not codes(section) & {"most_efficient", "efficiency_tie", "fastest_is_efficient"}
    assert "an estimate: the declared 1.00 W" in sentence(said(section, "energy_estimated"))
    names = {s.name for chart in section.charts for s in chart.series}
    assert "estimate from a declared power" in names


def test_a_part_is_never_added_to_what_contains_it() -> None:
    cores = window(8.0, covers="package 0 core", part_of="package 0")
    section = drawn(net("a:cpu", 1.0, window(12.0), cores, window(1.0, covers="package 0 dram", idle_w=0.5)))
    assert column(section, "covers") == ["package 0 + package 0 dram", "package 0", "package 0 core", "package 0 dram"]
    assert column(section, "in_all") == pytest.approx([13_000, 12_000, 8_000, 1_000], rel=0.01)
    assert column(section, "rank") == [1, None, None, None]


def used(source: str, covers: str, part_of: str | None = None) -> Used:
    return Used(source, covers, 100, S, 10.0, 1.0, 2.0, 0.1, part_of)


@pytest.mark.parametrize(
    ("meters", "device", "covers"),
    [
        ([used("nvml", "gpu 0"), used("rapl", "package 0")], "cuda.0", "gpu 0 + package 0"),
        ([used("nvml", "gpu 0"), used("nvml", "gpu 1"), used("rapl", "package 0")], "cuda.1", "gpu 1 + package 0"),
        ([used("nvml", "gpu 0"), used("rapl", "package 0")], "cpu", "package 0"),
        ([used("rapl", "package 0"), used("rapl", "package 1")], "cpu", "package 0 + package 1"),
        ([used("nvml", "gpu 0")], "cuda.0", "gpu 0"),
        ([used("rapl", "package 0")], "gpu", "package 0"),
        ([used("hwmon", "gpu (amdgpu) PPT"), used("rapl", "package 0")], "vulkan.0", "gpu (amdgpu) PPT"),
        ([used("jetson", "board VDD_IN"), used("jetson", "rail GPU", "board VDD_IN")], "cuda.0", "board VDD_IN"),
        ([used("rapl", "platform"), used("rapl", "package 0", "platform")], "cpu", "platform"),
        ([used("battery", "device BAT0"), used("rapl", "package 0")], "cpu", "device BAT0"),
        ([used("hwmon", "ina226")], "cpu", "ina226"),
    ],
)
def test_meters_are_added_only_where_they_cover_different_parts(meters: list[Used], device: str, covers: str) -> None:
    found = whole(meters, device)
    assert found and found.covers == covers
    assert found.total_uj == 10.0 * (1 + covers.count(" + "))


@pytest.mark.parametrize(
    ("meters", "device"),
    [
        ([used("nvml", "gpu 0")], "cpu"),
        ([used("rapl", "package 0")], "cuda.0"),
        ([used("hwmon", "a"), used("hwmon", "b")], "cpu"),
    ],
)
def test_a_meter_of_something_else_has_nothing_to_say(meters: list[Used], device: str) -> None:
    found = whole(meters, device)
    assert found and found.total_uj is None and f"no meter covers {device}" in str(found.reason)


def test_a_gpu_that_idles_beside_a_busy_cpu_does_not_win() -> None:
    gpu = {"source": "nvml", "covers": "gpu 0", "idle_w": 70.0, "spread_w": 0.5}
    section = drawn(net("ort:cpu", 9.0, window(70.2, **gpu)), net("torch:cuda.0", 1.0, window(300.0, **gpu)))  # type: ignore[arg-type]
    ranks = dict(zip(column(section, "target"), column(section, "rank"), strict=True))
    assert ranks["torch:cuda.0"] == 1
    assert "no meter covers cpu" in str(said(section, "no_energy")["reason"])
    # Nor does its reading stand in the table as if it were the CPU's.
    assert dict(zip(column(section, "target"), column(section, "per_joule"), strict=True))["ort:cpu"] is None
    assert column(section, "target") == ["torch:cuda.0", "ort:cpu"]
    assert not codes(section) & {"most_efficient", "faster_uses_more"}


def test_work_that_cannot_be_told_from_idling_has_no_rank() -> None:
    section = drawn(net("a:cpu", 1.0, window(2.01)), net("b:cpu", 1.0, window(12.0)))
    ranks = dict(zip(column(section, "target"), column(section, "rank"), strict=True))
    assert ranks == {"a:cpu": None, "b:cpu": 1}
    assert said(section, "like_idle").about == "net on a:cpu"


def test_it_says_when_most_of_the_energy_is_idling() -> None:
    section = drawn(net("a:cpu", 1.0, window(10.0, idle_w=7.0)))
    assert said(section, "mostly_idle")["share"] == pytest.approx(0.7, rel=0.01)
    assert "mostly_idle" not in codes(drawn(net("a:cpu", 1.0, window(10.0, idle_w=1.0))))


def test_a_wrong_answer_has_no_rank_however_little_it_uses() -> None:
    wrong = Agreement(1.0, 1.0, 0.5, 1.0, 0, 1000)
    section = drawn(net("a:cpu", 1.0, window(3.0), agreement=wrong), net("b:cpu", 1.0, window(12.0)))
    assert dict(zip(column(section, "target"), column(section, "rank"), strict=True)) == {"a:cpu": None, "b:cpu": 1}


def test_without_idle_power_the_whole_is_compared() -> None:
    section = drawn(net("a:cpu", 1.0, window(12.0, idle_w=None)), net("b:cpu", 1.0, window(14.0)))
    assert column(section, "rank") == [1, 2]
    assert column(section, "beyond_idle")[0] is None


def test_a_measurement_without_a_reading_says_why() -> None:
    short = Energy("nvml", "gpu 0", 0, 100, 10**8, None, reason="100 ms is too short for nvml, which needs 1000 ms")
    section = drawn(net("torch:cuda.0", 1.0, short), net("ort:cpu", 1.0))
    assert column(section, "in_all") == [None, None]
    assert column(section, "reason") == [short.reason, "no meter was read"]
    assert "too short for nvml" in sentence(said(section, "no_energy"))
    assert section.charts == ()


def test_models_and_machines_are_ranked_apart() -> None:
    evidence = Evidence(
        machines={"m": machine(), "n": machine("n")},
        measurements=(
            net("a:cpu", 1.0, window(12.0)),
            net("b:cpu", 1.0, window(20.0)),
            net("a:cpu", 1.0, window(5.0), on="n"),
            net("a:cpu", 1.0, window(30.0), label="other"),
        ),
    )
    section = energy.run(evidence)
    assert column(section, "rank") == [1, 2, 1, 1]
    assert len(section.charts) == 3
    assert all(len(s.x) == len(s.y) == len(s.low) == len(s.high) for c in section.charts for s in c.series)
    assert said(section, "most_efficient").about == "net, machine m"


def test_with_nothing_read_the_section_says_what_to_type() -> None:
    for section in (drawn(net("a:cpu", 1.0)), energy.run(Evidence())):
        assert not section.rows and not section.charts
        assert "--energy" in str(said(section, "absent")["command"])
