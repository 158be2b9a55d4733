"""`edgewise tune`: the best way to run a model here, raced, checked, measured afresh and written down."""

from __future__ import annotations

import shlex
import sys
from typing import Annotated, Any


def run(
    model: Annotated[str, "a model file, or a built-in network by name"],
    *,
    output: Annotated[str | None, "the plan to write (default: MODEL.plan.json)"] = None,
    on: Annotated[tuple[str, ...], "race these only: an engine such as openvino, or a target in full; repeat"] = (),
    precision: Annotated[tuple[str, ...], "race these precisions only, such as fp32; repeat for several"] = (),
    prefer: Annotated[str, "what to be best at: latency, throughput, energy or memory"] = "latency",
    max_p50: Annotated[str | None, "half of the runs take at most this, such as 10ms"] = None,
    max_p90: Annotated[str | None, "nine of ten runs take at most this: certified at 99 %"] = None,
    max_p99: Annotated[str | None, "99 of 100 runs take at most this: certified at 99 %"] = None,
    max_memory: Annotated[str | None, "the whole process takes at most this, such as 200MB"] = None,
    max_loss: Annotated[
        float | None, "points of top-1 that may be lost, such as 1: at 95 %, on labelled images"
    ] = None,
    data: Annotated[
        str | None, "labelled images: a folder per class, a .csv, an .npz (default: the model's own)"
    ] = None,
    labels: Annotated[str | None, "class names in the order of the model's outputs, one per line"] = None,
    preprocess: Annotated[str | None, "how an image becomes the input, such as 'imagenet(crop=224)'"] = None,
    batch: Annotated[int, "the batch size"] = 1,
    shape: Annotated[tuple[str, ...], "sizes of an input, such as input=1x3x224x224"] = (),
    calibration: Annotated[str | None, "an .npz with one array per input, for int8 (default: some of the data)"] = None,
    optimize: Annotated[bool, "smaller models join: fused, and with labelled images pruned in several degrees"] = False,
    against: Annotated[str, "what the winner is set beside at the end"] = "ort",
    power: Annotated[str | None, "what the device uses, such as 15W, where no meter can be read"] = None,
    starts: Annotated[int, "the most fresh processes a candidate gets"] = 5,
    save: Annotated[str | None, "the store to save to (default: the one `edgewise show` shows)"] = None,
    timeout: Annotated[float, "seconds a worker may take to load, and beyond the length of a turn"] = 120.0,
    memory: Annotated[str | None, "the most a worker may allocate, such as 4GB"] = None,
    json_: Annotated[bool, "the race, the table and the plan as JSON"] = False,
) -> int:
    """Race every way to run a model here, keep the honest winner, and write a plan that `edgewise run` executes.

    Candidates take short turns in fresh processes, in groups, beside the best so far. One that is surely worse goes
    home; close ones start again until they are told apart. The best is sent home with a probability of at most 5 %. At
    the end the winner is measured afresh beside the runner-up and ONNX Runtime as installed.
    """
    from ..analyze import race as analysis
    from ..core.errors import CheckFailed
    from ..core.records import dumps, to_json
    from ..core.types import Scenario
    from ..measure.energy import find_meters, parse_power
    from ..report import terminal
    from ..store.db import Store
    from ..study import home, plans
    from ..study.costs import keep_cost
    from ..study.prepare import Limits
    from ..study.request import request
    from ..study.tune import Tuning, tune
    from . import _values as values
    from ._progress import Progress

    wanted = _wanted(prefer, (max_p50, max_p90, max_p99), max_memory, max_loss)
    _check(starts, batch, max_loss)
    limits = Limits(timeout, values.size_bytes(memory), values.shapes(shape), calibration)
    load = Scenario(batch=batch)
    store_path = save or str(home.default_store())
    with Store(store_path) as store:
        # Everything is surveyed where nothing is named; else what is named, and what the winner is set beside.
        found = request((model,), (*on, against) if on else (), (batch,), [Scenario()], limits)
        question = _question(found.models[0], data, labels, preprocess, max_loss)
        meters = find_meters(parse_power(power) if power else None, every=not power) if prefer == "energy" else ()
        store.save_machine(found.machine)
        store.save_model(found.models[0])
        keep_cost(store, found.models[0], 1, found.limits)
        tuning = Tuning(
            wanted,
            on,
            precision,
            load,
            against,
            question,
            starts,
            recipes=_recipes(found.models[0], question, optimize),
        )
        progress, said = Progress(0), ""

        def show(what: str, detail: str) -> None:
            nonlocal said
            if what != said:
                said = what
                progress.say(what)
            progress.detail(detail)

        try:
            tuned = tune(found, tuning, store, show, meters)
        except KeyboardInterrupt:
            progress.done()
            print(f"interrupted: every turn so far is saved in {store_path}; a race starts over", file=sys.stderr)
            print(f"hint: {shlex.join(('edgewise', *sys.argv[1:]))}", file=sys.stderr)
            return 130
        progress.done()
    section = analysis.raced(tuned.race, tuned.final)
    path = output or f"{found.models[0].label.replace('/', '-').replace(':', '-')}{plans.SUFFIX}"
    plan = plans.write(path, tuned, found, model, found.limits) if tuned.cell else None
    failures = [entry.failure for entry in tuned.race.entries if entry.failure is not None]
    if json_:
        said_plan: dict[str, Any] = {"plan": to_json(plan), "path": path if plan else None}
        print(dumps({"machine": found.machine, "race": tuned.race, "section": section, **said_plan}))
    else:
        out = terminal.console(sys.stdout)
        out.print(f"{found.models[0].label} on {found.machine.label}\n", markup=False)
        terminal.draw(section, out, keep=("target", "result"))
        terminal.draw_failures(failures, out)
        out.print()
        if plan:
            out.print(f"Plan written to {path}; run it with: edgewise run {shlex.quote(path)} IMAGE", markup=False)
        out.print(f"Saved in {store_path}", markup=False, style="dim")
    return 0 if plan else CheckFailed.exit_code


def _wanted(prefer: str, percentiles: tuple[str | None, ...], max_memory: str | None, max_loss: float | None) -> Any:
    from typing import get_args

    from ..core.errors import InputError
    from ..core.race import Prefer, Wanted
    from . import _values as values

    if prefer not in get_args(Prefer):
        raise InputError(f"--prefer is one of {', '.join(get_args(Prefer))}, found {prefer!r}")
    given = [(p, text) for p, text in zip(("p50", "p90", "p99"), percentiles, strict=True) if text is not None]
    if len(given) > 1:
        raise InputError(f"one percentile can be bounded at a time, found {' and '.join(p for p, _ in given)}")
    bound = values.bound(f"{given[0][0]}={given[0][1]}") if given else None
    return Wanted(prefer, bound, values.size_bytes(max_memory), None if max_loss is None else max_loss / 100)  # type: ignore[arg-type]


def _check(starts: int, batch: int, max_loss: float | None) -> None:
    from ..core.errors import InputError

    if starts < 2:
        raise InputError(f"an interval needs at least two sets of processes, found --starts {starts}")
    if batch < 1:
        raise InputError(f"--batch is at least 1, found {batch}")
    if max_loss is not None and not 0 < max_loss <= 100:
        raise InputError(f"--max-loss is a number of points of top-1 such as 1, found {max_loss:g}")


def _question(model: Any, data: str | None, labels: str | None, preprocess: str | None, loss: float | None) -> Any:
    """What to ask the winner, where there are images: given, or the model's own."""
    from ..core.errors import InputError
    from ..study.images import Question

    if data is None and model.data is None:
        if loss is not None:
            raise InputError(
                f"--max-loss needs labelled images, and {model.label} has none of its own", "--data FOLDER"
            )
        return None
    return Question(data, labels, preprocess)


def _recipes(model: Any, question: Any, optimize: bool) -> tuple[str, ...]:
    """Those that lose nothing, and where it can be told what they lose, those that do. Targets quantize anyway."""
    if not optimize or model.precision == "int8":
        return ()
    smaller = tuple(f"fuse | prune(cost={cost:g})" for cost in (0.85, 0.7, 0.55))
    return ("fuse", *(smaller if question is not None else ()))
