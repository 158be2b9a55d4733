"""`edgewise bench`: every way to run a model here, measured and ranked."""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

if TYPE_CHECKING:
    from ..core.types import Section


def run(
    models: Annotated[tuple[str, ...], "ONNX files, built-in networks by name, or one plan (.plan.json)"],
    *,
    on: Annotated[tuple[str, ...], "a target, such as ort:cpu:int8@2; repeat for several (default: all)"] = (),
    batch: Annotated[tuple[int, ...], "a batch size; repeat for several"] = (),
    scenario: Annotated[tuple[str, ...], "the load: single, concurrent(n=4), server(rate_hz=100), offline"] = (
        "single",
    ),
    shape: Annotated[tuple[str, ...], "sizes of an input, such as input=1x3x224x224"] = (),
    calibration: Annotated[str | None, "an .npz with one array per input, for int8 (default: seeded noise)"] = None,
    data: Annotated[str | None, "images for a plan that chooses (default: those it was fitted on)"] = None,
    bound: Annotated[str | None, "a claim to certify at 99 %, such as p99=20ms"] = None,
    energy: Annotated[bool, "read every energy meter here, and fail if there is none (default: those at hand)"] = False,
    power: Annotated[str | None, "a declared power such as 15W, for an estimate of energy where no meter is"] = None,
    save: Annotated[str | None, "the store to save to (default: the one `edgewise show` shows)"] = None,
    resume: Annotated[bool, "go on where an interrupted run stopped: skip what the store has"] = False,
    timeout: Annotated[float, "seconds a worker may take to load, and beyond the length of a round"] = 120.0,
    memory: Annotated[str | None, "the most a worker may allocate, such as 4GB"] = None,
    json_: Annotated[bool, "raw results as JSON"] = False,
) -> int:
    """Measure a model on every usable target, or on those named, and rank them.

    Each cell runs in a process of its own; every round is saved as soon as it is done.
    """
    from ..analyze import dealt, summary, sustained
    from ..analyze import energy as energy_analysis
    from ..analyze.evidence import Evidence
    from ..core.energy import Energy
    from ..core.errors import InputError
    from ..core.records import dumps
    from ..core.text import parse_scenario
    from ..core.types import Failure, Measurement, Result, Round, Start
    from ..measure.cell import Cell
    from ..measure.energy import baseline, choose_meters, parse_power
    from ..report import terminal
    from ..store.db import Store
    from ..study import home
    from ..study.costs import keep_cost
    from ..study.images import Question
    from ..study.plan_cells import PlanCells, is_plan, plan_cells
    from ..study.prepare import Limits
    from ..study.request import Request, request
    from ..study.sweep import finished, sweep
    from . import _values as values
    from ._progress import Progress

    claim = values.bound(bound)
    limits = Limits(timeout, values.size_bytes(memory), values.shapes(shape), calibration)
    meters = choose_meters(parse_power(power) if power else None, every=energy)
    path = save or str(home.default_store())
    with Store(path) as store:
        # A claim wants samples, not a narrow interval of the median.
        loads = [replace(load, width=0.0) if claim else load for load in map(parse_scenario, scenario)]
        asked = (tuple(dict.fromkeys(on)), batch, loads, limits)
        wanted: Request | PlanCells
        if is_plan(models):
            wanted = plan_cells(models[0], *asked, Question(data))
        elif data is not None:
            raise InputError("models are measured on noise; --data is for a plan that chooses", "edgewise accuracy")
        else:
            wanted = request(models, *asked, several=True)
        store.save_machine(wanted.machine)
        for model in wanted.models:
            store.save_model(model)
            keep_cost(store, model, 1, wanted.limits)
        progress = Progress(len(wanted.pairs()))
        runs = 0

        def show(cell: Cell | Result, number: int, part: Start | Round | Energy | None) -> None:
            nonlocal runs
            if part is None:
                runs = 0
                progress.cell(number, f"{cell.label} on {cell.task.placement}, {cell.task.scenario}")
            elif isinstance(part, Round):
                runs += len(part.samples_ns)
                progress.detail(f"{'warming up, ' if part.warmup else ''}{runs} runs")

        results = []
        try:
            metered = baseline(meters)
            cells = wanted.cells_unless(finished(store, wanted.machine.id)) if resume else wanted.cells()
            for result in sweep(cells, store, show, resume=resume, meters=metered):
                results.append(result)
        except KeyboardInterrupt:
            progress.done()
            again = shlex.join(a for a in sys.argv[1:] if a != "--resume")
            print(
                f"interrupted: {len(results)} of {len(wanted.pairs())} cells are saved in {path}",
                file=sys.stderr,
            )
            print(f"hint: edgewise {again} --resume", file=sys.stderr)
            return 130
        finally:
            for meter in meters:
                meter.close()
        progress.done()
    measurements = [result for result in results if isinstance(result, Measurement)]
    failures = [result for result in results if isinstance(result, Failure)]
    evidence = Evidence(machines={wanted.machine.id: wanted.machine}, measurements=tuple(measurements))
    section = summary.run(evidence, bound=claim)
    further = (("dealt", dealt), ("energy", energy_analysis), ("sustained", sustained))
    more = {name: analysis.run(evidence) for name, analysis in further}
    if json_:
        raw = {"machine": wanted.machine, "results": results, "section": section}
        print(dumps(raw | {name: drawn if drawn.rows else None for name, drawn in more.items()}))
    else:
        out = terminal.console(sys.stdout)
        names = ", ".join(m.label for m in wanted.models) or models[0]
        out.print(f"{names} on {wanted.machine.label}\n", markup=False)
        if section.rows:
            terminal.draw(summary.brief(section), out, keep=("target",))
        for drawn in more.values():
            if drawn.rows:
                out.print(f"\n[bold]{drawn.title}[/bold]")
                terminal.draw(drawn, out, keep=("target", "source", "course"))
        terminal.draw_failures(failures, out)
        if isinstance(wanted, PlanCells):
            terminal.draw_findings(wanted.findings, out)
        _next_step(section, models, path, out)
    if not measurements:
        from ..core.errors import BY_NAME

        return BY_NAME[failures[0].error].exit_code if failures else 1
    return 0


def _next_step(section: Section, models: tuple[str, ...], path: str, out: object) -> None:
    from rich.console import Console

    assert isinstance(out, Console)
    out.print()
    names = [column.name for column in section.columns]
    rows = [dict(zip(names, row, strict=True)) for row in section.rows]
    targets = [str(row["target"]) for row in rows if all(row[name] == rows[0][name] for name in ("model", "scenario"))]
    if len(targets) > 1:
        out.print(
            f"Next: edgewise compare {shlex.quote(models[0])} --on {_quoted(targets[1])} --on {_quoted(targets[0])}"
        )
    out.print(f"Saved in {path}; see it with: edgewise show {shlex.quote(path)}", style="dim")


def _quoted(target: str) -> str:
    return shlex.quote(target)
