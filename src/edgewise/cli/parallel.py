"""`edgewise parallel`: which way over several processors wins here."""

from __future__ import annotations

import re
import sys
from typing import Annotated


def run(
    model: Annotated[str, "a model, or a mix of networks with deadlines (mix.toml)"],
    *,
    over: Annotated[tuple[str, ...], "a target to lay it over; two at least"] = (),
    use: Annotated[str, "what counts: latency, throughput, or both"] = "both",
    competing: Annotated[str, "how many other processes compete: a number, or 0..3 for each of these"] = "0",
    contention: Annotated[str, "what those do: compute, memory or cache; #1 after it pins them to core 1"] = "compute",
    foreground: Annotated[
        float | None, "also count the deadlines a task at so many hertz misses beside each way"
    ] = None,
    cap: Annotated[tuple[str, ...], "... and beside the best way, kept from running more than this share: 25%"] = (),
    scheduler: Annotated[
        str | None, "of a mix: fifo, band, band-heft, latency-aware; several with commas between"
    ] = None,
    seconds: Annotated[float | None, "of a mix: how long each scheduler serves it"] = None,
    starts: Annotated[int, "fresh sets of processes; the interval is over these"] = 3,
    rounds: Annotated[int, "turns each way takes per set of processes"] = 20,
    output: Annotated[str | None, "write the best way as a plan that `edgewise run` executes"] = None,
    shape: Annotated[tuple[str, ...], "sizes of an input, such as input=1x3x224x224"] = (),
    calibration: Annotated[str | None, "an .npz with one array per input, for int8 (default: seeded noise)"] = None,
    save: Annotated[str | None, "the store to save to (default: the one `edgewise show` shows)"] = None,
    timeout: Annotated[float, "seconds a worker may take to load, and beyond the length of a round"] = 120.0,
    memory: Annotated[str | None, "the most a worker may allocate, such as 4GB"] = None,
    json_: Annotated[bool, "everything as JSON"] = False,
) -> int:
    """Lay a model over several targets in every way there is, in turns, and keep the one that wins.

    One inference: each target alone, the engine's own threads, split, branches. A stream: each alone,
    dealt, stages. What was expected stands beside what was measured. One target is chosen unless something is faster
    for sure. Of a mix of networks with deadlines: which scheduler has most answers in time.
    Docs: docs/guides/parallel.md.
    """
    from ..analyze import ways as analysis
    from ..analyze.evidence import Evidence
    from ..core.errors import InputError
    from ..core.records import dumps
    from ..core.text import parse_contention, parse_target
    from ..core.types import Scenario
    from ..core.ways import Use, chosen
    from ..report import terminal
    from ..store.db import Store
    from ..store.kept import Kept
    from ..study import home, plans
    from ..study.parallel import Asked, explore
    from ..study.prepare import Limits
    from ..study.request import request
    from . import _values as values
    from ._mix import run_mix
    from ._progress import Progress

    if model.endswith(".toml"):
        return run_mix(
            model, scheduler=scheduler, seconds=seconds, save=save, timeout=timeout, memory=memory, json_=json_
        )
    uses: dict[str, tuple[Use, ...]] = {
        "both": ("latency", "throughput"),
        "latency": ("latency",),
        "throughput": ("throughput",),
    }
    if use not in uses:
        raise InputError(f"--use is one of {', '.join(uses)}, found {use!r}")
    if starts < 2:
        raise InputError(f"an interval needs at least two sets of processes, found --starts {starts}")
    if foreground is not None and not 1 <= foreground <= 1000:
        raise InputError(f"--foreground is a rate from 1 to 1000 hertz, found {foreground}")
    if cap and foreground is None:
        raise InputError("--cap shows what a foreground task gains by it, and there is none", "--foreground 60")
    if output is not None and use == "both":
        raise InputError("a plan is for one use", "--use latency, or --use throughput")
    beside = parse_contention(contention)
    asked = Asked(
        tuple(parse_target(text) for text in over),
        uses[use],
        loads=_loads(competing),
        contention=beside.kind,
        cores=beside.cores,
        foreground_hz=foreground,
        caps=tuple(_share(text) for text in cap),
        starts=starts,
        rounds=rounds,
    )
    if len(over) < 2:
        raise InputError(
            f"several targets are needed to lay a model over, found {len(over)}",
            f"edgewise parallel {model} --over ort:cpu@1#0 --over ort:cpu@1#1",
        )
    limits = Limits(timeout, values.size_bytes(memory), values.shapes(shape), calibration)
    with Store(save or str(home.default_store())) as store:
        wanted = request((model,), over, (1,), [Scenario()], limits)
        store.save_machine(wanted.machine)
        store.save_model(wanted.models[0])
        progress = Progress(1)
        found = explore(asked, wanted, store, progress.say, progress.detail)
        progress.done()
        Kept(store).keep("ways", found.ways.key, found.ways)
    evidence = Evidence(machines={wanted.machine.id: wanted.machine}, ways=(found.ways,))
    section = analysis.run(evidence)
    written = None
    best = chosen(found.ways.ways, asked.uses[0], asked.loads[0])
    if output is not None and best is not None:
        written = plans.write_way(output, best, found, wanted, model, limits)
    if json_:
        print(dumps({"machine": wanted.machine, "ways": found.ways, "section": section, "plan": written}))
        return 0
    out = terminal.console(sys.stdout)
    out.print(f"{found.ways.label} on {wanted.machine.label}\n", markup=False)
    terminal.draw(section, out, keep=("placement", "verdict"))
    if found.ways.capped:
        out.print()
        terminal.draw(analysis.capped(found.ways), out)
    if written is not None:
        out.print(f"\nWrote {output}; run it: edgewise run {output}", markup=False)
    return 0


def _share(text: str) -> float:
    from ..core.errors import InputError

    match = re.fullmatch(r"([0-9]{1,3})%", text.strip())
    if not match or not 1 <= int(match[1]) <= 100:
        raise InputError(f"--cap is a share from 1% to 100%, found {text!r}", "--cap 25% --cap 50%")
    return int(match[1]) / 100


def _loads(text: str) -> tuple[int, ...]:
    from ..core.errors import InputError

    match = re.fullmatch(r"([0-9]{1,3})(?:\.\.([0-9]{1,3}))?", text.strip())
    low, high = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
    if low > high:
        raise InputError(f"--competing is a number of processes, or a range, found {text!r}", "--competing 0..3")
    return tuple(range(low, high + 1))
