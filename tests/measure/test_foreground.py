"""A task with deadlines beside something else."""

from __future__ import annotations

import os
import signal
import time

import pytest

from edgewise.core.errors import EngineFailure
from edgewise.measure.foreground import Foreground


def test_it_counts_periods_and_misses_all_of_them_where_it_is_stopped() -> None:
    with Foreground(100.0, 0.05) as task:
        time.sleep(0.3)
        some = task.dropped()
        assert some is not None
        os.kill(task.pid, signal.SIGSTOP)
        time.sleep(1.0)
        os.kill(task.pid, signal.SIGCONT)
        time.sleep(0.05)
        stopped = task.dropped()
        assert stopped is not None
        assert stopped > max(some, 0.5)


def test_one_that_dies_is_told() -> None:
    with Foreground(100.0, 0.05) as task:
        os.kill(task.pid, signal.SIGKILL)
        with pytest.raises(EngineFailure, match="foreground task died"):
            task.dropped()
