"""The timing loops: all that stands between the clock and the engine.

They run in the worker. Every loop returns raw durations in nanoseconds, one per run.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from ..core.protocols import Delivered, Feeds, Outputs

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


# A stream that nobody looks at for so long goes on as if it had been looked at.
_UNSEEN_NS = 50_000_000


def streamed(
    stream: Iterator[Delivered], window: int, duration_ns: int, max_runs: int, since_ns: int | None = None
) -> tuple[int, int, list[int], dict[int, int]]:
    """From when to when, the delay of each frame of a stream that neither begins nor ends here, and who did how many.

    Where it was last looked at a moment ago, at `since_ns`, it goes on from there: every frame counts, and all time.

    Later, what was under way has been finished since, at leisure; those frames are let go first, and as many again,
    until all hands are at work as they are in a stream that nobody interrupts. As answers come in bunches, it is no
    fewer than a window of them that are measured.
    """
    going_on = since_ns is not None and _clock() - since_ns < _UNSEEN_NS
    for _ in range(0 if going_on else 2 * window):
        next(stream)
    samples: list[int] = []
    shares: dict[int, int] = {}
    append, clock = samples.append, _clock
    end = begin = since_ns if going_on and since_ns is not None else clock()
    deadline = begin + duration_ns
    for _ in range(max_runs):
        frame = next(stream)
        append(frame.delay_ns)
        shares[frame.who] = shares.get(frame.who, 0) + 1
        end = clock()
        if end >= deadline and len(samples) >= window:
            break
    return begin, end, samples, shares
