"""The process of a part that is not the first.

python -m edgewise.parallel.split.part PARENT READ_FD WRITE_FD MEMORY_FD LOCK_FD WAKE_FD ...

The last ones are what each part is woken by: one descriptor to read, one to write. A line of JSON says who it is; each
further one has a way to load, answered when that is done, or one to forget. Frames go on meanwhile. It is ended by its
parent.
"""

from __future__ import annotations

import gc
import json
import mmap
import os
import sys
import threading
from typing import Any, BinaryIO

import numpy as np

from ...core.errors import describe
from ...core.records import from_json
from ...core.text import parse_target
from ...core.types import Model
from ...system import affinity, meters
from ...system.process import die_with_parent, take_turns_of
from ..opening import settle
from ..part import say
from .cover import Board, Covering
from .cut import Step
from .run import TURN_NS, Clock, Part, Works, follow


def main() -> None:
    parent, read_fd, write_fd, memory_fd, lock_fd, *wake_fds = map(int, sys.argv[1:])
    die_with_parent(parent)
    with open(read_fd, "rb", closefd=False) as requests:
        doing = "open"
        try:
            asked: dict[str, Any] = json.loads(requests.readline())
            if asked["cores"]:
                affinity.pin(tuple(asked["cores"]))
            target = parse_target(asked["target"])
            settle(target)
            take_turns_of(TURN_NS)
            pipes = list(zip(wake_fds[::2], wake_fds[1::2], strict=True))
            clock = Clock(mmap.mmap(memory_fd, asked["clock"]), 0, asked["part"], pipes, _no_matter)
            fds = (memory_fd, lock_fd, write_fd)
            ways: dict[int, Works] = {}
            _obey(requests.readline(), ways, asked, fds)
            doing = "run"
            threading.Thread(target=_listen, args=(requests, ways, asked, fds), daemon=True).start()
            gc.collect()
            gc.disable()
            follow(ways, clock)
        except Exception as error:  # noqa: BLE001 - whatever an engine raises is told to the parent
            say(write_fd, describe(error, doing))
            os._exit(1)


def _listen(requests: BinaryIO, ways: dict[int, Works], asked: dict[str, Any], fds: tuple[int, int, int]) -> None:
    """Loads while the other thread works on frames. What cannot be loaded is no reason to stop."""
    while line := requests.readline():
        try:
            _obey(line, ways, asked, fds)
        except Exception as error:  # noqa: BLE001 - whatever an engine raises is told to the parent
            say(fds[2], describe(error, "load") | {"way": json.loads(line).get("way")})


def _obey(line: bytes, ways: dict[int, Works], asked: dict[str, Any], fds: tuple[int, int, int]) -> None:
    told: dict[str, Any] = json.loads(line)
    if "forget" in told:
        if (old := ways.pop(told["forget"], None)) is not None:
            old.close()
        return
    memory_fd, lock_fd, write_fd = fds
    model, target = from_json(Model, asked["model"]), parse_target(told["target"])
    covered = told["board"] is not None
    rows = [[from_json(Step, each) for each in row] for row in (told["steps"] if covered else [told["steps"]])]
    if any(step.path for row in rows for step in row):
        memory = mmap.mmap(memory_fd, told["bytes"], offset=told["at"])
        gently, number = told["gently"], told["way"]
        if covered:
            board, leads = Board(memory, told["board"], len(rows[0]), len(rows), lock_fd), told["leads"]
            ways[number] = Covering(rows, target, model, memory, board, asked["part"], leads=leads, gently=gently)
        else:
            own, others = told["private_bytes"], told["others"]
            busy = np.frombuffer(memory, np.int64, len(rows[0]), told["busy"])
            ways[number] = Part(rows[0], target, model, memory, own, busy, others, gently=gently)
    say(write_fd, {"way": told["way"], "peak_bytes": meters.peak_bytes()})


def _no_matter() -> None:
    """The kernel ends this process with its parent: nobody needs to be asked."""


if __name__ == "__main__":
    main()
