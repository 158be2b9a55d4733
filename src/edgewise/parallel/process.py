"""The parent's hold on the process of one part."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from ..core.errors import EdgewiseError, WorkerCrashed, WorkerTimeout, rebuild
from ..core.records import from_json, to_json
from ..core.types import Model, Ran, Target
from .memory import Form
from .part import ANSWER, COUNT, FAILED

_TAIL_BYTES = 4000
_FAREWELL_S = 2.0


class Talk:
    """With somebody who takes numbers and lines of JSON, and answers with such. `what` it is that talks there."""

    def __init__(self, what: str, write_fd: int, answers_fd: int) -> None:
        self.what, self._write_fd, self.answers_fd = what, write_fd, answers_fd
        self._buffer = bytearray()

    def died(self) -> EdgewiseError:
        """Why nobody answers any more."""
        raise NotImplementedError

    def send(self, data: bytes) -> None:
        try:
            while data:
                data = data[os.write(self._write_fd, data) :]
        except BrokenPipeError:
            raise self.died() from None

    def tell(self, message: dict[str, Any]) -> None:
        self.send(json.dumps(message).encode() + b"\n")

    def line(self, timeout_s: float, *, raw: bool = False) -> dict[str, Any]:
        deadline = time.monotonic() + timeout_s
        while (end := self._buffer.find(b"\n")) < 0:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.answers_fd], [], [], left)[0]:
                raise WorkerTimeout(f"{self.what} did not answer within {timeout_s:g} s", "raise the limit: --timeout")
            data = os.read(self.answers_fd, 1 << 16)
            if not data:
                raise self.died()
            self._buffer += data
        said: dict[str, Any] = json.loads(self._buffer[:end])
        del self._buffer[: end + 1]
        if "error" in said and not raw:
            raise self.told(said)
        return said

    def told(self, said: dict[str, Any]) -> EdgewiseError:
        error = rebuild(said)
        error.message = f"{self.what}: {error.message}"
        return error

    def _last_words(self) -> dict[str, Any] | None:
        while select.select([self.answers_fd], [], [], 0)[0] and (data := os.read(self.answers_fd, 1 << 16)):
            self._buffer += data
        for line in reversed(self._buffer.split(b"\n")):
            # What it answered in numbers may stand before it.
            begin = line.find(b'{"error"')
            if begin >= 0:
                with suppress(ValueError):
                    said: dict[str, Any] = json.loads(line[begin:])
                    return said
        return None


class Child(Talk):
    """A Python module in a process of its own. In this process's group, so that who pauses or ends this one pauses or
    ends all of it.

    Its arguments are this process's number, the descriptors it reads and writes, and those handed on.
    """

    def __init__(self, module: str, what: str, handed: Sequence[int]) -> None:
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        theirs_read, write_fd = os.pipe()
        answers_fd, theirs_write = os.pipe()
        super().__init__(what, write_fd, answers_fd)
        theirs = (theirs_read, theirs_write, *handed)
        command = [sys.executable, "-P", "-m", module, str(os.getpid()), *map(str, theirs)]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=self._stderr,
            stderr=self._stderr,
            pass_fds=theirs,
            env=os.environ | {"PYTHONFAULTHANDLER": "1"},
        )
        os.close(theirs_read)
        os.close(theirs_write)

    def died(self) -> EdgewiseError:
        """Why it is gone: what it said last, or how it ended."""
        said = self._last_words()
        try:
            code = self.process.wait(timeout=_FAREWELL_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait()
        if said is not None:
            return self.told(said)
        how = f"died by {signal.Signals(-code).name}" if code < 0 else f"left with exit code {code}"
        size = self._stderr.seek(0, os.SEEK_END)
        self._stderr.seek(max(0, size - _TAIL_BYTES))
        tail = self._stderr.read().decode(errors="replace").strip()
        return WorkerCrashed(f"the process of {self.what} {how}", signal=-code if code < 0 else None, stderr=tail)

    def close(self) -> None:
        """Closing its pipe is how it is told to leave; one that does not is ended."""
        for fd in (self._write_fd, self.answers_fd):
            os.close(fd)
        try:
            self.process.wait(timeout=_FAREWELL_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._stderr.close()


class Worker(Talk):
    """Who has a model of its own and works on slots; `opened` waits until it has loaded."""

    def opened(self, timeout_s: float) -> None:
        said = self.line(timeout_s)
        self.inputs: list[Form] = [from_json(Form, each) for each in said["inputs"]]
        self.outputs: list[Form] = [from_json(Form, each) for each in said["outputs"]]
        self.frame_ns: float = said["frame_ns"]
        self.load_ns: int = said["load_ns"]
        self.peak_bytes: int | None = said["peak_bytes"]
        self.ran: Ran = from_json(Ran, said["ran"]) if said["ran"] else Ran()

    def attach(self, inputs: Sequence[Form], outputs: Sequence[Form], slots: int, timeout_s: float) -> None:
        self.tell({"inputs": to_json(inputs), "outputs": to_json(outputs), "slots": slots})
        self.line(timeout_s)

    def give(self, slots: Sequence[int]) -> None:
        """Work on these, one after another. Answered by `answers`."""
        self.send(COUNT.pack(len(slots)) + b"".join(map(COUNT.pack, slots)))

    def answers(self) -> list[tuple[int, int]]:
        """What has come in, at least one, waiting for it: when the work on each of the oldest slots began and ended."""
        found: list[tuple[int, int]] = []
        while not found:
            data = os.read(self.answers_fd, ANSWER.size * 64)
            if not data:
                raise self.died()
            self._buffer += data
            whole = len(self._buffer) // ANSWER.size * ANSWER.size
            for begin, end in ANSWER.iter_unpack(bytes(self._buffer[:whole])):
                if begin == FAILED:
                    place = self._buffer.index(ANSWER.pack(FAILED, 0)) + ANSWER.size
                    del self._buffer[:place]
                    raise self.told(self.line(_FAREWELL_S, raw=True))
                found.append((begin, end))
            del self._buffer[:whole]
        return found


class PartProcess(Worker, Child):
    """Begun when it is made."""

    module = "edgewise.parallel.part"

    def __init__(
        self, model: Model, target: Target, handed: Sequence[int], cores: Sequence[int] = (), seed: int = 0
    ) -> None:
        super().__init__(self.module, str(target), handed)
        self.target = target
        # Its cores go with the target: `#0+1` names them.
        self.tell({"model": to_json(model), "target": str(target), "cores": list(cores or target.cores), "seed": seed})

    def kill(self) -> None:
        self.process.kill()
