"""A cell with meters beside it: the energy of its measured runs, on an engine and a power that are known."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from edgewise.cli import main
from edgewise.core.energy import Energy, by_meter, whole
from edgewise.core.errors import InputError, Unavailable
from edgewise.core.text import parse_placement, parse_scenario
from edgewise.core.types import Failure, Measurement, Model, Result, Task
from edgewise.measure import energy as measure_energy
from edgewise.measure.cell import Cell, Part, run_cell
from edgewise.measure.energy import Metered, baseline, choose_meters, find_meters, least_s, parse_power
from edgewise.model.load import inspect
from edgewise.store.db import Store
from edgewise.system.energy import Idle, Meter, declared
from edgewise.system.energy.meter import Source

# Those that judge how long something took; the others only need it to have come to an end.
alone = pytest.mark.alone

MS = 1_000_000
WATT = 1_000_000
SLEEPS = "null:cpu{latency=10ms,wait=sleep}"


def counter(power_uw: int = 5 * WATT, update_ns: int = MS, covers: str = "package 0", source: Source = "rapl") -> Meter:
    """Energy that grows with time: a device of constant power."""
    return Meter(
        source, covers, True, step=1, update_ns=update_ns, value=lambda: time.perf_counter_ns() * power_uw // 10**9
    )


def idling(power_uw: int = 2 * WATT, spread_uw: int = 10_000) -> Idle:
    return Idle(power_uw, spread_uw, 10, 2 * 10**9, None)


@pytest.fixture(scope="module")
def model(tiny_onnx: Path) -> Model:
    return inspect(str(tiny_onnx))


@pytest.fixture
def cell(model: Model) -> Callable[..., Cell]:
    def make(scenario: str, target: str = SLEEPS) -> Cell:
        load = parse_scenario(scenario)
        inputs = tuple(replace(t, shape=(load.batch, 3, 32, 32)) for t in model.inputs)
        task = Task(model.digest, parse_placement(target), load)
        return Cell(task, replace(model, inputs=inputs), "m", (("null", "1"),), "i", model.label, timeout_s=30)

    return make


def measured(result: Result) -> Measurement:
    assert isinstance(result, Measurement), result
    return result


def nothing(_: Part) -> None:
    pass


QUICK = "single(warmup=3, min_runs=5, min_s=0.3, max_s=0.5, width=0)"


@alone
def test_a_known_power_gives_a_known_energy_per_inference(cell: Callable[..., Cell]) -> None:
    parts: list[Part] = []
    result = measured(run_cell(cell(QUICK), parts.append, meters=(Metered(counter(), idling()),)))
    [energy] = result.energies
    assert parts[-1] is energy
    assert (energy.source, energy.covers, energy.start, energy.runs) == ("rapl", "package 0", 0, len(result.samples_ns))
    elapsed_s = sum(r.elapsed_ns for r in result.measured) / 1e9
    # The window is the measured rounds, and the little that passes between them.
    assert elapsed_s <= energy.elapsed_ns / 1e9 < elapsed_s + 0.2
    [used] = by_meter(result.energies, 1)
    assert used.power_uw == pytest.approx(5 * WATT, rel=0.01)
    assert used.active_uj == pytest.approx(3 * WATT * used.elapsed_ns / 1e9 / used.inferences, rel=0.01)
    assert used.active_range is not None and used.active_range[0] < used.active_uj < used.active_range[1]


def test_without_meters_there_is_no_energy(cell: Callable[..., Cell]) -> None:
    assert measured(run_cell(cell(QUICK), nothing)).energies == ()


@alone
def test_a_server_has_its_energy_too(cell: Callable[..., Cell]) -> None:
    scenario = "server(rate_hz=100, warmup=3, min_runs=20, min_s=0.5, max_s=1.2, width=0)"
    result = measured(
        run_cell(cell(scenario, "null:cpu{latency=1ms}"), nothing, meters=(Metered(counter(), idling()),))
    )
    [energy] = result.energies
    assert energy.runs == len(result.samples_ns)
    assert energy.energy_uj == pytest.approx(5 * WATT * energy.elapsed_ns / 1e9, rel=0.01)


def test_energy_is_stored_with_the_rest(cell: Callable[..., Cell], tmp_path: Path) -> None:
    this = cell(QUICK)
    with Store(tmp_path / "lab.db") as store:
        from edgewise.system.machine import machine

        here = machine()
        store.save_machine(here)
        this = replace(this, machine=here.id)
        number = store.begin(this.task, this.machine, this.versions, this.inputs, this.label)
        result = run_cell(this, lambda part: store.add(number, part), meters=(Metered(counter(), idling()),))
        store.finish(number, None)
        found = store.find(this.task, this.machine, this.versions, this.inputs)
    assert found and found[2] == result and measured(found[2]).energies


@alone
def test_a_measurement_lasts_as_long_as_the_meter_needs(cell: Callable[..., Cell]) -> None:
    slow = Metered(counter(update_ns=60 * MS), idling())
    scenario = "single(warmup=1, min_runs=1, min_s=0, max_s=3, width=0.9)"
    plain = measured(run_cell(cell(scenario), nothing))
    assert sum(r.elapsed_ns for r in plain.measured) < 0.6e9
    [energy] = measured(run_cell(cell(scenario), nothing, meters=(slow,))).energies
    assert energy.energy_uj is not None and energy.elapsed_ns >= 600 * MS


def test_a_scenario_that_allows_too_little_time_is_kept_and_the_energy_says_why(cell: Callable[..., Cell]) -> None:
    scenario = "single(warmup=1, max_runs=5, min_s=0)"
    result = measured(run_cell(cell(scenario), nothing, meters=(Metered(counter(update_ns=1000 * MS), idling()),)))
    assert len(result.samples_ns) == 5
    [energy] = result.energies
    assert energy.energy_uj is None and "too short for rapl, which needs 10000 ms" in str(energy.reason)


def test_least_time_is_that_of_the_slowest_meter_that_fits() -> None:
    quick, slow = Metered(counter(update_ns=MS)), Metered(counter(update_ns=2000 * MS))
    assert least_s((quick, slow), 10) == pytest.approx(0.011)
    assert least_s((quick, slow), 60) == pytest.approx(22)
    assert least_s((), 10) == 0


def test_a_meter_that_stops_answering_costs_its_energy_and_nothing_else(cell: Callable[..., Cell]) -> None:
    begin = time.perf_counter()
    dying = Meter("hwmon", "rail", False, 1, 5 * MS, value=lambda: WATT if time.perf_counter() - begin < 0.2 else None)
    result = measured(run_cell(cell(QUICK), nothing, meters=(Metered(dying, idling()), Metered(counter(), idling()))))
    dead, alive = result.energies
    assert dead.energy_uj is None and "hwmon gave no answer" in str(dead.reason)
    assert alive.energy_uj is not None
    assert result.complete and result.samples_ns


def test_declared_power_is_an_estimate_without_idle_or_error(cell: Callable[..., Cell]) -> None:
    result = measured(run_cell(cell(QUICK), nothing, meters=baseline((declared(15 * WATT, "device"),))))
    [energy] = result.energies
    assert (energy.source, energy.error_uj, energy.idle_uw) == ("estimate", None, None)
    assert energy.energy_uj == pytest.approx(15 * WATT * energy.elapsed_ns / 1e9, rel=0.001)
    [used] = by_meter(result.energies, 1)
    # Inferences per second per watt, as from a TDP.
    assert used.per_joule == pytest.approx(energy.runs / (energy.elapsed_ns / 1e9) / 15, rel=0.001)
    assert whole([used], "cpu") is None


def test_a_failure_with_a_meter_beside_it_is_a_failure(cell: Callable[..., Cell]) -> None:
    this = cell(QUICK, "null:cpu{latency=1ms,crash=run,at=2}")
    assert isinstance(run_cell(this, nothing, meters=(Metered(counter(), idling()),)), Failure)


def test_interrupted_runs_keep_the_energy_they_had_and_resumed_ones_add_theirs(cell: Callable[..., Cell]) -> None:
    parts: list[Part] = []

    def stop(part: Part) -> None:
        parts.append(part)
        if len([p for p in parts if not isinstance(p, Energy)]) == 5:
            raise KeyboardInterrupt

    this = cell("single(warmup=1, min_runs=5, min_s=0.3, max_s=1, width=0)")
    meters = (Metered(counter(), idling()),)
    with pytest.raises(KeyboardInterrupt):
        run_cell(this, stop, meters=meters)
    [first] = [part for part in parts if isinstance(part, Energy)]
    assert first.runs > 0
    half = cell("single(warmup=1, min_runs=5, min_s=0.3, max_s=0.5, width=0)")
    before = measured(run_cell(half, nothing, meters=meters))
    again = measured(run_cell(this, nothing, before, meters=meters))
    assert [energy.start for energy in again.energies] == [0, 1]


@alone
def test_idle_power_is_read_of_all_meters_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure_energy, "IDLE_S", 0.3)
    begin = time.perf_counter()
    found = baseline([counter(WATT, covers="package 0"), counter(3 * WATT, covers="package 1"), declared(WATT)])
    assert time.perf_counter() - begin < 0.55
    assert [m.idle.power_uw if m.idle else None for m in found] == [
        pytest.approx(WATT, rel=0.01),
        pytest.approx(3 * WATT, rel=0.01),
        None,
    ]
    assert found[0].idle and found[0].idle.spread_uw is not None


def test_only_counters_are_read_unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    power = Meter("hwmon", "rail", False, 1, MS, value=lambda: WATT)
    here = [counter(), power, counter(source="powermetrics")]
    monkeypatch.setattr(measure_energy.system, "meters", lambda: here)
    assert choose_meters() == (here[0],)
    assert choose_meters(every=True) == tuple(here)
    assert [meter.source for meter in choose_meters(15 * WATT)] == ["rapl", "estimate"]


def test_asking_for_energy_where_there_is_no_meter_says_why_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure_energy.system, "meters", list)
    monkeypatch.setattr(measure_energy.system, "missing", lambda: [("rapl", "no zone"), ("nvml", "no driver")])
    assert find_meters() == ()
    with pytest.raises(Unavailable) as error:
        choose_meters(every=True)
    assert "rapl: no zone; nvml: no driver" in error.value.message and "--power 15W" in str(error.value.hint)


@pytest.mark.parametrize(("text", "uw"), [("15W", 15 * WATT), ("500 mW", 500_000), ("2.5w", 2_500_000), ("1kW", 10**9)])
def test_powers_are_read(text: str, uw: int) -> None:
    assert parse_power(text) == uw


@pytest.mark.parametrize("text", ["", "15", "-3W", "0W", "nanW", "1e9W", "15 Wh", "9999999999kW"])
def test_what_is_no_power_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="is not a power"):
        parse_power(text)


def test_bench_reads_a_counter_unasked_and_shows_what_it_saw(
    tiny_onnx: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(measure_energy.system, "meters", lambda: [counter()])
    monkeypatch.setattr(measure_energy, "IDLE_S", 0.1)
    scenario = "single(warmup=1, min_s=0.2, max_s=0.3)"
    command = ["bench", str(tiny_onnx), "--on", "null:cpu", "--scenario", scenario, "--save", str(tmp_path / "lab.db")]
    with pytest.raises(SystemExit) as ended:
        main([*command, "--power", "15W"])
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    assert "Energy" in shown and "rapl" in shown and "5.00 W" in shown
    assert "estimate" in shown and "15.0 W" in shown


def test_bench_with_energy_and_no_meter_is_an_error_before_anything_is_measured(
    tiny_onnx: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(measure_energy.system, "meters", list)
    with pytest.raises(SystemExit) as ended:
        main(["bench", str(tiny_onnx), "--energy", "--save", str(tmp_path / "lab.db")])
    assert ended.value.code == 3
    assert "no energy meter can be read here" in capsys.readouterr().err
    assert not (tmp_path / "lab.db").exists()
