"""Ways to share one inference between two cores, side by side, on five networks of a study of phones (its Figure 2).

One core; the engine's own two threads; every layer cut by output channels (as µLayer does); chains of layers cut by
rows, then channels (as CoDL does); branches side by side; and a split that finds its way by itself (ours). NN-Stretch
changes the network and trains it again: it is not here.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from _goal import say
from edgewise.analyze.compare import speed
from edgewise.core.types import Failure, Measurement, Scenario
from edgewise.store.db import Store
from edgewise.study.compare import compare
from edgewise.study.prepare import Limits
from edgewise.study.request import request

NETWORKS = ("posenet", "retinaface_mobilenet025", "fast_style_transfer", "yolov2", "vgg16")
ONE = "ort:cpu@1#0"
SIDES = {
    "one core": ONE,
    "own threads": "ort:cpu@2",
    "channels": "split(ort:cpu@1#0{split=channels}=0.5, ort:cpu@1#1=0.5)",
    "chains": "split(ort:cpu@1#0{split=auto}=0.5, ort:cpu@1#1=0.5)",
    "branches": "branches(ort:cpu@1#0, ort:cpu@1#1)",
    "found": "split(ort:cpu@1#0, ort:cpu@1#1)",
}


def measured(network: str, starts: int, rounds: int) -> dict[str, str]:
    """How many times as fast as one core each side is."""
    wanted = request((network,), tuple(SIDES.values()), (1,), [Scenario()], Limits(), several=True)
    prepared = list(wanted.cells())
    cells = [cell for cell in prepared if not isinstance(cell, Failure)]
    with tempfile.TemporaryDirectory() as folder, Store(Path(folder) / "ways.db") as store:
        store.save_machine(wanted.machine)
        store.save_model(wanted.models[0])
        results = compare(cells, store, lambda start, number: None, starts=starts, rounds=rounds)
    by_name = {str(result.task.placement): result for result in results}
    found = {}
    names = dict(zip(SIDES, prepared, strict=True))
    baseline = by_name[str(names["one core"].task.placement)]
    assert isinstance(baseline, Measurement), baseline
    for name, cell in names.items():
        result = by_name.get(str(cell.task.placement), cell)
        if isinstance(result, Measurement):
            ratio = speed(baseline, result) if result is not baseline else None
            found[name] = f"{ratio.estimate:.2f}x [{ratio.low:.2f}, {ratio.high:.2f}]" if ratio else "1"
        else:
            assert isinstance(result, Failure)
            found[name] = f"refused: {result.message}"
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--networks", nargs="+", default=NETWORKS)
    parser.add_argument("--starts", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=10)
    options = parser.parse_args()
    for network in options.networks:
        for name, text in measured(network, options.starts, options.rounds).items():
            say(f"{network}: {name} {text}")


if __name__ == "__main__":
    main()
