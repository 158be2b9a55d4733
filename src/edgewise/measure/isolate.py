"""A worker process and the parent's hold on it: a time-out, a memory limit, and the last words when it dies."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from types import TracebackType
from typing import Any, Self

from ..core.errors import EngineFailure, WorkerCrashed, WorkerTimeout, rebuild
from .channel import Channel, Closed

_TAIL_BYTES = 4000
# A native library can deadlock in its own exit handlers; by then its results are in.
_FAREWELL_S = 2.0

# What usually lies behind a signal, where saying so helps.
_SIGNAL_HINTS = {
    signal.SIGILL: "the engine used an instruction that this machine does not run: try another precision",
    signal.SIGKILL: "probably out of memory: try a smaller --batch",
}


class Worker:
    """One fresh process, driven by calls; a context manager that leaves nothing behind."""

    def __init__(self, *, memory_bytes: int | None = None, timeout_s: float = 120.0) -> None:
        self.timeout_s = timeout_s
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the worker
        to_worker, from_parent = os.pipe(), os.pipe()
        requests, answers = os.pipe(), os.pipe()
        theirs = (to_worker[0], from_parent[1], requests[0], answers[1])
        # -P: a file beside the model, named like a module, must not be run instead of it.
        command = [sys.executable, "-P", "-m", "edgewise.measure.worker", str(os.getpid())]
        command += [*map(str, theirs), str(memory_bytes or 0)]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            # Whatever a library prints is kept in one file: the reason for a crash may be in either stream.
            stdout=self._stderr,
            stderr=self._stderr,
            pass_fds=theirs,
            # Its own group: Ctrl-C is for the parent, which then decides. Not its own session: the kernel shares a core
            # between sessions first, and a measurement would compete with others by how many threads it has elsewhere.
            process_group=0,
            env=os.environ | {"PYTHONFAULTHANDLER": "1"},
        )
        for fd in theirs:
            os.close(fd)
        self._channel = Channel(from_parent[0], to_worker[1])
        self.requests_fd, self.answers_fd = requests[1], answers[0]

    def start(self, operation: str, **arguments: Any) -> None:
        """Send a call without waiting for its result."""
        try:
            self._channel.send({"operation": operation, "arguments": arguments})
        except Closed:
            raise self._crash(operation) from None

    def result(self, operation: str, timeout_s: float | None = None) -> Any:
        limit = self.timeout_s if timeout_s is None else timeout_s
        try:
            reply = self._channel.receive(limit)
        except TimeoutError:
            self.kill()
            raise WorkerTimeout(
                f"{operation} did not come back within {limit:g} s", "raise the limit with --timeout"
            ) from None
        except Closed:
            raise self._crash(operation) from None
        if "error" in reply:
            raise rebuild(reply)
        return reply["result"]

    def call(self, operation: str, *, timeout_s: float | None = None, **arguments: Any) -> Any:
        self.start(operation, **arguments)
        return self.result(operation, timeout_s)

    def tail(self) -> str:
        """The last lines the worker wrote, as text."""
        size = self._stderr.seek(0, os.SEEK_END)
        self._stderr.seek(max(0, size - _TAIL_BYTES))
        return self._stderr.read().decode(errors="replace").strip()

    def _crash(self, operation: str) -> WorkerCrashed:
        try:
            code = self.process.wait(timeout=_FAREWELL_S)
        except subprocess.TimeoutExpired:
            self.kill()
            code = self.process.wait()
        self._end_children()
        if code < 0:
            died = f"died by {signal.Signals(-code).name}"
            hint = _SIGNAL_HINTS.get(signal.Signals(-code))
            return WorkerCrashed(f"the worker {died} during {operation}", hint, signal=-code, stderr=self.tail())
        return WorkerCrashed(f"the worker left with exit code {code} during {operation}", stderr=self.tail())

    def pause(self) -> None:
        """Stop it as it is. An engine's idle threads may spin for a while, in somebody else's turn."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGCONT)

    def kill(self) -> None:
        """End it and all it started."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            self.process.kill()
        self.process.wait()

    def _end_children(self) -> None:
        """A converter outlives a worker that died, and would run beside the next measurement."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def close(self) -> None:
        # Closing the channel is how a worker is told to leave; one that does not is ended.
        self.go_on()
        self._channel.close()
        for fd in (self.requests_fd, self.answers_fd):
            os.close(fd)
        try:
            self.process.wait(timeout=_FAREWELL_S)
        except subprocess.TimeoutExpired:
            self.kill()
        self._end_children()
        self._stderr.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None and self.process.poll() is None:
            self.kill()
        self.close()


class Lasting:
    """Calls like `call`, in one worker that stays, so that what a function keeps in mind is there the next time. It
    stands still in between; after a failure there is another."""

    def __init__(self) -> None:
        self._worker: Worker | None = None

    def __call__(
        self, function: str, *, timeout_s: float = 120.0, memory_bytes: int | None = None, **arguments: Any
    ) -> Any:
        if self._worker is not None and self._worker.process.poll() is not None:
            # It died while it stood still, of something that this call has no part in.
            self.close()
        if self._worker is None:
            self._worker = Worker(memory_bytes=memory_bytes, timeout_s=timeout_s)
        worker = self._worker
        worker.go_on()
        try:
            return worker.call("call", timeout_s=timeout_s, function=function, keywords=arguments)
        except EngineFailure:
            # Out of memory, it may be, for what it has in mind.
            self.close()
            raise
        finally:
            worker.pause()

    def close(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None and self._worker is not None:
            # It may be in the middle of something long.
            self._worker.kill()
        self.close()


def call(function: str, *, timeout_s: float = 120.0, memory_bytes: int | None = None, **arguments: Any) -> Any:
    """Run `package.module:function` of edgewise in a fresh worker; JSON in, JSON out."""
    with Worker(memory_bytes=memory_bytes, timeout_s=timeout_s) as worker:
        return worker.call("call", function=function, keywords=arguments)
