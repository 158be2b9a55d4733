"""A mix with a simulated clock: the same desk and rules as in a real run, services from a function."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Iterator, Sequence

from ...core.mix import Block, Job, Network, Served
from .desk import Desk, Rule

# What a job of a network takes on a device.
Serve = Callable[[Job, int], int]


def arrivals(networks: Sequence[Network], seconds: float, seed: int) -> list[Job]:
    """All jobs of a block, in order. Periodic ones begin at a moment of their own within the first period."""
    found: list[tuple[int, int]] = []
    for place, network in enumerate(networks):
        source = random.Random(f"{seed}-{place}")
        found += [(at, place) for at in _moments(network, source, round(seconds * 1e9))]
    found.sort()
    return [Job(number, place, at, at + networks[place].deadline_ns) for number, (at, place) in enumerate(found)]


def _moments(network: Network, source: random.Random, until_ns: int) -> Iterator[int]:
    gap_ns = 1e9 / network.rate_hz
    at = source.random() * gap_ns if network.arrivals == "periodic" else source.expovariate(1) * gap_ns
    while at < until_ns:
        yield round(at)
        at += gap_ns if network.arrivals == "periodic" else source.expovariate(1) * gap_ns


def horizon_ns(jobs: Sequence[Job]) -> int:
    """When a block is over: no job that is not begun by then can be in time."""
    return max((job.deadline_ns for job in jobs), default=0)


def simulate(
    desk: Desk,
    rule: Rule,
    jobs: Sequence[Job],
    serve: Serve,
    *,
    name: str = "",
    number: int = 0,
    dies: Sequence[tuple[int, int]] = (),
) -> Block:
    """One block. `dies` are devices with the moment each is gone."""
    over_ns = horizon_ns(jobs)
    # Kinds in the order they are looked at in one moment: who is gone, who is done, who comes.
    events = [(at, 0, place) for place, at in dies] + [(job.arrival_ns, 2, place) for place, job in enumerate(jobs)]
    heapq.heapify(events)
    running: dict[int, tuple[int, Job]] = {}
    busy_ns = [0] * len(desk.devices)
    served: list[Served] = []
    now = 0

    def begin(device: int) -> None:
        held = desk.devices[device].held
        if held and device not in running:
            running[device] = (now, held[0])
            desk.devices[device].since_ns = now
            heapq.heappush(events, (now + max(1, serve(held[0], device)), 1, device))

    while events:
        now, kind, place = heapq.heappop(events)
        if now > over_ns and not running:
            break
        if kind == 0:
            running.pop(place, None)
            desk.lose(place)
        elif kind == 2:
            desk.arrive(jobs[place])
        elif place in running:
            began, job = running.pop(place)
            desk.finish(place, now, now - began)
            busy_ns[place] += now - began
            served.append(Served(job, place, began, now))
        if now <= over_ns:
            for job, device in rule(desk, now):
                if device is None:
                    desk.drop(job)
                    served.append(Served(job, dropped=True))
                else:
                    desk.give(job, device, now)
            for device in range(len(desk.devices)):
                begin(device)
    served += [Served(job) for job in desk.clear()]
    served.sort(key=lambda each: each.job.number)
    return Block(number, name, tuple(served), tuple(busy_ns), now)
