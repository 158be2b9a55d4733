"""The timing loops: all that stands between the clock and the engine.

They run in the worker. Every loop returns raw durations in nanoseconds, one per run.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from ..core.protocols import Feeds, Outputs

Run = Callable[[Feeds], Outputs]
_clock = time.perf_counter_ns


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
    together = threading.Barrier(len(runs))
    share = -(-max_runs // len(runs))

    def work(run: Run) -> list[tuple[int, int]]:
        ended: list[tuple[int, int]] = []
        append, clock = ended.append, _clock
        together.wait()
        deadline = clock() + duration_ns
        for _ in range(share):
            begin = clock()
            run(feeds)
            end = clock()
            append((end, end - begin))
            if end >= deadline:
                break
        return ended

    with ThreadPoolExecutor(len(runs)) as pool:
        parts = list(pool.map(work, runs))
    return [duration for _, duration in sorted(pair for part in parts for pair in part)]
