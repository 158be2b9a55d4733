"""P3: one inference split over two cores: against one core, and against what engines do with two threads of their own.

All sides take turns in fresh processes, once on two free cores and once with another process busy on the second of
them. The split finds its way by itself. What it could have found is beside it: one core, and cuts by channels and by
chains of rows, in halves and with two thirds for the first core, and with parts that do each other's shares. The value
is the worst of its speed over the best of those, over networks and loads.
"""

from __future__ import annotations

import argparse
import tempfile
from contextlib import ExitStack
from pathlib import Path

from _goal import finish, say
from edgewise.analyze.compare import speed
from edgewise.core.text import parse_contention
from edgewise.core.types import Failure, Measurement, Scenario
from edgewise.measure.cell import Cell
from edgewise.measure.contend import competing
from edgewise.store.db import Store
from edgewise.study.compare import compare
from edgewise.study.prepare import Limits
from edgewise.study.request import request

LARGE = ("vgg16", "resnet50", "yolov2")
NETWORKS = (*LARGE, "mobilenet_v2")
ONE = "ort:cpu@1#0"
PEERS = ("ort:cpu@2", "ort:cpu@2{spin=off}", "openvino:cpu@2")
SPLIT = "split(ort:cpu@1#0, ort:cpu@1#1)"
GIVEN = tuple(
    f"split(ort:cpu@1#0{{{options}}}={share}, ort:cpu@1#1={1 - share:.2g})"
    for options, shares in (
        ("split=channels", (0.5, 0.67)),
        ("split=auto", (0.5, 0.67)),
        ("cover=on,split=channels", (0.5,)),
        ("cover=on", (0.67,)),
    )
    for share in shares
)
LOADS = ("free", "competing")
BAR = 0.94
BUSY = parse_contention("1*compute#1")


def measured(network: str, load: str, starts: int, rounds: int) -> dict[str, tuple[float, float, float]]:
    """How many times as fast the split is as each of the others."""
    sides = (SPLIT, *GIVEN, ONE, *PEERS)
    wanted = request((network,), sides, (1,), [Scenario()], Limits(), several=True)
    cells: list[Cell] = []
    for cell in wanted.cells():
        assert not isinstance(cell, Failure), cell
        cells.append(cell)
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        store = stack.enter_context(Store(Path(folder) / "split.db"))
        store.save_machine(wanted.machine)
        store.save_model(wanted.models[0])
        if load == "competing":
            stack.enter_context(competing(BUSY))
        results = compare(cells, store, lambda start, number: None, starts=starts, rounds=rounds)
    found = {}
    split = results[0]
    assert isinstance(split, Measurement), split
    for side, result in zip(sides[1:], results[1:], strict=True):
        assert isinstance(result, Measurement), result
        ratio = speed(result, split)
        assert ratio is not None
        found[side] = (ratio.low, ratio.estimate, ratio.high)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--networks", nargs="+", default=NETWORKS)
    parser.add_argument("--starts", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=12)
    options = parser.parse_args()
    found = {}
    for network in options.networks:
        for load in LOADS:
            ratios = found[network, load] = measured(network, load, options.starts, options.rounds)
            for side, (low, estimate, high) in ratios.items():
                say(f"{network}, {load}: {estimate:.3f} [{low:.3f}, {high:.3f}] times as fast as {side}")
    details = {f"{network}, {load}": ratios for (network, load), ratios in found.items()}
    large = [network for network in LARGE if network in options.networks]
    # Of the other goals, each with what was reached over its bar.
    goals = {f"{network}, own threads": (found[network, "free"]["ort:cpu@2"], 0.97) for network in large}
    goals |= {f"{network}, one core": (found[network, "free"][ONE], 1.9) for network in large}
    for network in large:
        busy = found[network, "competing"]
        bar = 1.15 if network == "resnet50" else 1.4
        goals[f"{network}, competing, one core"] = (busy[ONE], bar)
        if network != "resnet50":
            goals |= {f"{network}, competing, {peer}": (busy[peer], bar) for peer in PEERS}
    goals |= {f"{network}, {load}, not worse": (found[network, load][ONE], 0.98) for network, load in found}
    missed = {name: ratio for name, (ratio, bar) in goals.items() if ratio[1] < bar}
    low, value, high = min((ratios[side] for ratios in found.values() for side in (ONE, *GIVEN)), key=lambda r: r[1])
    finish("P3", value, (low, high), BAR, value >= BAR and not missed, missed=missed, ratios=details)


if __name__ == "__main__":
    main()
