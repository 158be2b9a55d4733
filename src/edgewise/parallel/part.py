"""The process of one part: an engine with its own copy of a model, told which slots to work on.

python -m edgewise.parallel.part PARENT READ_FD WRITE_FD INPUTS_FD OUTPUTS_FD

First come two lines of JSON, each answered by one: the model and the target; then how many slots there are, and their
forms. From then on it is numbers: a count and so many slots, answered by when the work on them began and ended.
"""

from __future__ import annotations

import gc
import json
import os
import struct
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, BinaryIO

from ..core import registry
from ..core.errors import describe
from ..core.protocols import Array, Executable, Reports
from ..core.records import from_json, to_json
from ..core.text import parse_target
from ..core.types import Model, Target
from ..model import feeds
from ..system import affinity, meters
from ..system.process import die_with_parent
from .memory import Form, Slots, fill
from .opening import opened, settle

COUNT = struct.Struct("<I")
ANSWER = struct.Struct("<qq")
# How often a frame is tried before the stream begins.
_TRIALS = 5
# In the place of when work began: a line of JSON follows that says what went wrong.
FAILED = -1


# What makes of an executable, the descriptors handed on and what was said of the slots a run for each of them.
Attach = Callable[..., list[Callable[[], object]]]


def main() -> None:
    serve(_attach)


def serve(attach: Attach) -> None:
    parent, read_fd, write_fd, *memory_fds = map(int, sys.argv[1:])
    die_with_parent(parent)
    with open(read_fd, "rb", closefd=False) as requests:
        well = answer(requests, write_fd, lambda *made, **said: attach(*made, *memory_fds, **said), affinity.pin, _calm)
    os._exit(0 if well else 1)


def _calm() -> None:
    """Nothing but runs from here on: the cycle collector would only add its pauses."""
    gc.collect()
    gc.disable()


def answer(
    requests: BinaryIO,
    write_fd: int,
    attach: Attach,
    pin: Callable[[tuple[int, ...]], None],
    begin: Callable[[], None],
) -> bool:
    """All that is asked, from the model to the last slot; whether nothing went wrong."""
    doing = "open"
    try:
        asked = json.loads(requests.readline())
        if asked["cores"]:
            pin(tuple(asked["cores"]))
        executable, said = _open(from_json(Model, asked["model"]), parse_target(asked["target"]), asked["seed"])
        say(write_fd, said)
        doing = "attach"
        runs = attach(executable, **json.loads(requests.readline()))
        say(write_fd, {})
        doing = "run"
        begin()
        _work(runs, requests, write_fd)
    except Exception as error:  # noqa: BLE001 - whatever an engine raises is told to the parent
        if doing == "run":
            os.write(write_fd, ANSWER.pack(FAILED, 0))
        say(write_fd, describe(error, doing))
        return False
    return True


def say(fd: int, message: dict[str, Any]) -> None:
    data = json.dumps(message).encode() + b"\n"
    while data:
        data = data[os.write(fd, data) :]


def _open(subject: Model, place: Target, seed: int) -> tuple[Executable, dict[str, Any]]:
    """Load and run once, on seeded noise: what comes out tells the form of the outputs."""
    settle(place)
    registry.find("engines", place.engine).version()
    shapes = {t.name: tuple(d for d in t.shape or () if isinstance(d, int)) for t in subject.inputs}
    noise = feeds.feeds(subject, shapes, seed)
    begin = time.perf_counter_ns()
    executable = opened(subject, place)
    loaded = time.perf_counter_ns()
    outputs = executable.run(noise)
    frame_ns = _steady_ns(lambda: executable.run(noise))
    ran = executable.ran() if isinstance(executable, Reports) else None
    return executable, {
        "inputs": to_json(Form.of(noise)),
        "outputs": to_json(Form.of(outputs)),
        "load_ns": loaded - begin,
        "frame_ns": frame_ns,
        "peak_bytes": meters.peak_bytes(),
        "ran": to_json(ran),
    }


def _steady_ns(run: Callable[[], object]) -> int:
    """What a frame takes: the first ones take many times as long on some devices, so it is the least of some."""
    took = []
    for _ in range(_TRIALS):
        begin = time.perf_counter_ns()
        run()
        took.append(time.perf_counter_ns() - begin)
    return min(took)


def _attach(
    executable: Executable, inputs_fd: int, outputs_fd: int, inputs: list[Any], outputs: list[Any], slots: int
) -> list[Callable[[], object]]:
    taken = Slots(inputs_fd, [from_json(Form, each) for each in inputs], slots)
    given = Slots(outputs_fd, [from_json(Form, each) for each in outputs], slots)
    return [partial(_copied, executable, taken[slot], given[slot]) for slot in range(slots)]


def _copied(executable: Executable, inputs: dict[str, Array], outputs: dict[str, Array]) -> None:
    fill(outputs, executable.run(inputs))


def _work(runs: Sequence[Callable[[], object]], requests: BinaryIO, write_fd: int) -> None:
    clock = time.perf_counter_ns
    while head := requests.read(COUNT.size):
        (count,) = COUNT.unpack(head)
        numbers = requests.read(COUNT.size * count)
        begin = clock()
        for (slot,) in COUNT.iter_unpack(numbers):
            runs[slot]()
        os.write(write_fd, ANSWER.pack(begin, clock()))


if __name__ == "__main__":
    main()
