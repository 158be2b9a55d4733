"""The worker process: take one call after another from the parent, answer each, leave when the parent is gone.

python -m edgewise.measure.worker PARENT READ_FD WRITE_FD REQUESTS_FD ANSWERS_FD MEMORY_BYTES
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

from ..core.errors import describe
from ..system.process import die_with_parent
from .bench import OPERATIONS, Bench
from .channel import Channel, Closed


def _limit_memory(memory_bytes: int) -> None:
    """A ceiling on data, not on address space: engines reserve far more than they use."""
    import resource

    if memory_bytes:
        resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))
    # Should the machine itself run out, this process goes before anything of the user's.
    score = Path("/proc/self/oom_score_adj")
    with suppress(OSError):
        score.write_text("1000")


def main() -> None:
    parent, read_fd, write_fd, requests_fd, answers_fd, memory_bytes = map(int, sys.argv[1:7])
    die_with_parent(parent)
    _limit_memory(memory_bytes)
    channel = Channel(read_fd, write_fd)
    bench = Bench(requests_fd, answers_fd)
    while True:
        try:
            message = channel.receive()
        except Closed:
            break
        operation = str(message["operation"])
        try:
            assert operation in OPERATIONS, operation
            reply = {"result": getattr(bench, operation)(**message["arguments"])}
        except Exception as error:  # noqa: BLE001 - the one place where foreign errors become ours
            reply = describe(error, operation)
        try:
            try:
                channel.send(reply)
            except (TypeError, ValueError) as error:  # a result that JSON cannot say; nothing of it was sent
                channel.send(describe(error, operation))
        except Closed:
            break
    # Results are in; engines' exit handlers can crash or hang, and have nothing left to say.
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
