"""Our own rule: plan all that waits over all devices, allow for what is yet to come, begin what the plan begins."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from ...core.mix import Job
from .desk import Decision, Desk

# Plans that are followed up at once, and jobs that are planned for: in simulations more gain nothing.
_PLANS = 12
_JOBS = 10
# How far a run is usually from what is expected, as a share of it.
_SPREAD = 0.1
# Of arrivals that find every device taken, the share that would have been served otherwise.
_SERVED = 0.5


class _Plan(NamedTuple):
    """Jobs with their devices, in order; how many of them are expected to be in time; when each device is free."""

    hits: float
    free_ns: tuple[float, ...]
    placed: tuple[tuple[Job, int], ...] = ()
    busy_ns: float = 0.0


def latency_aware(desk: Desk, now_ns: int) -> list[Decision]:
    """Jobs in the order of their deadlines, each tried on every device behind what that holds, and left out. Of all
    such plans the one with the most expected hits is taken, less the arrivals that would find no device in time were it
    carried out; within a tenth of a hit, the one that puts more idle devices to work, then the one that takes less
    device time. Jobs that the plan puts on a device that is idle begin. So a slow device is left idle where a job would
    be late on it, and a quick one where a long job would cost more arrivals than it is worth.

    A job is dropped once no device would be done with it in time even were it free now and as quick as it has ever
    been seen there; by what is expected, nothing is. One that the plan always leaves out is dropped when that moment
    has come, and lowers what is planned with for its network, so that it is tried again.
    """
    decided: list[Decision] = []
    chances: list[Job] = []
    ways = [_ways(desk, network) for network in range(len(desk.expected))]
    for job in sorted(desk.waiting, key=lambda each: (each.deadline_ns, each.number)):
        if any(now_ns + way.least_ns <= job.deadline_ns for way in ways[job.network]):
            chances.append(job)
        else:
            decided.append((job, None))
    idle = set(desk.idle())
    if not idle or not chances:
        return decided
    for job, place in _best(desk, ways, chances[:_JOBS], idle, now_ns).placed:
        if place in idle:
            idle.remove(place)
            decided.append((job, place))
    return decided


class _Way(NamedTuple):
    """A device that serves a network, what it takes there, and the least it ever took."""

    place: int
    takes_ns: float
    least_ns: float


def _ways(desk: Desk, network: int) -> list[_Way]:
    return [_Way(each, desk.hoped(network, each), desk.least(network, each)) for each in desk.able(network)]


def _best(desk: Desk, ways: Sequence[Sequence[_Way]], jobs: Sequence[Job], idle: set[int], now_ns: int) -> _Plan:
    doors = [
        (gap_ns, [(way.place, way.takes_ns - deadline_ns) for way in own if way.takes_ns <= deadline_ns])
        for gap_ns, deadline_ns, own in zip(desk.gap_ns, desk.deadlines_ns, ways, strict=True)
        if gap_ns
    ]
    doors = [door for door in doors if door[1]]

    def worth(plan: _Plan) -> float:
        """Less arrivals that come before any device can serve them in time: at t it can where free + takes <= t +
        deadline."""
        shut_out = 0.0
        for gap_ns, own in doors:
            open_ns = min(plan.free_ns[place] + less for place, less in own) - now_ns
            if open_ns > 0:
                shut_out += open_ns / gap_ns
        return plan.hits - _SERVED * shut_out

    plans = [_Plan(0.0, tuple(desk.free_ns(place, now_ns) for place in range(len(desk.devices))))]
    for job in jobs:
        grown: dict[tuple[float, ...], _Plan] = {}
        for plan in plans:
            for option in (plan, *_with(ways[job.network], plan, job)):
                known = grown.get(option.free_ns)
                if known is None or known.hits < option.hits:
                    grown[option.free_ns] = option
        plans = list(grown.values())
        if len(plans) > _PLANS:
            plans = sorted(plans, key=worth, reverse=True)[:_PLANS]
    return max(plans, key=lambda plan: (round(worth(plan), 1), len({p for _, p in plan.placed} & idle), -plan.busy_ns))


def _with(ways: Sequence[_Way], plan: _Plan, job: Job) -> list[_Plan]:
    """The plan with one job more, on every device that may be done with it in time."""
    found = []
    for place, takes_ns, least_ns in ways:
        begin = plan.free_ns[place]
        if begin + least_ns > job.deadline_ns:
            continue
        slack = (job.deadline_ns - begin - takes_ns) / (_SPREAD * takes_ns)
        hit = 1 - 0.5 * math.exp(-slack) if slack > 0 else 0.5 * math.exp(slack)
        free_ns = (*plan.free_ns[:place], begin + takes_ns, *plan.free_ns[place + 1 :])
        found.append(_Plan(plan.hits + hit, free_ns, (*plan.placed, (job, place)), plan.busy_ns + takes_ns))
    return found
