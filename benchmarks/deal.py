"""P2: a stream dealt to several targets: what comes out, in order, against what the same processes do unordered.

In each of several fresh sets of processes, blocks in random order: the targets dealt to (ordered); the same processes
at once without order or hand-over (independent); each alone (isolated). And bursts of frames, against their bound.
"""

from __future__ import annotations

import argparse
import random
import select
import time
from collections.abc import Callable, Sequence
from itertools import repeat
from statistics import fmean

from _goal import finish, say
from edgewise.core import stats
from edgewise.core.protocols import Executable, Feeds
from edgewise.core.types import Failure, Model, Scenario
from edgewise.measure.cell import Cell
from edgewise.model import feeds
from edgewise.parallel.build import build
from edgewise.parallel.deal.dealer import burst_ns
from edgewise.parallel.deal.stream import Deal
from edgewise.study.prepare import Limits
from edgewise.study.request import request

NETWORKS = ("mobilenet_v2", "squeezenet1_1", "resnet18", "mnasnet1_0", "efficientnet_lite0")
CASES = {
    "equal": "deal(ort:cpu@1#0, ort:cpu@1#1)",
    "4:1": "deal(ort:cpu@1#0, null:cpu@1#1{over=ort,slow=3})",
    "engines": "deal(ort:cpu@1#0, openvino:cpu@1#1)",
}
BLOCK_S = 2.0


def cell(network: str, placement: str) -> Cell:
    (found,) = request((network,), (placement,), (1,), [Scenario()], Limits(), several=True).cells()
    assert not isinstance(found, Failure), found
    return found


def opened(found: Cell) -> Deal:
    made = build(found.model, found.task.placement, found.parts)
    assert isinstance(made, Deal)
    return made


def noise(model: Model) -> Feeds:
    shapes = {t.name: tuple(d for d in t.shape or () if isinstance(d, int)) for t in model.inputs}
    return feeds.feeds(model, shapes, 0)


def dealt(deal: Deal, frame: Feeds, seconds: float) -> tuple[float, list[int]]:
    """Frames per second of a stream under way, and their delays."""
    stream = deal.stream(repeat(frame))
    for _ in range(2 * deal.window):
        next(stream)
    delays, begin = list[int](), time.perf_counter()
    while (passed := time.perf_counter() - begin) < seconds:
        delays.append(next(stream).delay_ns)
    stream.close()  # type: ignore[attr-defined]
    return len(delays) / passed, delays


def independent(deal: Deal, those: Sequence[int], seconds: float) -> list[float]:
    """Frames per second of each of these processes, all at once, each for itself: it always has the next one."""
    parts = [deal.parts[who] for who in those]
    slots = {part.answers_fd: 2 * number for number, part in enumerate(parts)}
    done = dict.fromkeys(slots, 0)
    by_fd = {part.answers_fd: part for part in parts}
    chunk = {part.answers_fd: deal._chunks[who] for part, who in zip(parts, those, strict=True)}
    for part in parts:
        for place in range(2):
            part.give([slots[part.answers_fd] + place] * chunk[part.answers_fd])
    begin = time.perf_counter()
    while (passed := time.perf_counter() - begin) < seconds:
        for fd in select.select(list(slots), [], [], 10)[0]:
            for _ in by_fd[fd].answers():
                done[fd] += chunk[fd]
                by_fd[fd].give([slots[fd]] * chunk[fd])
    for fd, part in by_fd.items():
        left = 2
        while left:
            left -= len(part.answers())
        del fd
    return [count_ / passed for count_ in done.values()]


def single(executable: Executable, frame: Feeds, seconds: float) -> float:
    begin, runs = time.perf_counter(), 0
    while (passed := time.perf_counter() - begin) < seconds:
        executable.run(frame)
        runs += 1
    return runs / passed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--networks", nargs="+", default=NETWORKS)
    parser.add_argument("--cases", nargs="+", default=list(CASES), choices=list(CASES))
    parser.add_argument("--starts", type=int, default=4)
    options = parser.parse_args()
    order, logs, details = random.Random(0), dict[str, list[float]](), []
    for network in options.networks:
        for name in options.cases:
            found = cell(network, CASES[name])
            frame = noise(found.model)
            rows = [_blocks(found, frame, order) for _ in range(options.starts)]
            mean = {key: fmean(row[key] for row in rows) for key in rows[0]}
            details.append({"network": network, "case": name, **mean})
            logs.setdefault(name, []).append(mean["of_independent"])
            say(f"{network}, {name}: " + ", ".join(f"{key} {value:.3f}" for key, value in mean.items()))
    worst = min(min(values) for values in logs.values())
    eta = fmean(row["of_isolated"] for row in details if row["case"] == "equal")
    good = worst >= 0.985 and eta >= 0.97 and all(row["delay"] <= 1.5 and row["burst"] <= 1.1 for row in details)
    finish("P2", worst, (worst, max(max(values) for values in logs.values())), 0.985, good, eta=eta, cases=details)


def _blocks(found: Cell, frame: Feeds, order: random.Random) -> dict[str, float]:
    deal = opened(found)
    try:
        rates: dict[str, list[float]] = {"dealt": [], "independent": [], "isolated": []}
        delays: list[int] = []
        fastest = min(part.frame_ns for part in deal.parts)

        def run_dealt() -> None:
            rate, seen = dealt(deal, frame, BLOCK_S)
            rates["dealt"].append(rate)
            delays.extend(seen)

        blocks: list[Callable[[], None]] = [
            run_dealt,
            lambda: rates["independent"].append(sum(independent(deal, range(len(deal.parts)), BLOCK_S))),
            lambda: rates["isolated"].append(
                sum(independent(deal, [who], BLOCK_S)[0] for who in range(len(deal.parts)))
            ),
        ]
        for _ in range(2):
            for block in order.sample(blocks, len(blocks)):
                block()
        alone = [1e9 / independent(deal, [who], 0.5)[0] for who in range(len(deal.parts))]
        frames = 24
        took = []
        for _ in range(5):
            begin = time.perf_counter_ns()
            for _ in deal.stream(repeat(frame, frames)):
                pass
            took.append(time.perf_counter_ns() - begin)
        bound = burst_ns(frames, [(0.0, each) for each in alone])
        return {
            "of_independent": fmean(rates["dealt"]) / fmean(rates["independent"]),
            "of_isolated": fmean(rates["dealt"]) / fmean(rates["isolated"]),
            "delay": stats.quantile(sorted(delays), 0.95) / min(fastest, *alone),
            "burst": stats.quantile(sorted(took), 0.5) / bound,
            "per_s": fmean(rates["dealt"]),
        }
    finally:
        deal.close()


if __name__ == "__main__":
    main()
