"""What `fuse` is worth on top of what each engine does to a graph by itself: it must help, or change nothing.

Networks that have something to fuse, each as it is and fused, on several engines, both fully optimized by the engine
and in turns. The value is the worst speed of a fused network over the same one as it is, of many: by chance alone it is
below 1. The bar is missed where more intervals lie below 1 than chance puts there in one of twenty runs like this. What
has nothing to fuse is left as it is, and not measured.
"""

from __future__ import annotations

import argparse
import tempfile
from math import comb
from pathlib import Path
from statistics import geometric_mean

from _goal import finish, say
from edgewise import zoo
from edgewise.analyze.compare import speed
from edgewise.core.stats import Ratio
from edgewise.core.text import parse_placement
from edgewise.core.types import Failure, Measurement, Model, Scenario
from edgewise.measure.cell import Cell
from edgewise.model import feeds
from edgewise.model.graph import fixed, graph
from edgewise.optimize.fuse import applied
from edgewise.store.db import Store
from edgewise.study import recipes
from edgewise.study.compare import compare
from edgewise.study.prepare import Limits, cell
from edgewise.study.request import Request, request

ENGINES = ("ort:cpu@1", "openvino:cpu@1", "litert:cpu@1", "ncnn:cpu@1", "mnn:cpu@1")
BAR = 1.0
# Of intervals of 95 %, so many lie below the truth by chance.
BELOW = 0.025


def rewrites(model: Model) -> dict[str, int]:
    """How often each rewrite applies."""
    return applied(graph(fixed(model, feeds.shapes(model, 1, {}))))[1]


def measured(wanted: Request, pair: tuple[Model, Model], engine: str, options: argparse.Namespace) -> Ratio | str:
    """How many times as fast the second model is as the first, or why that is not known."""
    cells: list[Cell] = []
    for model in pair:
        placement = parse_placement(engine)
        made = cell(model, placement, Scenario(), wanted.machine, wanted.engines, wanted.limits)
        if isinstance(made, Failure):
            return made.message
        cells.append(made)
    with tempfile.TemporaryDirectory() as folder, Store(Path(folder) / "fuse.db") as store:
        store.save_machine(wanted.machine)
        for model in pair:
            store.save_model(model)
        results = compare(cells, store, lambda start, turn: None, starts=options.starts, rounds=options.rounds)
    before, after = results
    if isinstance(before, Measurement) and isinstance(after, Measurement):
        return speed(before, after) or "too few turns"
    return "; ".join(each.message for each in results if isinstance(each, Failure))


def by_chance(cases: int) -> int:
    """How many intervals may lie below the truth: more do in one of twenty runs."""
    likely, count = 0.0, -1
    while likely < 0.95:
        count += 1
        likely += comb(cases, count) * BELOW**count * (1 - BELOW) ** (cases - count)
    return count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--networks", nargs="+", default=zoo.names())
    parser.add_argument("--engines", nargs="+", default=ENGINES)
    parser.add_argument("--starts", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=10)
    options = parser.parse_args()
    found: dict[str, tuple[float, float, float]] = {}
    unknown: dict[str, str] = {}
    nothing: list[str] = []
    for network in options.networks:
        wanted = request((network,), options.engines, (1,), [Scenario()], Limits())
        (model,) = wanted.models
        done = rewrites(model)
        if not done:
            nothing.append(network)
            continue
        say(f"{network}: {', '.join(f'{name} {count}' for name, count in done.items())}")
        fused = recipes.applied(model, recipes.parse("fuse"), wanted.machine, wanted.limits, lambda what: None)
        for engine in options.engines:
            ratio = measured(wanted, (model, fused), engine, options)
            name = f"{network}, {engine}"
            if isinstance(ratio, str):
                unknown[name] = ratio
                say(f"{name}: {ratio}")
            else:
                found[name] = (ratio.low, ratio.estimate, ratio.high)
                say(f"{name}: {ratio.estimate:.3f} [{ratio.low:.3f}, {ratio.high:.3f}] times as fast fused")
    if not found:
        raise SystemExit("none of these networks has anything to fuse, or no engine runs them")
    slower = {name: each for name, each in found.items() if each[2] < BAR}
    low, value, high = min(found.values(), key=lambda each: each[1])
    finish(
        "fuse beside engines' own optimizers",
        value,
        (low, high),
        BAR,
        len(slower) <= by_chance(len(found)),
        slower=slower,
        slower_by_chance=by_chance(len(found)),
        geometric_mean=geometric_mean(each[1] for each in found.values()),
        ratios=found,
        unknown=unknown,
        nothing_to_fuse=nothing,
    )


if __name__ == "__main__":
    main()
