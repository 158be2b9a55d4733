"""The steps of one target, side by side with those of others; run as a module, the process of one that is not the
first.

python -m edgewise.parallel.stages.side PARENT READ_FD WRITE_FD MEMORY_FD WAKE_FD ...

The last ones are what each target is woken by: one descriptor to read, one to write. It is ended by its parent.
"""

from __future__ import annotations

import gc
import json
import mmap
import os
import sys
from collections.abc import Sequence
from typing import Any

from ...core import registry
from ...core.errors import describe
from ...core.records import from_json
from ...core.text import parse_target
from ...core.types import Model, Target
from ...system import affinity, meters
from ...system.process import die_with_parent, take_turns_of
from ..part import say
from ..split.cut import Step
from ..split.run import TURN_NS, Clock, Part, follow

Waits = Sequence[Sequence[Sequence[int]]]


class Side(Part):
    """`waits` has, for each step, the others and how many of their steps must be done."""

    def __init__(self, steps: Sequence[Step], waits: Waits, target: Target, model: Model, shared: Any) -> None:
        engine = registry.find("engines", target.engine)
        if hasattr(engine, "environment"):
            os.environ.update(engine.environment(target))
        super().__init__(steps, target, model, shared, 0)
        self._waits = waits
        # Once before it counts: some engines read their file only then, and it will be gone.
        for run in self.runs:
            if run is not None:
                run()

    def frame(self, clock: Clock, frame: int) -> None:
        for done, (run, waits) in enumerate(zip(self.runs, self._waits, strict=True), 1):
            for other, upto in waits:
                clock.wait(other, frame, upto)
            if run is not None:
                run()
            clock.move(frame, done)
        clock.adapt()


def main() -> None:
    parent, read_fd, write_fd, memory_fd, *wake_fds = map(int, sys.argv[1:])
    die_with_parent(parent)
    with open(read_fd, "rb", buffering=0, closefd=False) as requests:
        doing = "open"
        try:
            asked: dict[str, Any] = json.loads(requests.readline())
            if asked["cores"]:
                affinity.pin(tuple(asked["cores"]))
            take_turns_of(TURN_NS)
            memory = mmap.mmap(memory_fd, 0)
            pipes = list(zip(wake_fds[::2], wake_fds[1::2], strict=True))
            clock = Clock(memory, asked["clock"], asked["part"], pipes, _no_matter)
            steps = [from_json(Step, each) for each in asked["steps"]]
            target, model = parse_target(asked["target"]), from_json(Model, asked["model"])
            own = Side(steps, asked["waits"], target, model, memory)
            say(write_fd, {"peak_bytes": meters.peak_bytes()})
            doing = "run"
            gc.collect()
            gc.disable()
            follow({0: own}, clock)
        except Exception as error:  # noqa: BLE001 - whatever an engine raises is told to the parent
            say(write_fd, describe(error, doing))
            os._exit(1)


def _no_matter() -> None:
    """The kernel ends this process with its parent: nobody needs to be asked."""


if __name__ == "__main__":
    main()
