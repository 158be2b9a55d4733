"""`edgewise roofline`: how near a model comes to what the processor can do."""

from __future__ import annotations

import shlex
import sys
from typing import Annotated


def run(
    models: Annotated[tuple[str, ...], "ONNX files, or built-in networks by name"],
    *,
    on: Annotated[tuple[str, ...], "a target, such as openvino:cpu@1; repeat for several"] = ("ort",),
    batch: Annotated[tuple[int, ...], "a batch size; repeat for several"] = (),
    shape: Annotated[tuple[str, ...], "sizes of an input, such as input=1x3x224x224"] = (),
    calibration: Annotated[str | None, "an .npz with one array per input, for int8 (default: seeded noise)"] = None,
    layers: Annotated[int, "how many layers of each network to show, the slowest first"] = 10,
    fresh: Annotated[bool, "measure the roofs again (default: take those the store has)"] = False,
    save: Annotated[str | None, "the store to save to (default: the one `edgewise show` shows)"] = None,
    timeout: Annotated[float, "seconds a worker may take to load, and beyond the length of a round"] = 120.0,
    memory: Annotated[str | None, "the most a worker may allocate, such as 4GB"] = None,
    json_: Annotated[bool, "roofs, points and charts as JSON"] = False,
) -> int:
    """Set networks and their layers beside the most this processor can compute and move.

    Roofs are measured, not looked up. Intensity is operations per byte as the graph has them; where hardware counters
    can be read (perf, or ncu on NVIDIA), also per byte that really moved. Layers need an engine that tells their times.
    """
    from ..analyze import roofline
    from ..analyze.evidence import Evidence
    from ..core.errors import BY_NAME, InputError
    from ..core.profile import Profile
    from ..core.records import dumps
    from ..core.types import Failure, Measurement, Result, Round, Scenario
    from ..measure.cell import Cell, Part
    from ..report import terminal
    from ..store.db import Store
    from ..study import home
    from ..study.costs import keep_cost
    from ..study.prepare import Limits
    from ..study.request import request
    from ..study.roofline import keep_profile, keep_roofs, keep_traffic
    from ..study.sweep import sweep
    from . import _values as values
    from ._progress import Progress

    if layers < 0:
        raise InputError(f"--layers is a number of layers, found {layers}", "--layers 10")
    limits = Limits(timeout, values.size_bytes(memory), values.shapes(shape), calibration)
    path = save or str(home.default_store())
    failures: list[Failure] = []
    with Store(path) as store:
        wanted = request(models, tuple(dict.fromkeys(on)), batch, [Scenario()], limits)
        store.save_machine(wanted.machine)
        for model in wanted.models:
            store.save_model(model)
        cells = list(wanted.cells())
        progress = Progress(len(cells))
        measured: list[Measurement] = []
        profiles: list[Profile] = []
        traffic = []
        roofs = {}
        runs = 0

        def show(cell: Cell | Result, number: int, part: Part | None) -> None:
            nonlocal runs
            if part is None:
                runs = 0
            elif isinstance(part, Round):
                runs += len(part.samples_ns)
                progress.detail(f"{'warming up, ' if part.warmup else ''}{runs} runs")

        try:
            for number, cell in enumerate(cells):
                progress.cell(number, f"{cell.label} on {cell.task.placement}, {cell.task.scenario}")
                if not isinstance(cell, Failure):
                    target = cell.task.placement.targets[0]
                    progress.detail("roofs")
                    first = (target.device, target.threads, target.cores) not in roofs
                    found = keep_roofs(store, target, wanted, fresh=fresh and first)
                    roofs[target.device, target.threads, target.cores] = found
                # What the store has of this very task is as good as what would be measured now.
                for result in sweep([cell], store, show, resume=True):
                    if isinstance(result, Failure) or isinstance(cell, Failure):
                        failures += [result] if isinstance(result, Failure) else []
                        continue
                    measured.append(result)
                    progress.detail("operator times")
                    profile = keep_profile(store, cell, wanted)
                    profiles += [profile] if isinstance(profile, Profile) else []
                    failures += [profile] if isinstance(profile, Failure) else []
                    progress.detail("bytes moved")
                    traffic.append(keep_traffic(store, cell, result, wanted))
        except KeyboardInterrupt:
            progress.done()
            print(f"interrupted: {len(measured)} of {len(cells)} cells are saved in {path}", file=sys.stderr)
            print(f"hint: edgewise {shlex.join(a for a in sys.argv[1:] if a != '--fresh')}", file=sys.stderr)
            return 130
        progress.done()
        costs = {}
        for model in wanted.models:
            costed = keep_cost(store, model, 1, wanted.limits)
            if costed is not None:
                costs[model.digest] = costed
    evidence = Evidence(
        machines={wanted.machine.id: wanted.machine},
        models={model.digest: model for model in wanted.models},
        measurements=tuple(reversed(measured)),
        profiles=tuple(profiles),
        roofs=tuple(dict.fromkeys(roofs.values())),
        traffic=tuple(traffic),
        costs=costs,
    )
    section = roofline.run(evidence, layers=layers)
    if json_:
        print(dumps({"machine": wanted.machine, "roofs": evidence.roofs, "traffic": traffic, "section": section}))
    else:
        out = terminal.console(sys.stdout)
        out.print(f"{', '.join(m.label for m in wanted.models)} on {wanted.machine.label}\n", markup=False)
        if measured:
            terminal.draw(section, out, keep=("layer", "bound"))
        terminal.draw_failures(failures, out)
        out.print(f"\nSaved in {path}", style="dim")
    return BY_NAME[failures[0].error].exit_code if failures and not measured else 0
