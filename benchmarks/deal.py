"""P2: a stream dealt to several targets: what comes out, in order, against what the same processes do unordered.

In each of several fresh sets of processes, blocks in random order: the targets dealt to (ordered); the same processes
at once without order or hand-over, each with the next frame at hand (independent); each alone (isolated); the best
that one target does with all cores, and OpenVINO's own spreading over requests (MULTI). And bursts.
The unit of the intervals is the set of processes.
"""

from __future__ import annotations

import argparse
import random
import select
import time
from collections.abc import Callable, Sequence
from itertools import cycle, islice, repeat
from statistics import fmean, median
from typing import Any

from _goal import finish, say
from edgewise.core import stats
from edgewise.core.protocols import Feeds
from edgewise.core.stats.paired import Ratio, ratio
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
    "slowed": "deal(ort:cpu@1#0, null:cpu@1#1{over=ort,slow=3,every=500ms})",
    "openvino": "deal(openvino:cpu@1#0, openvino:cpu@1#1)",
}
SINGLES = {"equal": ("ort:cpu@2", "ort:cpu@2{spin=off}"), "openvino": ("openvino:cpu@2",)}
MULTI = "openvino MULTI:CPU"
# Short, and many of them: the machine's speed changes within seconds.
BLOCK_S = 0.6
BURST = 24


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
    for _ in islice(stream, 2 * deal.window):
        pass
    delays, begin = list[int](), time.perf_counter()
    while (passed := time.perf_counter() - begin) < seconds:
        delays.append(next(stream).delay_ns)
    stream.close()  # type: ignore[attr-defined]
    return len(delays) / passed, delays


def independent(deal: Deal, those: Sequence[int], seconds: float) -> list[float]:
    """Frames per second of each of these processes, all at once, each with frames of its own at hand."""
    hands = {
        deal.parts[who].answers_fd: (deal.parts[who], hand) for who, hand in enumerate(deal.hands()) if who in those
    }
    slots = cycle(range(deal.window))
    done = dict.fromkeys(hands, 0)

    def give(fd: int) -> None:
        part, hand = hands[fd]
        part.give([next(slots) for _ in range(hand.chunk)])

    for fd, (_, hand) in hands.items():
        for _ in range(hand.depth):
            give(fd)
    begin = time.perf_counter()
    while (passed := time.perf_counter() - begin) < seconds:
        for fd in select.select(list(hands), [], [], 10)[0]:
            part, hand = hands[fd]
            for _ in part.answers():
                done[fd] += hand.chunk
                give(fd)
    for part, hand in hands.values():
        left = hand.depth
        while left:
            left -= len(part.answers())
    return [count / passed for count in done.values()]


class Multi:
    """OpenVINO's own way to spread a stream: requests given to whoever is idle, in no order."""

    def __init__(self, model: Model, frame: Feeds) -> None:
        import openvino

        # Left to itself it computes in bf16 where the CPU can, and the others here do not.
        hints = {"PERFORMANCE_HINT": "THROUGHPUT", "INFERENCE_NUM_THREADS": 2, "INFERENCE_PRECISION_HINT": "f32"}
        compiled = openvino.Core().compile_model(model.path, "MULTI:CPU", hints)
        self._queue: Any = openvino.AsyncInferQueue(compiled)
        self._frame = dict(frame)
        self._done = 0
        self._queue.set_callback(self._count)

    def _count(self, *_: object) -> None:
        self._done += 1

    def rate(self, seconds: float) -> float:
        begin, self._done = time.perf_counter(), 0
        while time.perf_counter() - begin < seconds:
            self._queue.start_async(self._frame)
        self._queue.wait_all()
        return self._done / (time.perf_counter() - begin)


class Blocks:
    """One set of processes, and what each kind of block came to in it, in frames per second."""

    def __init__(self, network: str, case: str, order: random.Random) -> None:
        found = cell(network, CASES[case])
        self._frame = noise(found.model)
        self._deal = opened(found)
        self._singles = {name: opened_alone(cell(network, name)) for name in SINGLES.get(case, ())}
        self._multi = Multi(found.model, self._frame) if case == "openvino" else None
        self._order = order
        self.rates: dict[str, list[float]] = {}
        self.delays: list[int] = []

    def run(self, times: int) -> None:
        everybody = range(len(self._deal.parts))
        kinds: dict[str, Callable[[], float]] = {
            "dealt": self._dealt,
            "independent": lambda: sum(independent(self._deal, everybody, BLOCK_S)),
            "isolated": lambda: sum(independent(self._deal, [who], BLOCK_S)[0] for who in everybody),
        }
        for name, single in self._singles.items():
            kinds[name] = lambda one=single: independent(one, [0], BLOCK_S)[0]  # type: ignore[misc]
        if self._multi is not None:
            multi = self._multi
            kinds[MULTI] = lambda: multi.rate(BLOCK_S)
        for _ in range(times):
            for name in self._order.sample(list(kinds), len(kinds)):
                self.rates.setdefault(name, []).append(kinds[name]())

    def _dealt(self) -> float:
        rate, delays = dealt(self._deal, self._frame, BLOCK_S)
        self.delays += delays
        return rate

    def finish(self) -> dict[str, float]:
        """The delay of a frame in units of what the quickest takes for one, and a burst in units of its bound."""
        each = [1e9 / independent(self._deal, [who], 0.5)[0] for who in range(len(self._deal.parts))]
        took = []
        for _ in range(5):
            begin = time.perf_counter_ns()
            for _ in self._deal.stream(repeat(self._frame, BURST)):
                pass
            took.append(time.perf_counter_ns() - begin)
        return {
            "delay": stats.quantile(sorted(self.delays), 0.95) / min(each),
            "burst": median(took) / burst_ns(BURST, [(0.0, frame_ns) for frame_ns in each]),
        }

    def close(self) -> None:
        for deal in (self._deal, *self._singles.values()):
            deal.close()


def opened_alone(found: Cell) -> Deal:
    """A target as a stream of its own: handed over to as everybody is."""
    return Deal([(found.model, found.cores)], found.task.placement)


def measured(network: str, case: str, starts: int, times: int, order: random.Random) -> dict[str, Any]:
    sets, ends = [], []
    for _ in range(starts):
        blocks = Blocks(network, case, order)
        try:
            blocks.run(times)
            ends.append(blocks.finish())
        finally:
            blocks.close()
        sets.append(blocks.rates)
    found: dict[str, Any] = {"network": network, "case": case, "per_s": fmean(r for s in sets for r in s["dealt"])}
    for name in sets[0]:
        if name != "dealt":
            # Rates, so that the ratio of the times is the other way round.
            found[name] = _ratio([list(zip(rates["dealt"], rates[name], strict=True)) for rates in sets])
    return found | {key: fmean(end[key] for end in ends) for key in ends[0]}


def _ratio(pairs: Sequence[Sequence[tuple[float, float]]]) -> tuple[float, float, float]:
    found: Ratio | None = ratio(pairs)
    assert found is not None
    return found.low, found.estimate, found.high


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--networks", nargs="+", default=NETWORKS)
    parser.add_argument("--cases", nargs="+", default=list(CASES), choices=list(CASES))
    parser.add_argument("--starts", type=int, default=4)
    parser.add_argument("--times", type=int, default=8)
    options = parser.parse_args()
    order, rows = random.Random(0), []
    for network in options.networks:
        for case in options.cases:
            row = measured(network, case, options.starts, options.times, order)
            rows.append(row)
            said = [
                f"{key} {value[1]:.3f} [{value[0]:.3f}, {value[2]:.3f}]"
                for key, value in row.items()
                if isinstance(value, tuple)
            ]
            said += [f"{key} {row[key]:.2f}" for key in ("delay", "burst", "per_s")]
            say(f"{network}, {case}: " + ", ".join(said))
    worst = min((row["independent"] for row in rows), key=lambda found: found[1])
    equal = [row["isolated"][1] for row in rows if row["case"] == "equal"]
    eta = fmean(equal) if equal else None
    singles = [row[name][1] for row in rows for name in row if name.startswith(("ort:", "openvino:"))]
    good = (
        worst[1] >= 0.985
        and eta is not None
        and eta >= 0.97
        and min(singles, default=1.0) >= 0.98
        and all(row["delay"] <= 1.5 and row["burst"] <= 1.1 for row in rows if row["case"] != "slowed")
    )
    finish("P2", worst[1], (worst[0], worst[2]), 0.985, good, eta=eta, cases=rows)


if __name__ == "__main__":
    main()
