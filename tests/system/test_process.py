"""What a process asks of the kernel for itself."""

from __future__ import annotations

import os
import sys
import threading

import pytest

from edgewise.system.process import take_turns_of


@pytest.mark.skipif(sys.platform != "linux", reason="turns are asked for on Linux only")
def test_asking_for_short_turns_changes_nothing_else() -> None:
    found = []

    def ask() -> None:
        before = (os.sched_getscheduler(0), os.getpriority(os.PRIO_PROCESS, 0), os.sched_getaffinity(0))
        granted = take_turns_of(1_000_000)
        after = (os.sched_getscheduler(0), os.getpriority(os.PRIO_PROCESS, 0), os.sched_getaffinity(0))
        found.append((granted, before == after))

    # Of a thread's own, so that the others go on as they are.
    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    # A kernel may refuse; it may not do half of it.
    assert found in ([(True, True)], [(False, True)])


@pytest.mark.skipif(sys.platform != "linux", reason="turns are asked for on Linux only")
def test_where_the_kernel_is_not_known_nothing_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "something else")
    assert take_turns_of(1_000_000) is False
