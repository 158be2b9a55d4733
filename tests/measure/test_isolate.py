"""An engine that crashes, hangs, leaks or prints garbage costs one worker (R3)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from edgewise.core.errors import (
    CheckFailed,
    EdgewiseError,
    EngineFailure,
    InputError,
    Unsupported,
    WorkerCrashed,
    WorkerTimeout,
    describe,
    rebuild,
)
from edgewise.core.records import to_json
from edgewise.measure import isolate
from edgewise.measure.isolate import Worker
from edgewise.model.load import inspect

# Those that judge how long something took; the others only need it to have come to an end.
alone = pytest.mark.alone

NAMES = "edgewise.core.registry:names"


@pytest.fixture(scope="module")
def model(tiny_onnx: Path) -> dict[str, Any]:
    form: dict[str, Any] = to_json(inspect(str(tiny_onnx)))
    form["inputs"][0]["shape"] = [1, 3, 32, 32]
    return form


def _open(worker: Worker, model: dict[str, Any], options: str, **keywords: Any) -> Any:
    placement = f"null:cpu{{{options}}}"
    return worker.call(
        "open", model=model, placement=placement, scenario="single", cores=[], reference=None, **keywords
    )


def _round(worker: Worker, runs: int = 5) -> list[int]:
    answer = worker.call("round", start=0, warmup=False, duration_ns=10**9, max_runs=runs, exclude=[])
    samples: list[int] = answer["samples_ns"]
    return samples


def _soon(true: Callable[[], bool], within_s: float = 2.0) -> bool:
    deadline = time.monotonic() + within_s
    while not true():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def _gone(pid: int) -> bool:
    """Ended; a zombie that nobody has collected yet does not run either."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_a_call_and_its_answer() -> None:
    assert "null" in isolate.call(NAMES, package="engines")


def test_a_lasting_worker_is_the_same_until_it_dies(monkeypatch: pytest.MonkeyPatch) -> None:
    with isolate.Lasting() as call:
        assert "null" in call(NAMES, package="engines")
        first = call._worker
        assert first is not None and call(NAMES, package="engines") and call._worker is first
        first.kill()
        # Whoever calls next has no part in that.
        assert "null" in call(NAMES, package="engines")
        second = call._worker
        assert second is not None and second is not first
        with monkeypatch.context() as patch, pytest.raises(WorkerTimeout):
            # It stands still and does not answer, however quick it is.
            patch.setattr(Worker, "go_on", lambda worker: None)
            call(NAMES, package="engines", timeout_s=0.1)
        assert second.process.poll() is not None
        assert "null" in call(NAMES, package="engines")
        third = call._worker
        assert third is not None
    assert third.process.poll() is not None


def test_a_segfault_names_the_signal_and_the_last_words(model: dict[str, Any]) -> None:
    with Worker() as worker, pytest.raises(WorkerCrashed, match="SIGSEGV during open") as caught:
        _open(worker, model, "crash=load")
    assert caught.value.signal == signal.SIGSEGV
    assert "Segmentation fault" in caught.value.stderr
    assert "null.py" in caught.value.stderr  # where it happened
    assert caught.value.exit_code == 5


def test_what_an_engine_printed_before_it_died_is_kept(model: dict[str, Any]) -> None:
    with Worker() as worker, pytest.raises(WorkerCrashed) as caught:
        _open(worker, model, "crash=run,chatter=on")
    assert "not json" in caught.value.stderr
    assert "{garbage" in caught.value.stderr


def test_a_killed_worker_hints_at_memory(model: dict[str, Any]) -> None:
    with Worker() as worker:
        _open(worker, model, "latency=1ms")
        os.kill(worker.process.pid, signal.SIGKILL)
        with pytest.raises(WorkerCrashed, match="SIGKILL") as caught:
            _round(worker)
    assert caught.value.signal == signal.SIGKILL
    assert "memory" in str(caught.value.hint)


def test_a_worker_that_leaves_by_itself() -> None:
    # SystemExit is no Exception: it ends the worker the way a library calling exit() does.
    with Worker() as worker, pytest.raises(WorkerCrashed, match=r"exit code 2 during call"):
        worker.call("call", function="edgewise.cli:main", keywords={"argv": ["no-such-command"]})


@alone
def test_a_hang_ends_at_the_time_out_and_the_process_with_it(model: dict[str, Any]) -> None:
    with Worker() as worker:
        begin = time.monotonic()
        with pytest.raises(WorkerTimeout, match=r"open did not come back within 1\.5 s") as caught:
            _open(worker, model, "hang=load", timeout_s=1.5)
        assert 1.5 <= time.monotonic() - begin < 2.5
        assert _gone(worker.process.pid)
    assert "--timeout" in str(caught.value.hint)
    assert time.monotonic() - begin < 3


def test_a_dead_worker_stays_dead(model: dict[str, Any]) -> None:
    with Worker() as worker:
        with pytest.raises(WorkerCrashed):
            _open(worker, model, "crash=load")
        with pytest.raises(WorkerCrashed):
            _round(worker)


def test_a_leak_meets_the_memory_limit(model: dict[str, Any]) -> None:
    with Worker(memory_bytes=1 << 30, timeout_s=30) as worker:
        _open(worker, model, "latency=10us,leak=50000000")
        with pytest.raises(EngineFailure) as caught:
            _round(worker, runs=1000)
    assert "out of memory" in caught.value.message or isinstance(caught.value, WorkerCrashed)


def test_a_limit_too_small_to_live_with_is_an_error_too(model: dict[str, Any]) -> None:
    with Worker(memory_bytes=1 << 20, timeout_s=20) as worker, pytest.raises(EdgewiseError) as caught:
        _open(worker, model, "leak=50000000")
    assert caught.value.message


def test_garbage_on_stdout_and_stderr_disturbs_nothing(
    model: dict[str, Any], capfd: pytest.CaptureFixture[str]
) -> None:
    with Worker() as worker:
        _open(worker, model, "latency=10us,chatter=on")
        assert len(_round(worker, runs=20)) == 20
        assert "garbage" in worker.tail()
    assert capfd.readouterr() == ("", "")


def test_a_failure_leaves_the_worker_usable(model: dict[str, Any]) -> None:
    with Worker() as worker:
        with pytest.raises(EngineFailure, match="told to fail at load"):
            _open(worker, model, "fail=load")
        _open(worker, model, "latency=10us")
        assert len(_round(worker)) == 5


_PARENT = """
import sys
from edgewise.measure.isolate import Worker
worker = Worker()
print(worker.process.pid, flush=True)
worker.call("open", model={model!r}, placement="null:cpu{{hang=load}}", scenario="single", cores=[], reference=None)
"""


@alone
def test_workers_die_with_a_killed_parent(model: dict[str, Any]) -> None:
    code = _PARENT.format(model=model)
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        # Hanging, not starting up: it has slept for a while.
        worker = psutil.Process(pid)
        assert _soon(lambda: worker.cpu_times().user > 0.05 and worker.status() == psutil.STATUS_SLEEPING, 10)
        time.sleep(0.5)
        assert not _gone(pid)
        parent.kill()
        parent.wait()
        assert _soon(lambda: _gone(pid), 2)


@alone
def test_twenty_workers_leave_nothing_behind(model: dict[str, Any]) -> None:
    def census() -> tuple[int, int]:
        return len(os.listdir("/proc/self/fd")), len(psutil.Process().children())

    with Worker():
        pass
    before = census()
    for number in range(20):
        # All the ways to end: unused, asked, crashed, timed out.
        with Worker(timeout_s=20) as worker:
            if number % 5 == 1:
                worker.call("call", function=NAMES, keywords={"package": "engines"})
            elif number % 5 == 2:
                with pytest.raises(WorkerCrashed):
                    _open(worker, model, "crash=load")
            elif number % 5 == 3:
                with pytest.raises(WorkerTimeout):
                    _open(worker, model, "hang=load", timeout_s=0.3)
    assert census() == before


def test_only_functions_of_edgewise_are_called() -> None:
    with Worker() as worker:
        for function in ("os:system", "subprocess:run", "edgewisely.evil:run", "", "builtins:eval", ":x"):
            with pytest.raises(InputError, match="not a function of edgewise"):
                worker.call("call", function=function, keywords={})


def test_a_function_that_is_not_there() -> None:
    with Worker() as worker:
        with pytest.raises(EngineFailure, match="AttributeError"):
            worker.call("call", function="edgewise.core.registry:nothing", keywords={})
        with pytest.raises(EngineFailure, match="ModuleNotFoundError"):
            worker.call("call", function="edgewise.nowhere:nothing", keywords={})
        with pytest.raises(EngineFailure, match="TypeError"):
            worker.call("call", function=NAMES, keywords={"wrong": 1})


def test_only_listed_operations_exist() -> None:
    with Worker() as worker, pytest.raises(EngineFailure, match="AssertionError"):
        worker.call("__init__", requests_fd=1, answers_fd=2)


def test_errors_keep_kind_message_and_hint(tmp_path: Path, model: dict[str, Any]) -> None:
    with Worker() as worker:
        empty = tmp_path / "empty.onnx"
        empty.touch()
        with pytest.raises(InputError) as here:
            inspect(str(empty))
        with pytest.raises(InputError) as there:
            worker.call("call", function="edgewise.model.load:inspect", keywords={"path": str(empty)})
        assert (there.value.message, there.value.hint) == (here.value.message, here.value.hint)
        with pytest.raises(Unsupported, match="told to refuse Conv"):
            _open(worker, model, "refuse=Conv+Frob")


@pytest.mark.parametrize("kind", [InputError, Unsupported, CheckFailed, WorkerTimeout, EngineFailure])
def test_errors_survive_their_json_form(kind: type[EdgewiseError]) -> None:
    again = rebuild(describe(kind("what was found", "what to type"), "loading"))
    assert type(again) is kind
    assert (again.message, again.hint) == ("what was found", "what to type")


def test_foreign_errors_become_engine_failures() -> None:
    form = describe(KeyError("x"), "loading")
    assert form["error"] == "EngineFailure"
    assert "KeyError while loading" in form["message"]
    assert "out of memory" in describe(MemoryError(), "loading")["message"]
    assert "out of memory" in describe(RuntimeError("std::bad_alloc"), "loading")["message"]
    native = describe(RuntimeError("\n".join(f"frame {i}" for i in range(1000))), "loading")
    assert "frame 0" in native["message"]  # the reason comes first; the native stack after it is cut
    assert len(native["message"]) < 1000


def test_an_unknown_kind_is_still_an_error() -> None:
    assert type(rebuild({"error": "FutureError", "message": "m"})) is EngineFailure
