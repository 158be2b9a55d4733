"""Is the simulation right? The same dealing with real processes, whose engine does nothing but sleep.

What each takes alone is measured, and simulated from that; beside it stands what really came out. No goal: what is
compared is a clock that is made up with one that is shared with others.
"""

from __future__ import annotations

import argparse
import json
import time
from itertools import repeat

from _goal import say
from deal import independent, noise, opened
from edgewise.core.types import Failure, Scenario
from edgewise.parallel.simulate.stream import Worker, simulate
from edgewise.study.prepare import Limits
from edgewise.study.request import request

CASES = ((10, 10), (5, 20), (6, 9, 25), (4, 8, 16, 32))
FRAMES = 1500
# About what sleeping varies by; what is simulated hardly depends on it.
JITTER = 0.03


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--frames", type=int, default=FRAMES)
    frames = parser.parse_args().frames
    rows = []
    for latencies_ms in CASES:
        targets = ", ".join(f"null:cpu@1{{latency={ms}ms,wait=sleep}}" for ms in latencies_ms)
        (cell,) = request(("tiny",), (f"deal({targets})",), (1,), [Scenario()], Limits(), several=True).cells()
        assert not isinstance(cell, Failure), cell
        frame, deal = noise(cell.model), opened(cell)
        try:
            before = [independent(deal, [who], 1.0)[0] for who in range(len(latencies_ms))]
            shares, delays, begin = [0] * len(before), [], time.perf_counter_ns()
            for out in deal.stream(repeat(frame, frames)):
                shares[out.who] += 1
                delays.append(out.delay_ns)
            per_s = frames * 1e9 / (time.perf_counter_ns() - begin)
            # Before and after, since others use the machine too.
            after = [independent(deal, [who], 1.0)[0] for who in range(len(latencies_ms))]
        finally:
            deal.close()
        workers = [Worker(str(ms), 2e9 / (a + b)) for ms, a, b in zip(latencies_ms, before, after, strict=True)]
        made = simulate(workers, frames, jitter=JITTER)
        p95_ns = sorted(delays[2 * made.window :])[int(0.95 * (frames - 2 * made.window))]
        row = {
            "latencies_ms": latencies_ms,
            "real_per_s": per_s,
            "simulated_over_real": made.per_s / per_s,
            "share_difference": max(abs(made.share(who) - count / frames) for who, count in enumerate(shares)),
            "delay_p95_simulated_over_real": made.delay_ns(0.95) / p95_ns,
        }
        say(", ".join(f"{key} {value:.3f}" if isinstance(value, float) else f"{value}" for key, value in row.items()))
        rows.append(row)
    print(json.dumps({"cases": rows}))


if __name__ == "__main__":
    main()
