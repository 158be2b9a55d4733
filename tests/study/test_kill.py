"""kill -9 of anything, at any moment, loses at most the round in flight (R1)."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from edgewise.core.types import Failure, Measurement
from edgewise.store.db import Store

RUNS = 60
SCENARIO = f"single(warmup=2, min_runs={RUNS}, max_runs={RUNS}, min_s=0, width=0)"
# About five rounds a cell, on an engine that uses no CPU while it waits.
TARGETS = [f"null:cpu:fp32@1{{latency={ms}ms,wait=sleep}}" for ms in (8, 9, 10)]
Rounds = dict[tuple[int, int], tuple[bool, bytes]]


class Bench:
    """A real `edgewise bench`, its store, and what can be asked of both."""

    def __init__(self, model: Path, store: Path, *targets: str) -> None:
        self.store = store
        self.command = [sys.executable, "-m", "edgewise", "bench", str(model), "--scenario", SCENARIO]
        self.command += ["--save", str(store), "--json"]
        for target in targets or TARGETS:
            self.command += ["--on", target]

    def start(self, *more: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*self.command, *more],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            # Whoever runs the tests in the background has Ctrl-C ignored, and children inherit that.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
        )

    def finish(self, *more: str) -> str:
        with self.start(*more) as process:
            out, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors
        return out

    def rounds(self) -> Rounds:
        """All that is saved; nothing as long as there is no store."""
        if not self.store.exists():
            return {}
        connection = sqlite3.connect(f"file:{self.store}?mode=ro", uri=True, timeout=10)
        try:
            rows = connection.execute("SELECT result, ordinal, warmup, samples_ns FROM rounds").fetchall()
        except sqlite3.OperationalError:
            return {}  # not made yet
        finally:
            connection.close()
        return {(result, ordinal): (bool(warmup), samples) for result, ordinal, warmup, samples in rows}

    def until(self, count: int, process: subprocess.Popen[str]) -> None:
        deadline = time.monotonic() + 60
        while len(self.rounds()) < count:
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.01)

    def statuses(self) -> dict[int, str]:
        with Store(self.store, create=False) as store:
            return {number: status for number, _, status, _ in store.results()}

    def whole(self) -> bool:
        connection = sqlite3.connect(self.store)
        answer = connection.execute("PRAGMA integrity_check").fetchone()[0]
        connection.close()
        return bool(answer == "ok")


@pytest.fixture
def bench(tiny_onnx: Path, tmp_path: Path) -> Bench:
    return Bench(tiny_onnx, tmp_path / "lab.db")


def _workers(process: subprocess.Popen[str]) -> list[psutil.Process]:
    try:
        return psutil.Process(process.pid).children(recursive=True)
    except psutil.NoSuchProcess:  # over already
        return []


def _vanish(processes: list[psutil.Process], within_s: float = 3.0) -> bool:
    def running() -> Iterator[psutil.Process]:
        for process in processes:
            try:
                if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                    yield process
            except psutil.NoSuchProcess:
                continue

    return _soon(lambda: not list(running()), within_s)


def _soon(true: Callable[[], bool], within_s: float) -> bool:
    deadline = time.monotonic() + within_s
    while not true():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def _samples(rounds: Rounds) -> dict[int, int]:
    """Measured samples by result."""
    counts: dict[int, int] = {}
    for (result, _), (warmup, samples) in rounds.items():
        counts[result] = counts.get(result, 0) + (0 if warmup else len(array("q", samples)))
    return counts


def _kept(before: Rounds, after: Rounds) -> bool:
    return all(after[key] == value for key, value in before.items())


@pytest.mark.slow
def test_a_study_killed_again_and_again_is_finished_exactly(bench: Bench) -> None:
    saved: Rounds = {}
    for at in (1, 3, 5, 9, 12):  # in the first cell, at its end, in the second, in the third
        process = bench.start("--resume")
        bench.until(max(at, len(saved) + 1), process)
        workers = _workers(process)
        process.kill()
        process.communicate()
        assert _vanish(workers), "a worker outlived its parent"
        assert bench.whole()
        now = bench.rounds()
        assert _kept(saved, now)
        assert len(now) > len(saved)
        saved = now
    done = {number for number, status in bench.statuses().items() if status == "complete"}
    assert done != set(bench.statuses()), "it was over before the last kill"
    answer = json.loads(bench.finish("--resume"))
    rounds = bench.rounds()
    assert _kept(saved, rounds)
    # As many results as cells, each with exactly the runs asked for.
    assert list(_samples(rounds).values()) == [RUNS] * len(TARGETS)
    assert set(bench.statuses().values()) == {"complete"}
    # What had been finished was not run again.
    for number in done:
        assert [key for key in rounds if key[0] == number] == [key for key in saved if key[0] == number]
    # The resumed command reports all cells, in the order asked for, with all their samples.
    shown = [
        (r["task"]["placement"], sum(len(p["samples_ns"]) for p in r["rounds"] if not p["warmup"]))
        for r in answer["results"]
    ]
    assert shown == [(target.replace("null:cpu{", "null:cpu:fp32@1{"), RUNS) for target in TARGETS]


def test_killed_at_any_moment(bench: Bench) -> None:
    """Moments that no round marks: while the store is made, while an engine is asked, while a cell is prepared."""
    saved: Rounds = {}
    for seconds in (0.05, 0.2, 0.35, 0.5, 0.7, 0.9, 1.1, 1.4):
        process = bench.start("--resume")
        time.sleep(seconds)
        workers = _workers(process)
        process.kill()
        process.communicate()
        assert _vanish(workers)
        now = bench.rounds()
        assert _kept(saved, now)
        saved = now
    bench.finish("--resume")
    assert bench.whole()
    assert _kept(saved, bench.rounds())
    assert list(_samples(bench.rounds()).values()) == [RUNS] * len(TARGETS)


def test_a_killed_study_runs_only_the_rounds_that_are_left(bench: Bench) -> None:
    process = bench.start()
    bench.until(3, process)  # a warm-up round and two others
    process.kill()
    process.communicate()
    before = _samples(bench.rounds())
    (number,) = before
    assert 0 < before[number] < RUNS
    bench.finish("--resume")
    with Store(bench.store, create=False) as store:
        result = next(record for found, _, _, record in store.results() if found == number)
    assert isinstance(result, Measurement)
    assert len(result.starts) == 2
    by_start = [sum(len(r.samples_ns) for r in result.measured if r.start == start) for start in (0, 1)]
    assert by_start == [before[number], RUNS - before[number]]


def test_a_finished_study_resumed_does_nothing(bench: Bench) -> None:
    bench.finish()
    before, statuses = bench.rounds(), bench.statuses()
    bench.finish("--resume")
    assert (bench.rounds(), bench.statuses()) == (before, statuses)


def test_without_resume_all_is_measured_again(bench: Bench) -> None:
    bench.command[bench.command.index(SCENARIO)] = "single(warmup=0, max_runs=2, min_s=0)"
    bench.finish()
    bench.finish()
    assert len(bench.statuses()) == 2 * len(TARGETS)


def test_a_killed_worker_costs_its_cell_only(bench: Bench) -> None:
    process = bench.start()
    bench.until(2, process)
    (worker,) = [child for child in _workers(process) if "edgewise.measure.worker" in child.cmdline()]
    worker.kill()
    out, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert "Traceback" not in errors
    with Store(bench.store, create=False) as store:
        first, *others = [record for _, _, _, record in store.results()]
    assert isinstance(first, Failure)
    assert (first.error, first.stage) == ("WorkerCrashed", "run")
    assert "SIGKILL" in first.message
    assert [len(m.samples_ns) for m in others if isinstance(m, Measurement)] == [RUNS] * (len(TARGETS) - 1)
    shown = json.loads(out)["results"]
    assert [result.get("error") for result in shown] == ["WorkerCrashed", None, None]
    # What was saved before it died is still there.
    assert [key for key in bench.rounds() if key[0] == 1]


def test_an_engine_that_kills_its_process_costs_its_cell_only(tiny_onnx: Path, tmp_path: Path) -> None:
    faults = ["crash=load", "crash=run,at=9", "fail=run,at=9", "hang=run,at=9"]
    targets = [f"null:cpu:fp32@1{{{options}}}" for options in (*faults, "latency=1ms")]
    bench = Bench(tiny_onnx, tmp_path / "lab.db", *targets)
    answer = json.loads(bench.finish("--timeout", "2"))
    errors = [result.get("error") for result in answer["results"]]
    assert errors == ["WorkerCrashed", "WorkerCrashed", "EngineFailure", "WorkerTimeout", None]


@pytest.mark.parametrize("moment", [1, 4])
def test_ctrl_c(bench: Bench, moment: int) -> None:
    process = bench.start()
    bench.until(moment, process)
    workers = _workers(process)
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=10)
    assert process.returncode == 130
    assert out == ""
    assert "Traceback" not in errors
    assert "--resume" in errors
    assert str(bench.store) in errors
    assert _vanish(workers)
    assert bench.whole()
    before = bench.rounds()
    assert len(before) >= moment
    bench.finish("--resume")
    assert _kept(before, bench.rounds())
    assert list(_samples(bench.rounds()).values()) == [RUNS] * len(TARGETS)


def test_ctrl_c_while_starting(bench: Bench) -> None:
    process = bench.start()
    assert _soon(lambda: bool(_workers(process)), 10)
    os.kill(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=15)
    assert process.returncode == 130
    assert "Traceback" not in errors


def test_another_live_process_is_left_to_its_work(bench: Bench) -> None:
    """Two resume the same study at once: no cell gets more samples than asked for."""
    first = bench.start("--resume")
    bench.until(2, first)
    bench.finish("--resume")
    out, errors = first.communicate(timeout=60)
    assert first.returncode == 0, errors
    assert json.loads(out)
    assert set(_samples(bench.rounds()).values()) == {RUNS}
