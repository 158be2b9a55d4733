"""A process in which pieces of a model are tried on one target, one after another.

python -m edgewise.parallel.stages.trial PARENT READ_FD WRITE_FD

The first line of JSON says target and cores. Every further one is answered: a piece by what its runs took, a number of
bytes by what copying so many took.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

import numpy as np

from ...core import registry
from ...core.errors import describe
from ...core.protocols import Executable
from ...core.records import from_json
from ...core.text import parse_target
from ...core.types import Model
from ...model import feeds
from ...system import affinity
from ...system.process import die_with_parent
from ..opening import opened
from ..part import say

_WARMUP = 2
_RUNS = 5
# Slow pieces are run less often: a trial is over soon, or was run three times in all.
_ENOUGH_NS = 500_000_000
_LEAST_RUNS = 3


def main() -> None:
    parent, read_fd, write_fd = map(int, sys.argv[1:])
    die_with_parent(parent)
    with open(read_fd, "rb", closefd=False) as requests:
        first = json.loads(requests.readline())
        if first["cores"]:
            affinity.pin(tuple(first["cores"]))
        target = parse_target(first["target"])
        engine = registry.find("engines", target.engine)
        if hasattr(engine, "environment"):
            os.environ.update(engine.environment(target))
        for line in requests:
            asked: dict[str, Any] = json.loads(line)
            if "copy" in asked:
                say(write_fd, {"ns": _copy(asked["copy"])})
                continue
            try:
                model = from_json(Model, asked["model"])
                executable = opened(model, target)
                try:
                    say(write_fd, {"samples_ns": _samples(executable, model)})
                finally:
                    executable.close()
            except Exception as error:  # noqa: BLE001 - whatever an engine raises is an answer
                say(write_fd, describe(error, "try"))
    os._exit(0)


def _samples(executable: Executable, model: Model) -> list[int]:
    shapes = {t.name: tuple(d for d in t.shape or () if isinstance(d, int)) for t in model.inputs}
    noise = feeds.feeds(model, shapes)
    samples: list[int] = []
    begun = time.perf_counter_ns()
    while len(samples) < _WARMUP + _RUNS:
        begin = time.perf_counter_ns()
        executable.run(noise)
        end = time.perf_counter_ns()
        samples.append(end - begin)
        if end - begun > _ENOUGH_NS and len(samples) >= _LEAST_RUNS:
            break
    return samples[min(_WARMUP, len(samples) - 1) :]


def _copy(size: int) -> int:
    """The least of a few: what somebody else took meanwhile is not the copy's."""
    source, into = np.zeros(size, np.uint8), np.zeros(size, np.uint8)
    taken = []
    for _ in range(_WARMUP + _RUNS):
        begin = time.perf_counter_ns()
        np.copyto(into, source)
        taken.append(time.perf_counter_ns() - begin)
    return min(taken)


if __name__ == "__main__":
    main()
