"""The timing loops: all that stands between the clock and the engine.

They run in the worker. Every loop returns raw durations in nanoseconds, one per run.
"""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from ..core.protocols import Feeds, Outputs

Run = Callable[[Feeds], Outputs]
_clock = time.perf_counter_ns


@contextmanager
def no_collector() -> Iterator[None]:
    """Python's cycle collector would add its own pauses to the engine's."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def one_by_one(run: Run, feeds: Feeds, duration_ns: int, max_runs: int) -> list[int]:
    """Run after run until `duration_ns` have passed or `max_runs` are done; at least one."""
    samples: list[int] = []
    append, clock = samples.append, _clock
    deadline = clock() + duration_ns
    for _ in range(max_runs):
        begin = clock()
        run(feeds)
        end = clock()
        append(end - begin)
        if end >= deadline:
            break
    return samples


def side_by_side(runs: Sequence[Run], feeds: Feeds, duration_ns: int, max_runs: int) -> list[int]:
    """Each of `runs` in a thread of its own, together; samples in the order in which they ended."""
    ended: list[tuple[int, int]] = []
    errors: list[BaseException] = []
    barrier = threading.Barrier(len(runs))
    share = -(-max_runs // len(runs))

    def worker(run: Run) -> None:
        try:
            barrier.wait()
            clock, own = _clock, []
            deadline = clock() + duration_ns
            for _ in range(share):
                begin = clock()
                run(feeds)
                end = clock()
                own.append((end, end - begin))
                if end >= deadline:
                    break
            ended.extend(own)
        except BaseException as error:
            errors.append(error)
            barrier.abort()

    threads = [threading.Thread(target=worker, args=(run,)) for run in runs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise next((e for e in errors if not isinstance(e, threading.BrokenBarrierError)), errors[0])
    return [duration for _, duration in sorted(ended)]
