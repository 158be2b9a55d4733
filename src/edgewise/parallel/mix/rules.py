"""The rules to compare with: first come first served, and those of Band (Jeong et al., MobiSys 2022)."""

from __future__ import annotations

from ...core.mix import Job
from .desk import Decision, Desk


def fifo(desk: Desk, now_ns: int) -> list[Decision]:
    """The oldest job to the first idle device that can run it. Nothing is ever dropped."""
    idle, decided = desk.idle(), list[Decision]()
    for job in desk.waiting:
        device = next((place for place in desk.able(job.network) if place in idle), None)
        if device is not None:
            idle.remove(device)
            decided.append((job, device))
    return decided


def _quickest(desk: Desk, job: Job, free_ns: list[float], now_ns: int) -> tuple[float, int]:
    """How soon a job can be done, and where."""
    return min((free_ns[place] - now_ns + desk.takes(job.network, place), place) for place in desk.able(job.network))


def band(desk: Desk, now_ns: int) -> list[Decision]:
    """Band's least slack first: jobs in the order of deadline - now - expected latency; each goes where it is done
    first, if that is idle, and waits otherwise. One that would be late there is shed.

    As in Band, a device that was idle when the pass began may be given several jobs, nothing is decided while all
    are busy, and whoever is shed leaves no trace in what is expected. Left out: networks cut into sub-graphs (each is
    one here, so its plan is one step), and the window, which holds all that wait.
    """
    idle = desk.idle()
    if not idle:
        return []
    free_ns = [desk.free_ns(place, now_ns) for place in range(len(desk.devices))]
    able = [job for job in desk.waiting if desk.able(job.network)]
    slack = {job.number: job.deadline_ns - now_ns - _quickest(desk, job, free_ns, now_ns)[0] for job in able}
    decided: list[Decision] = []
    for job in sorted(able, key=lambda each: slack[each.number]):
        latency_ns, device = _quickest(desk, job, free_ns, now_ns)
        if now_ns + latency_ns > job.deadline_ns:
            decided.append((job, None))
        elif device in idle:
            free_ns[device] += desk.takes(job.network, device)
            decided.append((job, device))
    return decided


def band_heft(desk: Desk, now_ns: int) -> list[Decision]:
    """Band's rule after "heterogeneous earliest finish time": of the quickest ways to do each job, the one that takes
    longest comes first. It begins if its device is idle; else the device counts as taken by it, and the next longest is
    looked at. Deadlines are not looked at, and nothing is dropped.

    Left out: sub-graphs, and so the reservation of a job's next one.
    """
    decided: list[Decision] = []
    now_free = [desk.free_ns(place, now_ns) for place in range(len(desk.devices))]
    idle, left = desk.idle(), [job for job in desk.waiting if desk.able(job.network)]
    while idle and left:
        free_ns, looked = list(now_free), list(left)
        chosen: tuple[Job, int] | None = None
        while looked and chosen is None:
            # Of several jobs of one network only the oldest is looked at: the others are the same plan.
            first = {job.network: job for job in reversed(looked)}
            job = max(first.values(), key=lambda each: (_quickest(desk, each, free_ns, now_ns)[0], -each.number))
            device = _quickest(desk, job, free_ns, now_ns)[1]
            if device in idle:
                chosen = (job, device)
            else:
                free_ns[device] += desk.takes(job.network, device)
                looked.remove(job)
        if chosen is None:
            break
        job, device = chosen
        decided.append(chosen)
        left.remove(job)
        idle.remove(device)
        now_free[device] += desk.takes(job.network, device)
    return decided
