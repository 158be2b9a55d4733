"""`edgewise study`: many models, targets and batches by one protocol, from a file."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated


def run(
    file: Annotated[str, "a study in TOML: models, targets, batches, a protocol"],
    *,
    again: Annotated[bool, "measure anew what the store has (default: skip it)"] = False,
    dry_run: Annotated[bool, "show the cells and how long they may take, and measure nothing"] = False,
    budget: Annotated[str | None, "stop after this long, such as 20min; small batches come first"] = None,
    energy: Annotated[bool, "read every energy meter here, and fail if there is none (default: those at hand)"] = False,
    power: Annotated[str | None, "a declared power such as 15W, for an estimate of energy where no meter is"] = None,
    shape: Annotated[tuple[str, ...], "sizes of an input, such as input=1x3x224x224"] = (),
    calibration: Annotated[str | None, "an .npz with one array per input, for int8 (default: seeded noise)"] = None,
    save: Annotated[str | None, "the store to save to (default: the one `edgewise show` shows)"] = None,
    timeout: Annotated[float, "seconds a worker may take to load, and beyond the length of a round"] = 120.0,
    memory: Annotated[str | None, "the most a worker may allocate, such as 4GB"] = None,
    json_: Annotated[bool, "raw results as JSON"] = False,
) -> int:
    """Measure what a study file asks for; once more, it goes on where it stopped.

    Protocols by name: edgewise, quick, compute-units, embench, bound, stream. What the store has of this machine and
    these engine versions is skipped. Docs: docs/guides/study.md.
    """
    from ..core.errors import InputError
    from ..core.records import dumps
    from ..core.text import parse_target
    from ..core.types import Failure, Result, Round
    from ..measure.cell import Cell, Part
    from ..measure.energy import baseline, choose_meters, parse_power
    from ..report.format import duration
    from ..store.db import Store
    from ..store.done import Done
    from ..study import home
    from ..study.conduct import Conduct
    from ..study.extras import Extra, costs, extras
    from ..study.prepare import Limits
    from ..study.recipes import made
    from ..study.request import request
    from ..study.schedule import Course, blocks
    from ..study.study import read
    from . import _study as say
    from . import _values as values
    from ._progress import Progress

    asked = read(file)
    budget_s = values.duration_s("--budget", budget) or asked.budget_s
    limits = Limits(timeout, values.size_bytes(memory), values.shapes(shape), calibration)
    path = save or str(home.default_store())
    course = Course(0.0, asked.protocol.passes, budget_s)
    metering = not dry_run and (energy or power is not None or asked.energy != "off")
    meters = choose_meters(parse_power(power) if power else None, every=energy) if metering else ()
    # Looking ahead leaves no file behind.
    with Store(path if not dry_run or Path(path).exists() else ":memory:") as store:
        preferred = [parse_target(text) for text in asked.protocol.targets]
        wanted = request(
            asked.models,
            asked.on,
            (),
            asked.scenarios,
            limits,
            preferred=preferred,
            engines=asked.engines,
            several=True,
        )
        course.startup_s = wanted.startup_s
        missed: list[str] = []
        if asked.recipes:
            making = Progress(0)
            applied = made(wanted.models, asked.recipes, wanted.machine, wanted.limits, making.say, missed.append)
            wanted = replace(wanted, models=tuple({model.digest: model for model in applied}.values()))
            making.done()
            if not wanted.models:
                raise InputError(f"{file}: no recipe can be applied: {missed[0]}")
        plan = blocks(asked, wanted, None if again else Done(store, wanted.machine.id))
        conduct = Conduct(asked, wanted, plan, course, store)
        say.announce(asked, conduct.cells, course)
        if dry_run:
            return say.dry_run(asked, conduct.cells, course, json_)
        store.save_machine(wanted.machine)
        for model in wanted.models:
            store.save_model(model)
        progress = Progress(conduct.visits)
        short = say.short(conduct.cells)
        runs = 0

        def show(cell: Cell | Failure, number: int, part: Part | None) -> None:
            nonlocal runs
            if part is None:
                runs = 0
                left = f"  ({duration(conduct.left_s())} left)"
                progress.cell(number, f"{cell.label} on {cell.task.placement}, {short(cell.task.scenario)}{left}")
            elif isinstance(part, Round):
                runs += len(part.samples_ns)
                progress.detail(f"{'warming up, ' if part.warmup else ''}{runs} runs")

        results: list[Result] = []
        late: list[str] = []

        def find_out(todo: list[Extra]) -> None:
            progress = Progress(len(todo))
            for number, extra in enumerate(todo):
                if course.spent():
                    late.append(extra.what)
                    continue
                progress.cell(number, extra.what)
                reason = extra.run()
                if reason:
                    missed.append(f"{extra.what}: {reason}")
            progress.done()

        try:
            find_out(list(costs(asked, wanted, store)))
            # Idle power is what the device uses before anything is asked of it.
            metered = baseline(meters)
            for result in conduct.results(show, resume=not again, meters=metered):
                results.append(result)
            progress.done()
            find_out(list(extras(asked, wanted, conduct.cells, store, again=again)))
        except KeyboardInterrupt:
            progress.done()
            print(f"interrupted: what was measured is saved in {path}", file=sys.stderr)
            print(f"hint: {say.command()}", file=sys.stderr)
            return 130
        finally:
            for meter in meters:
                meter.close()
    # What a budget cut in the middle is in the store, to be gone on with; it is no result to rank.
    whole = [result for result in results if isinstance(result, Failure) or result.complete]
    section, left = say.summary(asked, wanted.machine, whole), conduct.unmeasured()
    if json_:
        told = {"study": asked.name, "protocol": asked.protocol, "machine": wanted.machine, "results": results}
        told |= {"section": section, "known": conduct.known, "not_measured": say.listed(left), "late": late}
        print(dumps(told))
    else:
        say.draw(asked, wanted.machine, section, whole, wanted.models, short)
        cautions = missed
        if asked.energy != "off" and not meters:
            cautions.append("no energy meter can be read here → edgewise devices, or declare a power: --power 15W")
        if left or late:
            cautions.append(say.left_out(asked, left, late, len(conduct.cells), budget_s))
        say.close(cautions, len(whole), conduct.known, path)
    return say.exit_code(whole)
