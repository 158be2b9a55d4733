"""A target of a stream in a thread of this process, where it has none of its own."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from ...core import registry
from ...core.errors import EdgewiseError, EngineFailure, Unsupported
from ...core.protocols import Array, Executable
from ...core.records import from_json, to_json
from ...core.types import Model, Target
from ...system import affinity
from ..memory import Form, Slots, fill
from ..part import answer
from ..process import Worker

_FAREWELL_S = 2.0


def alike(targets: Sequence[Target]) -> None:
    """What an engine reads from the environment counts for all threads of a process."""
    found: dict[str, tuple[Target, dict[str, str]]] = {}
    for target in targets:
        engine = registry.find("engines", target.engine)
        wanted = dict(engine.environment(target)) if hasattr(engine, "environment") else {}
        first, settled = found.setdefault(target.engine, (target, wanted))
        if settled != wanted:
            raise Unsupported(
                f"{first} and {target} need {target.engine} set up in different ways, which one process cannot be",
                "leave out workers=threads",
            )


class PartThread(Worker):
    """Told and asked through pipes, as a process is. An engine computes without the interpreter's lock, so that several
    do at once; but a crash takes all of them, and one that hangs cannot be ended, only given up."""

    def __init__(
        self, model: Model, target: Target, memory: Sequence[int], cores: Sequence[int] = (), seed: int = 0
    ) -> None:
        read_fd, own_write_fd = os.pipe()
        own_read_fd, write_fd = os.pipe()
        super().__init__(str(target), own_write_fd, own_read_fd)
        self.target, self._memory = target, tuple(memory)
        # Whoever gives it up must know that it writes no answer any more: the slot may be another's by then.
        self._writing, self._given_up = threading.Lock(), False
        self._executable: Executable | None = None
        self._thread = threading.Thread(target=self._serve, args=(read_fd, write_fd), name=str(target), daemon=True)
        self._thread.start()
        self.tell({"model": to_json(model), "target": str(target), "cores": list(cores or target.cores), "seed": seed})

    def _serve(self, read_fd: int, write_fd: int) -> None:
        # Nobody may be listening any more.
        with suppress(OSError), open(read_fd, "rb") as requests:
            answer(requests, write_fd, self._attach, affinity.pin_thread, lambda: None)
        if self._executable is not None:
            self._executable.close()
        os.close(write_fd)

    def _attach(
        self, executable: Executable, inputs: list[Any], outputs: list[Any], slots: int
    ) -> list[Callable[[], object]]:
        self._executable = executable
        taken = Slots(self._memory[0], [from_json(Form, each) for each in inputs], slots)
        given = Slots(self._memory[1], [from_json(Form, each) for each in outputs], slots)
        return [partial(self._copied, executable, taken[slot], given[slot]) for slot in range(slots)]

    def _copied(self, executable: Executable, inputs: dict[str, Array], outputs: dict[str, Array]) -> None:
        made = executable.run(inputs)
        with self._writing:
            if self._given_up:
                raise EngineFailure(f"{self.target} came back when nobody waited for it any more")
            fill(outputs, made)

    def kill(self) -> None:
        with self._writing:
            self._given_up = True

    def died(self) -> EdgewiseError:
        said = self._last_words()
        return self.told(said) if said is not None else EngineFailure(f"the thread of {self.what} has ended")

    def close(self) -> None:
        """Closing its pipe is how it is told to leave; one that hangs stays until the process ends."""
        self.kill()
        for fd in (self._write_fd, self.answers_fd):
            os.close(fd)
        self._thread.join(_FAREWELL_S)
