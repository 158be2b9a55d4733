"""`edgewise compare`: an interleaved A/B comparison."""

from __future__ import annotations

import sys
from typing import Annotated


def run(
    models: Annotated[tuple[str, ...], "one model on several targets, or several models on one"],
    *,
    on: Annotated[tuple[str, ...], "a target; the first is the baseline"] = (),
    batch: Annotated[int, "the batch size"] = 1,
    shape: Annotated[tuple[str, ...], "sizes of an input, such as input=1x3x224x224"] = (),
    calibration: Annotated[str | None, "an .npz with one array per input, for int8 (default: seeded noise)"] = None,
    starts: Annotated[int, "fresh sets of processes; the interval is over these"] = 5,
    rounds: Annotated[int, "turns each side takes per set of processes"] = 40,
    save: Annotated[str | None, "the store to save to (default: the one `edgewise show` shows)"] = None,
    timeout: Annotated[float, "seconds a worker may take to load, and beyond the length of a round"] = 120.0,
    memory: Annotated[str | None, "the most a worker may allocate, such as 4GB"] = None,
    json_: Annotated[bool, "raw results as JSON"] = False,
) -> int:
    """Compare targets, or models, in turns: a ratio with an interval, or the smallest difference that would show.

    All sides are alive at once and take short rounds in random order, so that whatever else the machine does
    happens to all of them; repeated over fresh processes, because two copies of the same program differ too.
    """
    from ..analyze import compare as analysis
    from ..core.errors import BY_NAME, InputError, rebuild
    from ..core.records import dumps
    from ..core.types import Failure, Measurement, Scenario
    from ..report import terminal
    from ..store.db import Store
    from ..study import home
    from ..study.compare import compare
    from ..study.prepare import Limits
    from ..study.request import request
    from ._progress import Progress
    from ._values import shapes, size_bytes

    if starts < 2:
        raise InputError(f"an interval needs at least two sets of processes, found --starts {starts}")
    limits = Limits(timeout, size_bytes(memory), shapes(shape), calibration)
    with Store(save or str(home.default_store())) as store:
        wanted = request(models, on or ("ort",), (batch,), [Scenario()], limits, several=True)
        pairs = wanted.pairs()
        if len(pairs) < 2:
            raise InputError(
                "a comparison needs two sides, found one",
                f"edgewise compare {models[0]} --on ort:cpu --on openvino:cpu",
            )
        store.save_machine(wanted.machine)
        for model in wanted.models:
            store.save_model(model)
        prepared = list(wanted.cells())
        cells = [cell for cell in prepared if not isinstance(cell, Failure)]
        failures = [cell for cell in prepared if isinstance(cell, Failure)]
        if len(cells) < 2 or isinstance(prepared[0], Failure):
            # Without the baseline, or without another side, there is nothing to compare.
            first = failures[0]
            raise rebuild({"error": first.error, "message": first.message, "hint": first.hint})
        progress = Progress(starts)
        names = ", ".join(str(cell.task.placement) for cell in cells)

        def show(start: int, number: int) -> None:
            if number == 0:
                progress.cell(start, f"taking turns: {names}")
            progress.detail(f"round {number + 1} of {rounds}")

        results = compare(cells, store, show, starts=starts, rounds=rounds)
        progress.done()
    measurements = [result for result in results if isinstance(result, Measurement)]
    results = [*results, *failures]
    failures = [result for result in results if isinstance(result, Failure)]
    # Without the baseline there are no ratios: another side must not take its place unsaid.
    section = analysis.run(measurements) if isinstance(results[0], Measurement) else None
    if json_:
        print(dumps({"machine": wanted.machine, "results": results, "section": section}))
    else:
        out = terminal.console(sys.stdout)
        if section:
            terminal.draw(section, out, keep=("target",))
        terminal.draw_failures(failures, out)
    return BY_NAME[failures[0].error].exit_code if failures else 0
