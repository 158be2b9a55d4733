"""P4: what optimizations without training make of two CIFAR-100 networks, on one core and split over two.

The rows of Table 2 of a study of phones: each technique by itself, then together as the search finds them, for a loss
of at most 1.0 point with weights of at most 0.15, and for the paper's own loss of 2.67. Statistics come from
`train_sample.npz`, decisions rest on 2,000 images of `test.npz` and what is printed was measured on its other 8,000.
Latency is over that of the same engine's own, fully optimized fp32 on one core, in turns; so is that of the same model
in halves on two cores. An interrupted run goes on where it was (--save).
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path

from _goal import finish, say
from edgewise.analyze.compare import speed
from edgewise.core.front import AS_IT_IS, Point
from edgewise.core.text import parse_placement, parse_target
from edgewise.core.types import Failure, Measurement, Model, Scenario
from edgewise.measure import isolate
from edgewise.measure.cell import Cell
from edgewise.optimize.search import Space
from edgewise.store.db import Store
from edgewise.study import recipes
from edgewise.study.compare import compare
from edgewise.study.images import Question
from edgewise.study.optimize import Asked, Optimized, optimize
from edgewise.study.prepare import Limits, cell
from edgewise.study.request import Request, request
from edgewise.system.affinity import current
from edgewise.system.machine import machine, physical_cores

SHARED = Path(__file__).resolve().parents[2] / "shared"
NETWORKS = ("resnet18", "mobilenet_v2_050")
ENGINES = ("openvino:cpu@1", "ort:cpu@1")
# Technique by technique, as the paper lists them; the last ones are what the search is made of.
SINGLE = (
    "lowrank(cost=0.7)",
    "prune(cost=0.7)",
    "fuse",
    "reorder",
    "fuse | prune(cost=0.7) | reorder",
    "quantize",
    "quantize(correct=bias)",
)
BAR = 0.16
# Of what the weights took, where no more than a point may be lost; the paper's own loss has no such limit.
WEIGHTS_BAR = 0.15
TIGHT = 1.0
LOSSES = {TIGHT: WEIGHTS_BAR, 2.67: None}


class Bench:
    def __init__(
        self, network: str, engine: str, store: Store, options: argparse.Namespace, call: isolate.Lasting
    ) -> None:
        path = SHARED / "models" / "cifar100" / f"{network}.onnx"
        self.wanted: Request = request((str(path),), (engine,), (1,), [Scenario()], Limits())
        self.store, self.options, self.engine, self._call = store, options, engine, call
        store.save_machine(self.wanted.machine)
        store.save_model(self.wanted.models[0])
        data = SHARED / "data" / "cifar100"
        self.asked = Asked(
            parse_target(engine),
            question=Question(str(data / "test.npz"), preprocess="cifar100"),
            calibration=str(data / "train_sample.npz"),
            starts=options.starts,
            rounds=options.rounds,
            space=Space(tuple(name for name in Space().smaller if name not in options.without)),
        )

    def of(self, recipe: str) -> Optimized:
        return self._run(replace(self.asked, recipe=recipes.parse(recipe)))

    def found(self, points: float, weight_bytes: int | None) -> Optimized:
        asked = replace(self.asked, max_loss=points / 100, budget_s=self.options.budget)
        return self._run(replace(asked, max_weight_bytes=weight_bytes))

    def _run(self, asked: Asked) -> Optimized:
        return optimize(asked, self.wanted, self.store, say, lambda detail: None, self._call)


def split(bench: Bench, model: Model) -> tuple[float, float, float] | None:
    """The latency of a model in halves on two cores, over that of the one as it is on one core."""
    where = parse_target(bench.engine)
    precision = "int8" if model.precision == "int8" else where.precision
    half = replace(where, precision=precision)
    usable = physical_cores(machine(), current())
    if len(usable) < 2:
        return None
    first, second = (str(replace(half, cores=(core,))) for core in usable[:2])
    halves = parse_placement(f"split({first}=0.5, {second}=0.5)")
    cells: list[Cell] = []
    for subject, placement in ((bench.wanted.models[0], parse_placement(bench.engine)), (model, halves)):
        made = cell(subject, placement, Scenario(), bench.wanted.machine, bench.wanted.engines, bench.wanted.limits)
        if isinstance(made, Failure):
            say(f"{model.label} on {placement}: {made.message}")
            return None
        cells.append(made)
    results = compare(
        cells, bench.store, lambda start, turn: None, starts=bench.options.starts, rounds=bench.options.rounds
    )
    one, two = results
    if not isinstance(one, Measurement) or not isinstance(two, Measurement):
        say(f"{model.label}: {[each.message for each in results if isinstance(each, Failure)]}")
        return None
    found = speed(one, two)
    return (1 / found.high, 1 / found.estimate, 1 / found.low) if found else None


def line(network: str, engine: str, point: Point, whole: Point, two: tuple[float, float, float] | None) -> str:
    answered = point.reported or point.decided
    ratio = "{1:.3f} [{0:.3f}, {2:.3f}]".format(*point.ratio) if point.ratio else "-"
    cores = "{1:.3f} [{0:.3f}, {2:.3f}]".format(*two) if two else "-"
    loss = f"{100 * answered.loss:+.2f} (at most {100 * answered.interval[1]:+.2f})" if answered else "-"
    size = f"{point.weight_bytes / whole.weight_bytes:.3f}" if point.weight_bytes and whole.weight_bytes else "-"
    memory = f"{point.memory_bytes / 2**20:.0f}" if point.memory_bytes else "-"
    top1 = f"{100 * answered.top1:.2f}" if answered else "-"
    return f"| {network} | {engine} | {point.recipe} | {top1} | {loss} | {size} | {memory} | {ratio} | {cores} |"


def _recipe(text: str) -> str:
    """As it is written where it is found again."""
    return str(recipes.parse(text))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--networks", nargs="+", default=NETWORKS)
    parser.add_argument("--engines", nargs="+", default=ENGINES)
    parser.add_argument("--steps", nargs="*", type=_recipe, default=SINGLE, help="recipes to try by themselves")
    parser.add_argument("--starts", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--budget", type=float, default=None, help="seconds for each search")
    parser.add_argument("--without", nargs="*", default=(), choices=Space().smaller, help="left out of the searches")
    parser.add_argument("--save", default="optimize.db")
    options = parser.parse_args()
    if not SHARED.exists():
        raise SystemExit("the CIFAR-100 networks and images are not here")
    rows: list[str] = []
    best: dict[tuple[str, str, float], Point | None] = {}
    whole_bytes: dict[str, int] = {}
    with Store(options.save) as store, isolate.Lasting() as call:
        for network in options.networks:
            for engine in options.engines:
                bench = Bench(network, engine, store, options, call)
                found = [bench.of(recipe) for recipe in (AS_IT_IS, *options.steps)]
                whole_bytes[network] = found[0].front.points[0].weight_bytes or 0
                for points, share in LOSSES.items():
                    found.append(bench.found(points, share and int(share * whole_bytes[network])))
                    front = found[-1].front
                    chosen = next((point for point in front.points if point.recipe == front.chosen), None)
                    best[network, engine, points] = chosen
                seen = {point.recipe: point for each in found for point in each.front.points}
                models = {each.front.chosen: each.model for each in found if each.front.chosen and each.model}
                models[AS_IT_IS] = bench.wanted.models[0]
                for recipe, point in seen.items():
                    if recipe in models:
                        rows.append(line(network, engine, point, seen[AS_IT_IS], split(bench, models[recipe])))
                        say(rows[-1])
                    else:
                        say(f"tried: {line(network, engine, point, seen[AS_IT_IS], None)} {point.reason}")
                for recipe in options.steps:
                    ratio = seen[recipe].ratio
                    if seen[recipe].reason or ratio is None or ratio[1] >= 1:
                        say(f"{network} on {engine}: {recipe} by itself brings nothing. {seen[recipe].reason}")
    print("| network | engine | recipe | top-1 | points lost | weights | MB | latency, one core | split over two |")
    print("|---|---|---|---|---|---|---|---|---|")
    print("\n".join(rows))
    tight = [p for (network, _, points), p in best.items() if network == "resnet18" and points == TIGHT and p]
    quickest = min(tight, key=lambda point: point.ratio[1] if point.ratio else 9.0, default=None)
    if quickest is None or quickest.ratio is None:
        finish("P4", 1.0, (1.0, 1.0), BAR, False, found=json.dumps(None))
        return
    low, value, high = quickest.ratio
    details = {
        f"{network}, {engine}, {points} points": None
        if point is None or point.ratio is None
        else {
            "recipe": point.recipe,
            "latency": point.ratio,
            "lost": point.reported.loss if point.reported else None,
            "lost_at_most": point.reported.interval[1] if point.reported else None,
            "weights": (point.weight_bytes or 0) / whole_bytes[network],
        }
        for (network, engine, points), point in best.items()
    }
    small = (quickest.weight_bytes or 0) <= WEIGHTS_BAR * whole_bytes["resnet18"]
    kept = quickest.reported is not None and 100 * quickest.reported.interval[1] <= TIGHT
    finish("P4", value, (low, high), BAR, value <= BAR and small and kept, found=details)


if __name__ == "__main__":
    main()
