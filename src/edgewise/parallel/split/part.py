"""The process of a part that is not the first.

python -m edgewise.parallel.split.part PARENT READ_FD WRITE_FD MEMORY_FD WAKE_FD ...

The last ones are what each part is woken by: one descriptor to read, one to write. It is ended by its parent.
"""

from __future__ import annotations

import gc
import json
import mmap
import os
import sys
from typing import Any

from ...core import registry
from ...core.errors import describe
from ...core.records import from_json
from ...core.text import parse_target
from ...core.types import Model
from ...system import affinity, meters
from ...system.process import die_with_parent
from ..part import say
from .cut import Step
from .run import Clock, Part, follow


def main() -> None:
    parent, read_fd, write_fd, memory_fd, *wake_fds = map(int, sys.argv[1:])
    die_with_parent(parent)
    with open(read_fd, "rb", buffering=0, closefd=False) as requests:
        doing = "open"
        try:
            asked: dict[str, Any] = json.loads(requests.readline())
            if asked["cores"]:
                affinity.pin(tuple(asked["cores"]))
            target = parse_target(asked["target"])
            engine = registry.find("engines", target.engine)
            if hasattr(engine, "environment"):
                os.environ.update(engine.environment(target))
            memory = mmap.mmap(memory_fd, 0)
            pipes = list(zip(wake_fds[::2], wake_fds[1::2], strict=True))
            clock = Clock(memory, asked["clock"], asked["part"], pipes, _no_matter)
            steps = [from_json(Step, each) for each in asked["steps"]]
            own = Part(steps, target, from_json(Model, asked["model"]), memory, asked["private_bytes"])
            say(write_fd, {"peak_bytes": meters.peak_bytes()})
            doing = "run"
            gc.collect()
            gc.disable()
            follow(own, clock, asked["part"])
        except Exception as error:  # noqa: BLE001 - whatever an engine raises is told to the parent
            say(write_fd, describe(error, doing))
            os._exit(1)


def _no_matter() -> None:
    """The kernel ends this process with its parent: nobody needs to be asked."""


if __name__ == "__main__":
    main()
