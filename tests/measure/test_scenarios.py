"""Each kind of load does what it says, on an engine whose speed is known."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import psutil
import pytest

from edgewise.core import stats
from edgewise.core.text import parse_contention, parse_placement, parse_scenario
from edgewise.core.types import Failure, Measurement, Model, Result, Round, Start, Task
from edgewise.measure.cell import Cell, Session, run_cell
from edgewise.measure.contend import competing
from edgewise.measure.loop import one_by_one, side_by_side
from edgewise.measure.serving import poisson
from edgewise.model.load import inspect
from edgewise.system.affinity import allowed_cores
from edgewise.system.meters import process_cpu_ns

# Those that judge how long something took; the others only need it to have come to an end.
alone = pytest.mark.alone

Part = Start | Round


@pytest.fixture(scope="module")
def model(tiny_onnx: Path) -> Model:
    return inspect(str(tiny_onnx))


@pytest.fixture
def measure(model: Model) -> Callable[..., Result]:
    def run(target: str, scenario: str, save: Callable[[Part], None] = lambda _: None, **options: object) -> Result:
        load = parse_scenario(scenario)
        inputs = tuple(replace(t, shape=(load.batch, 3, 32, 32)) for t in model.inputs)
        task = Task(model.digest, parse_placement(target), load)
        cell = Cell(task, replace(model, inputs=inputs), "m", (("null", "1"),), "i", model.label, timeout_s=30)
        return run_cell(replace(cell, **options), save)  # type: ignore[arg-type]

    return run


def _measured(result: Result) -> Measurement:
    assert isinstance(result, Measurement), result
    return result


def _failed(result: Result) -> Failure:
    assert isinstance(result, Failure)
    return result


def test_fixed_counts_are_kept_exactly(measure: Callable[..., Result]) -> None:
    result = _measured(measure("null:cpu{latency=10us}", "single(warmup=3, max_runs=25, min_s=0, width=0)"))
    assert len(result.samples_ns) == 25
    assert [len(r.samples_ns) for r in result.rounds if r.warmup] == [3]
    assert len(result.starts) == 1


def test_no_warm_up(measure: Callable[..., Result]) -> None:
    result = _measured(measure("null:cpu{latency=10us}", "single(warmup=0, max_runs=1, min_s=0)"))
    assert len(result.samples_ns) == 1
    assert not [r for r in result.rounds if r.warmup]


@alone
def test_a_steady_engine_is_warm_soon(measure: Callable[..., Result]) -> None:
    result = _measured(measure("null:cpu{latency=200us}", "single(max_s=3, min_s=0.2)"))
    warm = sum(r.elapsed_ns for r in result.rounds if r.warmup)
    assert 0 < warm < 1.2e9


def test_the_minimum_time_is_kept(measure: Callable[..., Result]) -> None:
    result = _measured(measure("null:cpu{latency=100us}", "single(warmup=1, min_runs=1, min_s=0.5, width=0.9)"))
    assert sum(r.elapsed_ns for r in result.measured) >= 0.5e9


@alone
def test_the_maximum_time_ends_it(measure: Callable[..., Result]) -> None:
    result = _measured(
        measure("null:cpu{latency=5ms,wait=sleep}", "single(warmup=0, min_runs=10000, min_s=0, max_s=0.5, width=0)")
    )
    assert 0.5e9 <= sum(r.elapsed_ns for r in result.measured) < 0.9e9


@alone
def test_a_millisecond_is_measured_as_one(measure: Callable[..., Result]) -> None:
    result = _measured(measure("null:cpu{latency=1ms,wait=spin}", "single(warmup=5, max_runs=300, min_s=0, width=0)"))
    assert statistics.median(result.samples_ns) == pytest.approx(1e6, rel=0.05)
    assert min(result.samples_ns) >= 1e6


def test_parts_are_saved_as_they_come(measure: Callable[..., Result]) -> None:
    parts: list[Part] = []
    scenario = "single(warmup=2, max_runs=60, min_s=0, width=0)"
    result = _measured(measure("null:cpu{latency=5ms,wait=sleep}", scenario, parts.append))
    assert isinstance(parts[0], Start)
    assert tuple(parts[1:]) == result.rounds
    assert len(result.measured) >= 3  # a round is a tenth of a second
    assert all(r.cpu_ns is not None and r.peak_bytes for r in result.rounds)


@alone
def test_two_at_once_do_twice_as_much(measure: Callable[..., Result]) -> None:
    def per_s(scenario: str) -> float:
        result = _measured(measure("null:cpu{latency=20ms,wait=sleep}", scenario))
        return len(result.samples_ns) / (sum(r.elapsed_ns for r in result.measured) / 1e9)

    # Rounds of 0.1 s end with one stream waiting for the other, so a little is lost.
    fixed = "warmup=4, max_runs=100, min_s=0, width=0"
    assert per_s(f"concurrent(n=2, {fixed})") / per_s(f"single({fixed})") == pytest.approx(2, rel=0.2)


def test_concurrent_counts_runs_over_all_streams(measure: Callable[..., Result]) -> None:
    result = _measured(measure("null:cpu{latency=100us}", "concurrent(n=3, warmup=3, max_runs=30, min_s=0, width=0)"))
    assert len(result.samples_ns) == 30


def test_a_failure_in_one_stream_ends_all(measure: Callable[..., Result]) -> None:
    failure = _failed(measure("null:cpu{latency=1ms,fail=run,at=5}", "concurrent(n=2, warmup=0, max_runs=100)"))
    assert (failure.stage, failure.error) == ("run", "EngineFailure")
    assert "told to fail" in failure.message


@alone
def test_offline_runs_back_to_back(measure: Callable[..., Result]) -> None:
    result = _measured(measure("null:cpu{latency=1ms}", "offline(batch=4, warmup=1, max_runs=100, min_s=0, width=0)"))
    assert len(result.samples_ns) == 100
    busy = sum(result.samples_ns) / sum(r.elapsed_ns for r in result.measured)
    assert busy > 0.95


def test_the_batch_reaches_the_engine(model: Model, measure: Callable[..., Result], tmp_path: Path) -> None:
    one, four = (
        _measured(measure("null:cpu{over=ort}", f"single(batch={batch}, warmup=0, max_runs=1)")) for batch in (1, 4)
    )
    assert (one.task.scenario.batch, four.task.scenario.batch) == (1, 4)
    # The engine checks its feeds against the sizes it is given, and ort's answer has as many rows.
    inputs = tuple(replace(t, shape=(4, 3, 32, 32)) for t in model.inputs)
    task = Task(model.digest, parse_placement("ort:cpu@1"), parse_scenario("single(batch=4)"))
    with Session(Cell(task, replace(model, inputs=inputs), "m", (), "", "tiny")) as session:
        session.open()
        session.worker.call("save_outputs", path=str(tmp_path / "outputs.npz"))
    with np.load(tmp_path / "outputs.npz") as outputs:
        assert [outputs[name].shape[0] for name in outputs.files] == [4]


# The server scenario


def test_arrivals_are_poisson() -> None:
    rate, count = 250.0, 20_000
    times = list(islice(poisson(rate, 7), count))
    assert times == sorted(times)
    gaps = [b - a for a, b in zip([0, *times], times, strict=False)]
    mean = 1e9 / rate
    # Five standard errors each: mean, standard deviation (equal to the mean), and the share beyond one and two means.
    assert statistics.fmean(gaps) == pytest.approx(mean, rel=5 / count**0.5)
    assert statistics.pstdev(gaps) == pytest.approx(mean, rel=5 * (2 / count) ** 0.5)
    for multiple, share in ((1, 0.36788), (2, 0.13534)):
        found = sum(gap > multiple * mean for gap in gaps) / count
        assert abs(found - share) < 5 * (share * (1 - share) / count) ** 0.5
    # Without memory: one gap says nothing about the next.
    assert abs(statistics.correlation(gaps[:-1], gaps[1:])) < 5 / count**0.5


def test_arrivals_are_the_same_for_a_seed() -> None:
    first, again, other = (list(islice(poisson(100, seed), 50)) for seed in (3, 3, 4))
    assert first == again != other


@alone
def test_latency_under_load_includes_the_queue(measure: Callable[..., Result]) -> None:
    scenario = "server(rate_hz=40, warmup=2, max_runs=160, min_s=0, max_s=20, width=0)"
    result = _measured(measure("null:cpu{latency=20ms,wait=sleep}", scenario))
    samples = result.samples_ns
    assert len(samples) >= 160
    assert min(samples) >= 20e6
    # At 80 % load more than half of all requests find another one being served.
    assert statistics.median(samples) > 24e6
    assert max(samples) > 50e6
    assert all(r.late_ns is not None for r in result.measured if r.samples_ns)


@alone
def test_a_light_load_hardly_queues(measure: Callable[..., Result]) -> None:
    scenario = "server(rate_hz=20, warmup=2, max_runs=60, min_s=0, max_s=20, width=0)"
    result = _measured(measure("null:cpu{latency=2ms,wait=sleep}", scenario))
    assert 2e6 <= statistics.median(result.samples_ns) < 8e6
    elapsed = sum(r.elapsed_ns for r in result.measured if r.samples_ns) / 1e9
    assert len(result.samples_ns) / elapsed == pytest.approx(20, rel=0.5)


@alone
def test_a_second_stream_shortens_the_queue(measure: Callable[..., Result]) -> None:
    scenario = "server(rate_hz=60, n={}, warmup=2, max_runs=150, min_s=0, max_s=6, width=0)"
    alone, two = (_measured(measure("null:cpu{latency=15ms,wait=sleep}", scenario.format(n))) for n in (1, 2))
    assert statistics.median(two.samples_ns) < statistics.median(alone.samples_ns)


@alone
def test_overload_is_seen(measure: Callable[..., Result]) -> None:
    """Four times what the engine can do: it never catches up, or its latency grows and grows."""
    scenario = "server(rate_hz=200, warmup=1, min_s=0, max_s=1, width=0)"
    result = measure("null:cpu{latency=20ms,wait=sleep}", scenario)
    if isinstance(result, Failure):
        assert "overload" in result.message
    else:
        assert stats.drift(result.samples_ns).flagged
        assert result.samples_ns[-1] > 20 * result.samples_ns[0]


@alone
@pytest.mark.parametrize("fault", ["crash", "fail"])
def test_dying_while_serving(measure: Callable[..., Result], fault: str) -> None:
    begin = time.monotonic()
    failure = _failed(measure(f"null:cpu{{{fault}=run,at=9}}", "server(rate_hz=500, warmup=0, max_s=5)"))
    assert failure.stage == "run"
    assert ("SIGSEGV" in failure.message) if fault == "crash" else ("told to fail" in failure.message)
    assert time.monotonic() - begin < 4


@alone
def test_hanging_while_serving(measure: Callable[..., Result], monkeypatch: pytest.MonkeyPatch) -> None:
    """More requests than the pipe holds, and nobody to take them: the generator must not wait for ever."""
    monkeypatch.setattr("edgewise.measure.cell._DRAIN_S", 1.0)
    begin = time.monotonic()
    failure = _failed(measure("null:cpu{hang=run,at=3}", "server(rate_hz=20000, warmup=0, min_s=0, max_s=2)"))
    assert failure.error == "EngineFailure"
    assert time.monotonic() - begin < 8


# Contention


@alone
def test_competitors_work_and_go_away() -> None:
    with competing(parse_contention("2*compute")) as pids:
        assert len(pids) == 2
        before = [process_cpu_ns(pid) for pid in pids]
        time.sleep(0.5)
        for pid, start in zip(pids, before, strict=True):
            now = process_cpu_ns(pid)
            assert start is not None
            assert now is not None
            assert now - start > 50_000_000
    assert not any(psutil.pid_exists(pid) for pid in pids)


@alone
@pytest.mark.parametrize("kind", ["memory", "cache"])
def test_each_kind_of_competitor_works(kind: str) -> None:
    with competing(parse_contention(kind)) as (pid,):
        before = process_cpu_ns(pid)
        time.sleep(0.3)
        now = process_cpu_ns(pid)
        assert before is not None
        assert now is not None
        assert now - before > 30_000_000
    assert not psutil.pid_exists(pid)


def test_a_pinned_competitor_stays_on_its_core() -> None:
    core = max(allowed_cores())
    with competing(parse_contention(f"compute#{core}")) as (pid,):
        assert psutil.Process(pid).cpu_affinity() == [core]


def test_competitors_go_away_when_the_measurement_fails() -> None:
    with pytest.raises(ZeroDivisionError), competing(parse_contention("compute")) as (pid,):
        raise ZeroDivisionError
    assert not psutil.pid_exists(pid)


def test_no_contention_is_nobody() -> None:
    with competing(None) as pids:
        assert pids == []


@alone
def test_a_cell_under_contention_shows_it(measure: Callable[..., Result]) -> None:
    core = min(allowed_cores())
    scenario = f"single(warmup=2, max_runs=200, min_s=0, width=0, contention=1*compute#{core})"
    contended = _measured(measure(f"null:cpu@1#{core}", scenario))
    assert str(contended.task.scenario.contention) == f"1*compute#{core}"
    assert not [p for p in psutil.Process().children() if "contend" in " ".join(p.cmdline())]


# Failures


@pytest.mark.parametrize(
    ("options", "stage", "error"),
    [
        ("fail=load", "load", "EngineFailure"),
        ("fail=run,at=1", "load", "EngineFailure"),  # the first run is part of getting going
        ("fail=run,at=2", "run", "EngineFailure"),
        ("crash=load", "load", "WorkerCrashed"),
        ("crash=run,at=7", "run", "WorkerCrashed"),
        ("refuse=Conv", "load", "Unsupported"),
        ("latency=fast", "load", "InputError"),
        ("colour=red", "load", "InputError"),
    ],
)
def test_a_failure_says_where(measure: Callable[..., Result], options: str, stage: str, error: str) -> None:
    failure = _failed(measure(f"null:cpu{{{options}}}", "single(warmup=2, max_runs=20, min_s=0)"))
    assert (failure.stage, failure.error) == (stage, error)
    assert failure.message
    assert failure.label == "tiny"
    assert bool(failure.stderr) == (error == "WorkerCrashed")


@alone
def test_a_hang_is_a_time_out(measure: Callable[..., Result]) -> None:
    begin = time.monotonic()
    failure = _failed(measure("null:cpu{hang=run,at=4}", "single(warmup=0, max_runs=9, min_s=0)", timeout_s=1.0))
    assert (failure.stage, failure.error) == ("run", "WorkerTimeout")
    assert time.monotonic() - begin < 4


def test_an_unknown_engine_is_a_failure(measure: Callable[..., Result]) -> None:
    failure = _failed(measure("nonesuch:cpu", "single(max_runs=1)"))
    assert failure.error == "InputError"
    assert "null" in failure.message


# The loops themselves


def test_at_least_one_run() -> None:
    assert len(one_by_one(lambda _: {}, {}, 0, 100)) == 1


def test_side_by_side_really_is() -> None:
    together = threading.Barrier(3)  # broken unless three runs overlap

    def run(_: object) -> dict[str, object]:
        together.wait(5)
        return {}

    assert len(side_by_side([run] * 3, {}, 10**9, 6)) == 6  # type: ignore[list-item]
