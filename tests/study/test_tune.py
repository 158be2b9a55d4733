"""Races on the null engine: the planted winner is found, losers leave early, what goes wrong costs one candidate."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, Self
from unittest.mock import MagicMock

import pytest

from edgewise.analyze import race as analysis
from edgewise.core.errors import InputError, Unavailable
from edgewise.core.race import Race, Wanted
from edgewise.core.types import Measurement, Ran, Round, Scenario, Start
from edgewise.measure.cell import Cell
from edgewise.measure.energy import Metered, find_meters
from edgewise.report.sentences import sentence
from edgewise.store.db import Store
from edgewise.store.kept import Kept
from edgewise.study import compare as comparing
from edgewise.study import race as heats
from edgewise.study import tune as tuning_module
from edgewise.study.candidates import candidates, not_tried
from edgewise.study.prepare import Limits
from edgewise.study.request import Request, request
from edgewise.study.tune import Tuned, Tuning, tune
from edgewise.system.energy import Idle, Meter
from edgewise.system.machine import usable_cores

FAST, SLOW = "null@1{latency=500us,wait=sleep}", "null@1{latency=2ms,wait=sleep}"
MIDDLE = "null@1{latency=1ms,wait=sleep}"
_NS = {"500us": 500_000, "501us": 501_000, "1ms": 1_000_000, "2ms": 2_000_000}


@pytest.fixture(scope="module")
def asked(tiny_onnx: Path) -> Request:
    return request((str(tiny_onnx),), ("null",), (), [Scenario()], Limits(timeout_s=20.0))


@pytest.fixture
def store(tmp_path: Path, asked: Request) -> Iterator[Store]:
    with Store(tmp_path / "lab.db") as opened:
        opened.save_machine(asked.machine)
        yield opened


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heats, "WARMUP_NS", 5_000_000)
    monkeypatch.setattr(heats, "SCREENING_TURNS", 8)
    monkeypatch.setattr(heats, "CLOSE_TURNS", 8)
    monkeypatch.setattr(tuning_module, "CLOSE_TURNS", 8)
    monkeypatch.setattr(heats, "METERED_S", 0.05)


@pytest.fixture
def run(asked: Request, store: Store) -> Callable[..., Tuned]:
    def go(*on: str, against: str = SLOW, starts: int = 2, meters: tuple[Metered, ...] = (), **wanted: object) -> Tuned:
        tuning = Tuning(Wanted(**wanted), on, against=against, starts=starts)  # type: ignore[arg-type]
        return tune(asked, tuning, store, lambda what, detail: None, meters)

    return go


class _Process:
    """Stands for a session where the question is what a race makes of the times: it takes those the target names, and
    the null engine's own processes are left to the tests of what only they can show."""

    peaks: ClassVar[dict[str, int]] = {}
    broken: ClassVar[set[tuple[str, int]]] = set()
    opened: ClassVar[dict[str, int]] = {}

    def __init__(self, cell: Cell, index: int = 0) -> None:
        self.cell, self.index, self.worker = cell, index, MagicMock()
        self.name = str(cell.task.placement).partition("latency=")[2].partition(",")[0].rstrip("}")
        # Two processes are never quite alike.
        self.latency_ns = int(_NS[self.name] * (1 + 0.002 * (index % 3)))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def begin(self) -> None: ...

    def warm_up(self, save: object) -> None: ...

    def open(self) -> Start:
        times = self.opened[self.name] = self.opened.get(self.name, 0) + 1
        if (self.name, times) in self.broken:
            raise Unavailable("gone")
        return Start(0, 1, 1, None, Ran(), peak_bytes=self.peaks.get(self.name, 100 << 20))

    def round(self, *, warmup: bool = False, duration_ns: int = 20_000_000, settle_ns: int = 0) -> Round:
        time.sleep(duration_ns / 1e9)
        count = max(1, duration_ns // self.latency_ns)
        samples = tuple(int(self.latency_ns * (1 + 0.001 * (number % 5))) for number in range(count))
        return Round(self.index, warmup, 0, duration_ns, samples)


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> type[_Process]:
    for module in (comparing, tuning_module):
        monkeypatch.setattr(module, "Session", _Process)
    for name in ("peaks", "broken", "opened"):
        monkeypatch.setattr(_Process, name, type(getattr(_Process, name))())
    return _Process


def _statuses(race: Race) -> dict[str, str]:
    return {str(e.task.placement).partition("{")[2].partition(",")[0]: e.status for e in race.entries}


def test_the_fastest_wins_and_the_loser_leaves_after_one_start(
    run: Callable[..., Tuned], store: Store, made_up: type[_Process]
) -> None:
    tuned = run(SLOW, FAST, MIDDLE)
    race = tuned.race
    assert _statuses(race) == {"latency=500us": "won", "latency=1ms": "slower", "latency=2ms": "slower"}
    assert race.entries[0].status == "won"
    slow = race.entries[-1]
    assert (slow.starts, slow.heat) == (1, 1)
    assert slow.ratio is not None
    assert slow.ratio[1] == pytest.approx(4, rel=0.3)
    assert race.gain == 0
    # Measured afresh beside the baseline, in processes of its own.
    (against,) = [beside for beside in race.final if "baseline" in beside.roles]
    assert against.ratio is not None
    assert 2.5 < against.ratio[1] < 5
    assert race.p50_ns is not None
    assert race.p50_ns[1] == pytest.approx(500_000, rel=0.6)
    # Every turn is in the store, apart from what was measured alone; and so is the race.
    saved = [result for *_, result in store.results("race")]
    assert len(saved) == 6
    assert all(isinstance(result, Measurement) and result.measured for result in saved)
    assert not list(store.results("bench"))
    assert list(Kept(store).all("race", Race)) == [race]


def test_what_crashes_hangs_or_is_refused_costs_one_candidate(asked: Request, store: Store) -> None:
    impatient = replace(asked, limits=replace(asked.limits, timeout_s=2.0))
    bad = ("null@1{crash=load}", "null@1{fail=run,at=4}", "null:gpu", "null@1{hang=load}")
    tuning = Tuning(on=(FAST, *bad), against=FAST, starts=2)
    race = tune(impatient, tuning, store, lambda what, detail: None).race
    assert [entry.status for entry in race.entries] == ["won", *["failed"] * 4]
    assert all(entry.failure is not None and entry.failure.message for entry in race.entries[1:])
    assert any("did not come back" in entry.reason for entry in race.entries[1:])


def test_a_race_among_fewer_does_not_take_the_place_of_another(
    run: Callable[..., Tuned], store: Store, made_up: type[_Process]
) -> None:
    for on in ((FAST, SLOW), (SLOW,), (FAST, SLOW)):
        run(*on)
    assert sorted(len(race.entries) for race in Kept(store).all("race", Race)) == [1, 2]


def test_a_winner_that_fails_when_measured_afresh_is_out(run: Callable[..., Tuned], made_up: type[_Process]) -> None:
    """What starts once and not again is nothing to write a plan for."""
    made_up.broken.add(("500us", 2))
    tuned = run(FAST, SLOW)
    assert _statuses(tuned.race) == {"latency=2ms": "won", "latency=500us": "failed"}
    assert tuned.race.entries[1].failure is not None
    assert tuned.cell is not None
    assert "2ms" in str(tuned.cell.task.placement)


def test_near_ties_are_called_ties(run: Callable[..., Tuned], made_up: type[_Process]) -> None:
    race = run("null@1{latency=500us}", "null@1{latency=501us}", against="null@1{latency=500us}").race
    assert [entry.status for entry in race.entries] == ["won", "tied"]
    assert race.entries[1].starts == 2
    assert race.gain > 0
    (said, *_) = [f for f in analysis.raced(race).findings if f.code == "race_tied"]
    assert "is tied with it and could save at most" in sentence(said)
    assert "error rate 5.0 %" in sentence(said)
    # A tie is an interval that reaches 1, in the table as in the words.
    tie = race.entries[1].ratio
    assert tie is not None
    assert tie[0] <= 1 <= tie[2]


def test_what_is_runner_up_and_installed_is_told_once(run: Callable[..., Tuned], made_up: type[_Process]) -> None:
    found = analysis.raced(run(FAST, SLOW).race).findings
    said = [sentence(f) for f in found if f.code in ("race_baseline", "race_runner_up", "race_fp32")]
    assert len(said) == 1
    assert ", the runner-up" in said[0]


def test_a_percentile_is_certified_or_refuted(run: Callable[..., Tuned], made_up: type[_Process]) -> None:
    race = run(FAST, SLOW, percentile=(0.5, 10e6)).race
    assert race.winner is not None
    assert "race_certified" in {f.code for f in analysis.raced(race).findings}
    # Whose median is above the bound takes all slower ones with it.
    tuned = run(FAST, SLOW, percentile=(0.9, 100e3))
    assert tuned.cell is None
    assert _statuses(tuned.race) == {"latency=500us": "late", "latency=2ms": "late"}
    assert analysis.raced(tuned.race).findings[0].code == "no_winner"


def test_what_is_larger_is_not_late_because_the_smallest_is(run: Callable[..., Tuned], made_up: type[_Process]) -> None:
    made_up.peaks.update({"500us": 200 << 20, "2ms": 100 << 20})
    race = run(FAST, SLOW, prefer="memory", percentile=(0.5, 1.5e6)).race
    assert _statuses(race) == {"latency=500us": "won", "latency=2ms": "late"}


def test_memory_can_be_preferred(run: Callable[..., Tuned], made_up: type[_Process]) -> None:
    made_up.peaks.update({"500us": 200 << 20, "1ms": 100 << 20})
    race = run(FAST, MIDDLE, against=MIDDLE, prefer="memory").race
    assert _statuses(race) == {"latency=500us": "slower", "latency=1ms": "won"}
    assert [entry.peak_bytes for entry in race.entries] == [100 << 20, 200 << 20]


def test_memory_can_be_bounded(run: Callable[..., Tuned], made_up: type[_Process]) -> None:
    made_up.peaks.update({"500us": 200 << 20, "1ms": 100 << 20})
    race = run(FAST, MIDDLE, against=MIDDLE, memory_bytes=150 << 20).race
    assert _statuses(race) == {"latency=500us": "memory", "latency=1ms": "won"}
    (out,) = [f for f in analysis.raced(race).findings if f.code == "race_out_memory"]
    assert "1 out for taking more than" in sentence(out)


def test_energy_from_a_declared_power_is_called_an_estimate(run: Callable[..., Tuned], made_up: type[_Process]) -> None:
    race = run(FAST, SLOW, meters=find_meters(2_000_000), prefer="energy").race
    winner = race.winner
    assert winner is not None
    assert "500us" in str(winner.task.placement)
    assert winner.energy_source == "estimate"
    assert winner.energy_uj is not None
    assert winner.energy_uj >= 1000  # 2 W for half a millisecond, and what sleeping takes longer
    assert "race_estimated" in {f.code for f in analysis.raced(race).findings}


def test_who_has_no_meter_cannot_win_on_energy(run: Callable[..., Tuned], made_up: type[_Process]) -> None:
    """A GPU that idles while the processor works would make the processor look most efficient."""
    watts = Meter("nvml", "gpu 0", True, step=1, update_ns=1_000_000, value=lambda: time.perf_counter_ns() // 500)
    idle = Idle(1_000_000, 10_000, 10, 2 * 10**9, None)
    on_npu = "null:npu{latency=1ms,wait=sleep}"
    race = run(FAST, on_npu, SLOW, meters=(Metered(watts, idle),), prefer="energy").race
    assert _statuses(race) == {"latency=1ms": "won", "latency=500us": "failed", "latency=2ms": "failed"}
    assert {e.reason for e in race.entries if e.status == "failed"} == {
        "no meter covers cpu; there is one of: gpu 0 (nvml)"
    }


def test_throughput_races_copies_too(asked: Request) -> None:
    found = candidates(asked, (FAST,), (), "throughput", Scenario())
    cores = len(usable_cores(asked.machine))
    assert [str(c.scenario) for c in found] == ["single", *([f"concurrent(n={cores})"] if cores > 1 else [])]


def test_filters_choose_among_the_defaults_and_targets_in_full_stand_for_themselves(tiny_onnx: Path) -> None:
    wanted = request((str(tiny_onnx),), ("ort", "null"), (), [Scenario()], Limits())

    def names(*on: str, precision: tuple[str, ...] = ()) -> set[str]:
        return {str(c.placement) for c in candidates(wanted, on, precision, "latency", Scenario())}

    every = names("ort")
    assert {"ort:cpu:fp32@1", "ort:cpu:int8@1"} <= every
    assert names("ort:cpu:int8") == {name for name in every if ":int8" in name}
    assert names("ort", precision=("fp32",)) == {name for name in every if ":fp32" in name}
    assert names("ort:cpu:fp32@1", FAST) == {"ort:cpu:fp32@1", "null:cpu:fp32@1{latency=500us,wait=sleep}"}
    with pytest.raises(InputError, match="unknown precision"):
        names("ort", precision=("int4",))
    with pytest.raises(Unavailable, match="no target is left"):
        names("ort:cpu:int8", precision=("fp32",))
    assert any("batch sizes" in what for what in not_tried(wanted, (), (), "latency", 1))
