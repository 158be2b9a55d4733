"""Random mixes of networks with deadlines, and what their runs take in simulation."""

from __future__ import annotations

import random
from bisect import bisect
from collections.abc import Callable

from edgewise.core.mix import Job, Network

MS = 1_000_000
Expected = list[list[float | None]]
Serve = Callable[[Job, int], int]


def random_mix(seed: int) -> tuple[list[Network], Expected]:
    """Two to four devices up to six times apart, two to five networks, from a third to 1.4 times what they can do."""
    source = random.Random(seed)
    speeds = [1.0, *(2 ** source.uniform(0, 2.5) for _ in range(source.choice([1, 1, 2, 3])))]
    asked, count = source.uniform(0.3, 1.4), source.choice([2, 3, 4, 5])
    shares = [source.uniform(0.3, 1) for _ in range(count)]
    networks, expected = [], []
    for place in range(count):
        base = 2 * MS * 20 ** source.random()
        row: list[float | None] = [base * speed * 2 ** source.uniform(-0.5, 0.5) for speed in speeds]
        row = [ns if device == 0 or source.random() > 0.1 else None for device, ns in enumerate(row)]
        able = [ns for ns in row if ns is not None]
        rate = asked * shares[place] / sum(shares) * sum(1e9 / ns for ns in able)
        deadline = round(min(able) * source.uniform(1.3, 6))
        networks.append(Network(f"n{place}", "", rate, deadline, "poisson" if source.random() < 0.5 else "periodic"))
        expected.append(row)
    return networks, expected


def scattered(expected: Expected, seed: int, spread: float = 0.2) -> Serve:
    """Every run by itself: what is expected, times a lognormal of this deviation."""

    def serve(job: Job, device: int) -> int:
        ns = expected[job.network][device]
        assert ns is not None, "a device was given what it cannot run"
        return round(ns * random.Random(f"{seed}-{job.number}-{device}").lognormvariate(0, spread))

    return serve


def in_phases(expected: Expected, seed: int, seconds: float) -> Serve:
    """Besides, each device is two to five times as slow for a while: 150 ms in 450 on average. Which phase a job is
    in goes by when it arrives."""
    own = scattered(expected, seed, 0.15)
    phases = []
    for device in range(len(expected[0])):
        source, at, slow = random.Random(f"{seed}-{device}"), 0.0, False
        found = list[tuple[float, float]]()
        while at < (seconds + 1) * 1e9:
            found.append((at, source.uniform(2, 5) if slow else 1.0))
            at += source.expovariate(1) * (150 if slow else 300) * MS
            slow = not slow
        phases.append(found)

    def serve(job: Job, device: int) -> int:
        _, factor = phases[device][bisect(phases[device], (job.arrival_ns, 0.0)) - 1]
        return round(own(job, device) * factor)

    return serve
