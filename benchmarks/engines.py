"""All engines side by side, interleaved: ratios to ONNX Runtime in fp32 with intervals, as Markdown.

`--ablations` compares each engine with itself, one option changed: what a kernel library or a layout buys.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Sequence
from typing import Any

from _goal import say
from edgewise.analyze import compare as analysis
from edgewise.core.text import parse_target
from edgewise.core.types import Failure, Measurement, Model, Placement, Scenario, Target
from edgewise.measure.cell import Cell
from edgewise.report import format
from edgewise.store.db import Store
from edgewise.study.compare import compare
from edgewise.study.prepare import Limits, cell, default_targets, find_model
from edgewise.study.survey import EngineFacts, survey

BASELINE = "ort:cpu:fp32"
# Beside each engine's default: what its users would try first.
ALSO = ("mnn:cpu:fp32{weights=int8,memory=low}",)
# Each first of a pair is the engine as it comes.
ABLATIONS = (
    ("ort:cpu:fp32@1", "ort:cpu:fp32@1{optimize=none}", "ort:cpu:fp32@1{optimize=basic}", "ort:cpu:fp32@1{copy=off}"),
    ("ncnn:cpu:fp32@1", "ncnn:cpu:fp32@1{winograd=off}", "ncnn:cpu:fp32@1{sgemm=off}", "ncnn:cpu:fp32@1{packing=off}"),
    ("litert:cpu:fp32@1", "litert:cpu:fp32@1{xnnpack=off}", "litert:cpu:fp32@1{copy=off}"),
    ("torch:cpu:fp32@1", "torch:cpu:fp32@1{layout=channels_last}", "torch:cpu:fp32@1{onednn=off}"),
    ("mnn:cpu:fp32@1", "mnn:cpu:fp32@1{winograd=large}", "mnn:cpu:fp32@1{winograd=off}"),
    ("openvino:cpu:fp32@1", "openvino:cpu:fp32@1{copy=off}"),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="+", default=["mobilenet_v2", "resnet50"])
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--starts", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--ablations", action="store_true")
    parser.add_argument("--on", nargs="+", help="these targets instead, the first being the baseline")
    options = parser.parse_args()
    machine, engines = survey()
    limits, begin = Limits(timeout_s=300.0), time.monotonic()
    ratios: dict[str, tuple[float, ...]] = {}
    with tempfile.TemporaryDirectory() as folder, Store(f"{folder}/engines.db") as store:
        store.save_machine(machine)
        for name in options.models:
            model = find_model(name, limits)
            store.save_model(model)
            groups = _groups(options, engines, machine, model)
            for group in groups:
                cells: list[Cell] = []
                for target in group:
                    made = cell(model, Placement.single(target), Scenario(), machine, engines, limits)
                    if isinstance(made, Failure):
                        say(f"{target}: {made.message}")
                    else:
                        cells.append(made)
                say(f"{name}: {len(cells)} targets, {time.monotonic() - begin:.0f} s")
                if str(cells[0].task.placement) != str(group[0]):
                    raise SystemExit(f"the baseline {group[0]} does not run")
                results = compare(cells, store, lambda *_: None, starts=options.starts, rounds=options.rounds)
                ratios |= _table(name, results)
    print(json.dumps({"speed": ratios, "seconds": round(time.monotonic() - begin)}))


def _groups(
    options: argparse.Namespace, engines: Sequence[EngineFacts], machine: object, model: Model
) -> list[list[Target]]:
    """What takes turns together: all targets of one thread count, or an engine and its ablations."""
    installed = {engine.name for engine in engines if engine.version}
    if options.on:
        return [[parse_target(text) for text in options.on]]
    if options.ablations:
        found = [[parse_target(text) for text in group] for group in ABLATIONS]
        return [group for group in found if group[0].engine in installed]
    groups = []
    for threads in options.threads:
        also = [target for text in ALSO if (target := parse_target(text)).engine in installed]
        every = [t for t in default_targets(engines, machine, model) if t.threads == threads]  # type: ignore[arg-type]
        first = parse_target(f"{BASELINE}@{threads}")
        more = [Target(t.engine, t.device, t.precision, threads, (), t.options) for t in also]
        groups.append(list(dict.fromkeys([first, *every, *more])))
    return groups


def _table(name: str, results: Sequence[Measurement | Failure]) -> dict[str, tuple[float, ...]]:
    """Print a table, and return speeds with their intervals."""
    measured = [result for result in results if isinstance(result, Measurement)]
    if measured[:1] != list(results[:1]):
        raise SystemExit(f"the baseline failed: {results[0]}")
    section = analysis.run(measured)
    columns = [column.name for column in section.columns]
    found: dict[str, tuple[Any, ...]] = {}
    print(f"\n**{name}**\n\n| target | p50 | speed | interval | error |\n|---|---|---|---|---|")
    for row in section.rows:
        shown = dict(zip(columns, row, strict=True))
        cells = [
            f"`{shown['target']}`",
            format.cell(shown["p50"], "ns"),
            format.cell(shown["speed"], "ratio"),
            "baseline" if shown["verdict"] == "baseline" else format.cell(shown["interval"], "ratio_range"),
            format.cell(shown["error"], "error"),
        ]
        print(f"| {' | '.join(cells)} |", flush=True)
        found[f"{name} {shown['target']}"] = (shown["speed"], *(shown["interval"] or ()))
    for failure in results:
        if isinstance(failure, Failure):
            print(f"\n`{failure.task.placement}` did not run: {failure.message}")
    return found


if __name__ == "__main__":
    main()
