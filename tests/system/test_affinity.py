"""Pinning confines every thread, is verified, and refuses with the cores that would do."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import trees

from edgewise.core.errors import InputError, Unavailable
from edgewise.system import affinity
from edgewise.system.machine import machine

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux lets a process choose its cores")


@pytest.fixture
def mask() -> Iterator[set[int]]:
    before = os.sched_getaffinity(0)
    yield before
    affinity.pin(before)


@linux
def test_pin_moves_all_threads(mask):
    core = max(mask)
    seen: list[tuple[int, ...]] = []
    pinned = threading.Event()
    thread = threading.Thread(target=lambda: (pinned.wait(10), seen.append(affinity.current())))
    thread.start()
    affinity.pin([core])
    pinned.set()
    thread.join()
    assert affinity.current() == (core,)
    assert seen == [(core,)]


@linux
@pytest.mark.parametrize("cores", [[100_000], [-1], [], [2**70], [0, 8191]])
def test_pin_refuses_with_the_cores_that_would_do(mask, cores):
    with pytest.raises(InputError, match="may use") as caught:
        affinity.pin(cores)
    assert set(map(int, caught.value.message.rpartition("use ")[2].split(", "))) >= mask
    assert os.sched_getaffinity(0) == mask


@linux
def test_a_pinned_process_may_be_pinned_elsewhere(mask):
    if len(mask) < 2:
        pytest.skip("this process has one core")
    affinity.pin([min(mask)])
    affinity.pin([max(mask)])
    assert affinity.current() == (max(mask),)


@linux
def test_pinning_does_not_change_the_machine(mask):
    before = machine()
    affinity.pin([min(mask)])
    assert machine() == before
    assert affinity.usable_cores(before) == (min(mask),)


def test_without_pinning_the_reason_is_given(monkeypatch):
    monkeypatch.delattr(os, "sched_setaffinity", raising=False)
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    with pytest.raises(Unavailable, match="does not let a process choose") as caught:
        affinity.pin([0])
    assert caught.value.hint
    assert affinity.current() == tuple(range(os.cpu_count() or 1))


def test_cluster_names_are_listed(tmp_path: Path):
    found = machine(trees.write(tmp_path, trees.hybrid()))
    assert affinity.cluster_cores(found, "e") == (4, 5, 6, 7)
    with pytest.raises(InputError, match=r"no cluster 'big'.*: p, e"):
        affinity.cluster_cores(found, "big")
