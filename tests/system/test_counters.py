"""Counters count where the kernel lets them, and are None where it does not."""

from __future__ import annotations

import platform
import sys
import threading
import time

import pytest

from edgewise.system import counters
from edgewise.system.counters import TASK_CLOCK, Event, open_counters


def burn(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(1000))


def test_software_event_counts_threads_to_come():
    opened = open_counters([TASK_CLOCK])
    if opened is None:
        pytest.skip("this kernel grants no counters at all")
    with opened:
        before = opened.read()[TASK_CLOCK.name]
        thread = threading.Thread(target=burn, args=(0.1,))
        thread.start()
        thread.join()
        burn(0.1)
        grown = opened.read()[TASK_CLOCK.name] - before
    assert 150_000_000 < grown < 2_000_000_000
    assert opened.read() == {}
    opened.close()


def test_hardware_events_count_or_are_refused():
    opened = open_counters()
    if opened is None:
        pytest.skip("this kernel grants no hardware counters")
    with opened:
        burn(0.05)
        counts = opened.read()
    assert set(counts) <= {event.name for event in counters.HARDWARE}
    assert all(count > 0 for count in counts.values())


def test_refused_events_are_left_out():
    nonsense = Event("nonsense", 1, 2**40)
    assert open_counters([nonsense]) is None
    opened = open_counters([nonsense, TASK_CLOCK])
    if opened is not None:
        with opened:
            assert set(opened.read()) == {TASK_CLOCK.name}


def test_unknown_processors_and_systems_have_none(monkeypatch):
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    assert open_counters([TASK_CLOCK]) is None
    monkeypatch.undo()
    monkeypatch.setattr(sys, "platform", "darwin")
    assert open_counters([TASK_CLOCK]) is None
