"""T3: the same thing compared with itself, and with itself 3 % slower.

Each comparison is what `edgewise compare` does, with its defaults: three sides at once, of which two are the same
target and the third adds 3 % to every run. The first pair is the A/A test, the other the search for the slow-down.
"""

from __future__ import annotations

import argparse
import math
import tempfile
import time
from dataclasses import replace

from _goal import finish, say
from edgewise import zoo
from edgewise.analyze.compare import speed
from edgewise.core.text import parse_placement
from edgewise.core.types import Measurement, Scenario, Task
from edgewise.measure.cell import Cell
from edgewise.model import feeds, load
from edgewise.store.db import Store
from edgewise.study.compare import compare
from edgewise.system.machine import machine

A = "null:cpu:fp32@1{over=ort}"
SLOWER = "null:cpu:fp32@1{over=ort,slow=0.03}"


def wilson(hits: int, n: int, z: float = 1.96) -> tuple[float, float]:
    """Interval for a rate (Wilson, 1927)."""
    p = hits / n
    centre = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    return max(0.0, centre - half), min(1.0, centre + half)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--comparisons", type=int, default=200)
    parser.add_argument("--model", default="tiny")
    options = parser.parse_args()
    here = machine()
    called = found = 0
    widths = []
    with tempfile.TemporaryDirectory() as folder, Store(f"{folder}/aa.db") as store:
        model = load.inspect(zoo.export(options.model, f"{folder}/model.onnx"))
        shapes = feeds.shapes(model)
        fixed = replace(model, inputs=tuple(replace(t, shape=shapes[t.name]) for t in model.inputs))
        store.save_machine(here)
        cells = [
            Cell(Task(model.digest, parse_placement(on), Scenario()), fixed, here.id, (), "", model.label)
            for on in (A, A, SLOWER)
        ]
        begin = time.monotonic()
        for number in range(1, options.comparisons + 1):
            sides = compare(cells, store, lambda start, turn: None, seed=number)
            first, second, slower = (side for side in sides if isinstance(side, Measurement))
            same, slow = speed(first, second), speed(first, slower)
            assert same and slow
            called += same.different
            found += slow.different and slow.estimate < 1
            widths.append(same.high - same.low)
            left = (time.monotonic() - begin) / number * (options.comparisons - number)
            say(
                f"{number}/{options.comparisons}: A/A {same.estimate:.4f} [{same.low:.4f}, {same.high:.4f}] "
                f"3 % {slow.estimate:.4f} [{slow.low:.4f}, {slow.high:.4f}]; "
                f"called {called}, found {found}, {left / 60:.0f} min left"
            )
    n = options.comparisons
    print(f"A/A called different      {called / n:.1%} of {n}")
    print(f"3 % slow-down found       {found / n:.1%} of {n}")
    finish(
        "T3",
        called / n,
        wilson(called, n),
        0.05,
        called / n <= 0.05 and found / n >= 0.8 and n >= 200,
        comparisons=n,
        power=found / n,
        power_interval=wilson(found, n),
        median_interval_width=sorted(widths)[n // 2],
        model=f"{options.model}, ort, 1 thread",
    )


if __name__ == "__main__":
    main()
