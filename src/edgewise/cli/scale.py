"""`edgewise scale`: throughput and latency against batch and input size."""

from __future__ import annotations

import shlex
import sys
from typing import Annotated


def run(
    models: Annotated[tuple[str, ...], "built-in networks by name, or ONNX files with open sizes"],
    *,
    batch: Annotated[str | None, "batch sizes: 1..512 doubles, 8..64:8 goes by 8, 1,3,9 (default: 1..32)"] = None,
    size: Annotated[str | None, "sides of the input image: 224..448 goes by 32, 224..448:64, 160,224"] = None,
    grid: Annotated[bool, "every batch at every size (default: sizes at the smallest batch only)"] = False,
    on: Annotated[tuple[str, ...], "a target, such as ort:cpu@1; repeat for several (default: each engine)"] = (),
    scenario: Annotated[str, "how long each is measured"] = "single(min_s=0.5, max_s=2)",
    longest: Annotated[float, "seconds one run may take; larger batches are then left out"] = 2.0,
    save: Annotated[str | None, "the store to save to (default: the one `edgewise show` shows)"] = None,
    resume: Annotated[bool, "go on where an interrupted run stopped: skip what the store has"] = False,
    timeout: Annotated[float, "seconds a worker may take to load, and beyond the length of a round"] = 120.0,
    memory: Annotated[str | None, "the most a worker may allocate, such as 4GB (default: 90 % of all)"] = None,
    json_: Annotated[bool, "raw results as JSON"] = False,
) -> int:
    """Measure a model at growing batch and input sizes, until memory or time says stop.

    Without --on: every engine and device in the model's precision, on all threads. A batch that would not fit into
    memory, by how much smaller ones took, or take longer than --longest, is not tried, and neither are larger ones; the
    results say so. A network at a size that is not its own is saved as NAME@SIZE.
    """
    from dataclasses import replace

    from ..analyze import scaling, trust
    from ..analyze.evidence import Evidence
    from ..core.errors import BY_NAME, InputError
    from ..core.records import dumps
    from ..core.text import parse_scenario
    from ..core.types import Failure, Measurement, Result, Round
    from ..measure.cell import Cell
    from ..report import terminal
    from ..store.db import Store
    from ..study import home
    from ..study.costs import keep_cost
    from ..study.prepare import Limits, expand
    from ..study.request import request
    from ..study.scale import ladders, steps
    from ..study.scale import scale as measure
    from . import _values as values
    from ._progress import Progress

    load = parse_scenario(scenario)
    if load.kind != "single":
        raise InputError(f"scale measures single runs, found the scenario {load.kind}", "--scenario 'single(max_s=2)'")
    if not longest > 0:
        raise InputError(f"--longest is a number of seconds above zero, found {longest:g}", "--longest 2")
    sizes = steps(size, "size") if size else ()
    batches = steps(batch or ("1" if size else "1..32"), "batch")
    limits = Limits(timeout, values.size_bytes(memory))
    path = save or str(home.default_store())
    with Store(path) as store:
        wanted = request(models, tuple(dict.fromkeys(on)), (), [load], limits)
        chosen = ladders(wanted, expand(models), batches, sizes, grid)
        store.save_machine(wanted.machine)
        subjects = {ladder.model.digest: ladder.model for ladder in chosen}
        for model in subjects.values():
            store.save_model(model)
        found = (keep_cost(store, model, 1, wanted.limits) for model in subjects.values())
        costs = {costed.subject: costed for costed in found if costed}
        total = sum(len(ladder.batches) for ladder in chosen)
        progress = Progress(total)
        runs = 0

        def show(cell: Cell | Result, number: int, part: object) -> None:
            nonlocal runs
            if part is None:
                runs = 0
                progress.cell(number, f"{cell.label} on {cell.task.placement}, batch {cell.task.scenario.batch}")
            elif isinstance(part, Round):
                runs += len(part.samples_ns)
                progress.detail(f"{'warming up, ' if part.warmup else ''}{runs} runs")

        results = []
        try:
            for result in measure(wanted, chosen, store, show, longest_s=longest, resume=resume):
                results.append(result)
        except KeyboardInterrupt:
            progress.done()
            again = shlex.join(a for a in sys.argv[1:] if a != "--resume")
            print(f"interrupted: {len(results)} of {total} cells are saved in {path}", file=sys.stderr)
            print(f"hint: edgewise {again} --resume", file=sys.stderr)
            return 130
        progress.done()
    measurements = tuple(result for result in results if isinstance(result, Measurement))
    failures = tuple(result for result in results if isinstance(result, Failure))
    evidence = Evidence({wanted.machine.id: wanted.machine}, subjects, measurements, failures, costs=costs)
    section = scaling.run(evidence)
    doubts = tuple(finding for measurement in measurements for finding in trust.findings(measurement))
    section = replace(section, findings=section.findings + doubts)
    if json_:
        print(dumps({"machine": wanted.machine, "results": results, "section": section}))
    else:
        out = terminal.console(sys.stdout)
        out.print(f"{', '.join(m.label for m in wanted.models)} on {wanted.machine.label}\n", markup=False)
        terminal.draw(section, out, keep=("target",))
        shown = {
            (failure.machine, failure.task) for sweep in scaling.batch_sweeps(evidence) for failure in sweep.failures
        }
        terminal.draw_failures([f for f in failures if (f.machine, f.task) not in shown], out)
        out.print(f"\nSaved in {path}; draw it with: edgewise report {shlex.quote(path)} -o report.html", style="dim")
    if not measurements:
        return BY_NAME[failures[0].error].exit_code if failures else 1
    return 0
