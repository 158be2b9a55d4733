"""The server scenario: requests arrive on their own schedule, latency counts from when they were meant to arrive.

The load generator lives in the parent, the engine in the worker, so that a busy engine cannot delay the next
arrival (coordinated omission). A request is eight bytes on a pipe, its number; the worker's threads take them from
there and answer with when each run began and ended. Both sides read the same monotonic clock.
"""

from __future__ import annotations

import os
import random
import select
import struct
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from ..core.protocols import Feeds
from .loop import Run

_REQUEST = struct.Struct("<q")
_ANSWER = struct.Struct("<qqq")
_STOP = -1
_PATIENCE_S = 0.2
# Writes up to this size to a pipe are atomic (POSIX), so records of several threads never mix.
assert _ANSWER.size <= 512

Answer = tuple[int, int, int]


def answer_requests(runs: Sequence[Run], feeds: Feeds, requests_fd: int, answers_fd: int) -> None:
    """Worker side: serve until told to stop."""

    def serve(run: Run) -> None:
        clock = time.perf_counter_ns
        try:
            while True:
                record = os.read(requests_fd, _REQUEST.size)
                if len(record) < _REQUEST.size:
                    return
                (number,) = _REQUEST.unpack(record)
                if number == _STOP:
                    return
                begin = clock()
                run(feeds)
                os.write(answers_fd, _ANSWER.pack(number, begin, clock()))
        except Exception:
            # Tell the parent to stop waiting for answers; the reason goes the ordinary way.
            os.write(answers_fd, _ANSWER.pack(_STOP, 0, 0))
            raise

    with ThreadPoolExecutor(len(runs)) as pool:
        list(pool.map(serve, runs))


def poisson(rate_hz: float, seed: int) -> Iterator[int]:
    """Intended arrival times in nanoseconds from the start."""
    source, at = random.Random(seed), 0.0
    while True:
        at += source.expovariate(rate_hz)
        yield round(at * 1e9)


class Generator:
    """Parent side: sends requests at their intended times from a thread of its own."""

    def __init__(self, arrivals: Iterator[int], requests_fd: int, streams: int) -> None:
        self._arrivals = arrivals
        self._fd = requests_fd
        self._streams = streams
        self._stop = threading.Event()
        self.intended: list[int] = []
        self.late: list[int] = []
        self._thread = threading.Thread(target=self._send, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def _send(self) -> None:
        begin = time.perf_counter_ns()
        for number, offset in enumerate(self._arrivals):
            at = begin + offset
            wait = (at - time.perf_counter_ns()) / 1e9
            if self._stop.wait(max(wait, 0)):
                return
            # The intended time is kept before sending: an answer may come back at once.
            self.intended.append(at)
            self.late.append(max(0, time.perf_counter_ns() - at))
            try:
                while not self._write(number):
                    if self._stop.is_set():
                        # Never sent, so nobody will answer it.
                        del self.intended[number:], self.late[number:]
                        return
            except OSError:
                return

    def _write(self, number: int) -> bool:
        """False where the pipe stayed full: the worker is thousands of requests behind, or hangs."""
        if not select.select([], [self._fd], [], _PATIENCE_S)[1]:
            return False
        os.write(self._fd, _REQUEST.pack(number))
        return True

    def stop(self) -> None:
        """No more requests; those already sent are still answered, then the worker's threads end."""
        self._stop.set()
        self._thread.join()
        self.end()

    def end(self) -> None:
        """Tell each of the worker's threads, once, that there will be no more; again where there was no room for it.

        A worker that died is not told: who waits for its answers finds out.
        """
        with suppress(BrokenPipeError):
            while self._streams and self._write(_STOP):
                self._streams -= 1


def read_answers(answers_fd: int, wait: Callable[[float], bool], until_ns: int) -> tuple[list[Answer], bool]:
    """Answers that come in before `until_ns`, and whether the worker is still serving."""
    answers: list[Answer] = []
    while (left := (until_ns - time.perf_counter_ns()) / 1e9) > 0:
        if not wait(left):
            break
        data = os.read(answers_fd, _ANSWER.size * 256)
        if not data:
            return answers, False
        for answer in _ANSWER.iter_unpack(data):
            if answer[0] == _STOP:
                return answers, False
            answers.append(answer)
    return answers, True
