"""A foreground task beside something else: work due many times a second, and how often it is late.

It stands in for what draws a screen: each period it computes for a part of it, and a period in which it does not get
done in time is a frame dropped. `python -m edgewise.measure.foreground RATE SHARE PARENT` says a line of JSON for each
line it reads: how many periods there were since the last, and how many were missed.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from types import TracebackType
from typing import Self

from ..core.errors import EngineFailure

# What a foreground task computes of each period.
SHARE = 0.3


class Foreground:
    """The task, running; `dropped` asks it."""

    def __init__(self, rate_hz: float, share: float = SHARE) -> None:
        self._command = [
            *(sys.executable, "-P", "-m", "edgewise.measure.foreground"),
            *(str(rate_hz), str(share), str(os.getpid())),
        ]

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, process_group=0, text=True
        )
        self.dropped()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()

    @property
    def pid(self) -> int:
        return self._process.pid

    def dropped(self) -> float | None:
        """The share of periods missed since it was last asked; None where there was none."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write("?\n")
            self._process.stdin.flush()
            said = self._process.stdout.readline()
        except BrokenPipeError:
            said = ""
        if not said:
            raise EngineFailure("the foreground task died")
        periods, missed = json.loads(said)
        return missed / periods if periods else None


def _turns(share_ns: int) -> int:
    """How many turns of a small loop take this long here when nothing is beside it: the least of several tries."""
    count, least = 20_000, None
    for _ in range(10):
        begin = time.perf_counter_ns()
        _compute(count)
        took = time.perf_counter_ns() - begin
        least = took if least is None else min(least, took)
    assert least is not None
    return max(1, round(count * share_ns / least))


def _compute(turns: int) -> float:
    value = 0.0
    for _ in range(turns):
        value = value * 0.5 + 1.0
    return value


def main() -> None:
    from ..system.process import die_with_parent

    rate_hz, share, parent = float(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
    die_with_parent(parent)
    period_ns = round(1e9 / rate_hz)
    turns = _turns(round(period_ns * share))
    periods = missed = 0
    due = time.perf_counter_ns() + period_ns
    while True:
        _compute(turns)
        periods += 1
        now = time.perf_counter_ns()
        if now > due:
            # Late by whole periods: all of those are frames that were never drawn.
            late = 1 + (now - due) // period_ns
            missed, periods = missed + late, periods + late - 1
            due += late * period_ns
        while (left := due - time.perf_counter_ns()) > 0:
            if select.select([sys.stdin], [], [], left / 1e9)[0]:
                if not sys.stdin.readline():
                    return
                sys.stdout.write(json.dumps([periods, missed]) + "\n")
                sys.stdout.flush()
                periods = missed = 0
        due += period_ns


if __name__ == "__main__":
    main()
