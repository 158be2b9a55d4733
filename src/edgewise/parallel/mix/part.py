"""The process of one target: an engine with every network of the mix in it, told which to run.

python -m edgewise.parallel.mix.part PARENT READ_FD WRITE_FD INPUTS_FD ... OUTPUTS_FD ...

The last are one descriptor for each network's inputs, then one for each network's outputs. First comes a line of JSON
with all networks, answered by one for each; then one that says which of them stay. From then on it is numbers: a
network, answered by when its run began and ended.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import signal
import sys
import time
from typing import Any, BinaryIO

from ...core import registry
from ...core.errors import describe
from ...core.protocols import Executable
from ...core.records import from_json, to_json
from ...core.text import parse_target
from ...core.types import Model
from ...model import feeds
from ...system import affinity
from ...system.process import die_with_parent
from ..memory import Form, Slots, fill
from ..part import ANSWER, COUNT, FAILED, say

Forms = tuple[tuple[Form, ...], tuple[Form, ...]]


def main() -> None:
    parent, read_fd, write_fd, *handed = map(int, sys.argv[1:])
    die_with_parent(parent)
    # Whoever stops the parent from the keyboard reaches this process too; what happens then is the parent's to say.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with open(read_fd, "rb", closefd=False) as requests:
        doing = "open"
        try:
            opened = _open(write_fd, **json.loads(requests.readline()))
            stay = json.loads(requests.readline())["stay"]
            count = len(handed) // 2
            work = {
                network: (
                    opened[network][0],
                    Slots(handed[network], opened[network][1][0], 1),
                    Slots(handed[count + network], opened[network][1][1], 1),
                )
                for network in stay
            }
            say(write_fd, {})
            doing = "run"
            # Nothing but runs from here on: the cycle collector would only add its pauses.
            gc.collect()
            gc.disable()
            _work(work, requests, write_fd)
        except Exception as error:  # noqa: BLE001 - whatever an engine raises is told to the parent
            if doing == "run":
                os.write(write_fd, ANSWER.pack(FAILED, 0))
            say(write_fd, describe(error, doing))
            os._exit(1)
    os._exit(0)


def _open(
    write_fd: int, networks: list[dict[str, Any] | None], cores: list[int], seed: int, memory_bytes: int | None
) -> dict[int, tuple[Executable, Forms]]:
    """Load each network and run it; one that cannot be loaded is told of, and the others stay."""
    if cores:
        affinity.pin(tuple(cores))
    if memory_bytes:
        resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))
    opened = {}
    for network, asked in enumerate(networks):
        if asked is None:
            continue
        try:
            model, target = from_json(Model, asked["model"]), parse_target(asked["target"])
            engine = registry.find("engines", target.engine)
            if hasattr(engine, "environment"):
                os.environ.update(engine.environment(target))
            engine.version()
            noise = made_up(model, seed)
            executable: Executable = engine.load(model, target)
            forms = Form.of(noise), Form.of(executable.run(noise))
            executable.run(noise)
        except Exception as error:  # noqa: BLE001 - told to the parent, who has others for this network
            say(write_fd, describe(error, "load"))
            continue
        opened[network] = (executable, forms)
        say(write_fd, {"inputs": to_json(forms[0]), "outputs": to_json(forms[1])})
    return opened


def made_up(model: Model, seed: int) -> feeds.Arrays:
    """Seeded noise in the sizes that the model has been fixed at."""
    return feeds.feeds(
        model, {t.name: tuple(d for d in t.shape or () if isinstance(d, int)) for t in model.inputs}, seed
    )


def _work(work: dict[int, tuple[Executable, Slots, Slots]], requests: BinaryIO, write_fd: int) -> None:
    clock = time.perf_counter_ns
    while head := requests.read(COUNT.size):
        (network,) = COUNT.unpack(head)
        executable, inputs, outputs = work[network]
        begin = clock()
        fill(outputs[0], executable.run(inputs[0]))
        os.write(write_fd, ANSWER.pack(begin, clock()))


if __name__ == "__main__":
    main()
