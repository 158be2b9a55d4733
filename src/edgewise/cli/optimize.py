"""`edgewise optimize`: a smaller and quicker model, and what it costs in answers."""

from __future__ import annotations

import shlex
import sys
from typing import Annotated, Any


def run(
    model: Annotated[str, "a model file, or a built-in network by name"],
    *,
    recipe: Annotated[str | None, "steps such as 'fuse | quantize' (default: search for the best)"] = None,
    data: Annotated[
        str | None,
        "images: a folder per class, a .csv, an .npz; without labels for a recipe (default: the model's own)",
    ] = None,
    max_loss: Annotated[float, "points of top-1 that may be lost, at 95 %"] = 1.0,
    max_latency: Annotated[str | None, "half of the runs take at most this, such as 10ms"] = None,
    max_weights: Annotated[str | None, "the weights take at most this, such as 4MB"] = None,
    max_memory: Annotated[str | None, "the whole process takes at most this, such as 100MB"] = None,
    on: Annotated[str | None, "the target it is for (default: ONNX Runtime on one core)"] = None,
    output: Annotated[
        str | None, "the model to write, as it is where nothing helps (default: MODEL.small.onnx, where something does)"
    ] = None,
    calibration: Annotated[str | None, "other images, or an .npz of inputs, to look at the network with"] = None,
    labels: Annotated[str | None, "class names in the order of the model's outputs, one per line"] = None,
    preprocess: Annotated[str | None, "how an image becomes the input, such as 'imagenet(crop=224)'"] = None,
    without: Annotated[tuple[str, ...], "a pass the search leaves out: prune, lowrank or quantize; repeat"] = (),
    budget: Annotated[str | None, "end a search after this, such as 20min; the same command goes on"] = None,
    starts: Annotated[int, "fresh sets of processes for each comparison"] = 3,
    rounds: Annotated[int, "turns each side takes per set of processes"] = 20,
    shape: Annotated[tuple[str, ...], "sizes of an input, such as input=1x3x224x224"] = (),
    save: Annotated[str | None, "the store to save to (default: the one `edgewise show` shows)"] = None,
    timeout: Annotated[float, "seconds a worker may take to load, and beyond the length of a turn"] = 120.0,
    memory: Annotated[str | None, "the most a worker may allocate, such as 4GB"] = None,
    json_: Annotated[bool, "every point as JSON"] = False,
) -> int:
    """Make a model smaller and quicker, step by step, without training, and measure what that costs in answers.

    With a recipe: what it makes of the model, and what each of its steps brings. Without: a search for the quickest
    that loses no more than allowed, by images that decisions rest on; what is reported was measured on the others.
    Where nothing is quicker or smaller than the model as it is, it says so.
    Every point is kept: an interrupted search goes on where it was. Docs: docs/guides/optimize.md.
    """
    from ..analyze import front as analysis
    from ..analyze.evidence import Evidence
    from ..core.errors import CheckFailed, InputError
    from ..core.records import dumps
    from ..core.text import parse_duration, parse_target
    from ..core.types import Scenario
    from ..report import terminal
    from ..store.db import Store
    from ..study import home, recipes
    from ..study.optimize import Asked, Optimized, optimize, takes, takes_file
    from ..study.prepare import Limits
    from ..study.request import request
    from ..study.writing import writable, write
    from . import _values as values
    from ._progress import Progress

    if starts < 2:
        raise InputError(f"an interval needs at least two sets of processes, found --starts {starts}")
    if not 0 <= max_loss <= 100:
        raise InputError(f"--max-loss is a number of points of top-1 such as 1, found {max_loss:g}")
    steps = recipes.parse(recipe) if recipe is not None else None
    target = parse_target(on or "ort:cpu@1")
    limits = Limits(timeout, values.size_bytes(memory), values.shapes(shape), None)
    bound = values.bound(f"p50={max_latency}") if max_latency else None
    store_path = save or str(home.default_store())
    takes_file(model)
    with Store(store_path) as store:
        wanted = request((model,), (str(target),), (1,), [Scenario()], limits)
        found = wanted.models[0]
        takes(found, steps)
        path = output or f"{found.label.replace('/', '-').replace(':', '-').removesuffix('.onnx')}.small.onnx"
        writable(path, found, limits)
        store.save_machine(wanted.machine)
        store.save_model(found)
        asked = Asked(
            target,
            steps,
            None if steps else max_loss / 100,
            values.size_bytes(max_weights),
            bound[1] if bound else None,
            values.size_bytes(max_memory),
            _question(found, data, labels, preprocess, steps is None),
            calibration,
            _space(without),
            starts,
            rounds,
            parse_duration(budget) if budget else None,
        )
        progress = Progress(0)
        written = None

        def ready(made: Optimized) -> None:
            # A search that ends with what it began with has nothing to write, unless a file of that name is waited for.
            nonlocal written
            if made.model is not None and (output is not None or not _unchanged(made.front, steps)):
                written = write(made.model, path, limits)

        try:
            made = optimize(asked, wanted, store, progress.say, progress.detail, ready=ready)
        except KeyboardInterrupt:
            progress.done()
            there = f", and {written} is written" if written else ""
            print(f"interrupted: every point so far is saved in {store_path}{there}", file=sys.stderr)
            print(f"hint: {shlex.join(('edgewise', *sys.argv[1:]))}", file=sys.stderr)
            return 130
        progress.done()
    section = analysis.run(Evidence(machines={wanted.machine.id: wanted.machine}, fronts=(made.front,)))
    code = CheckFailed.exit_code if made.model is None else 0
    if json_:
        print(dumps({"machine": wanted.machine, "front": made.front, "section": section, "path": written}))
        return code
    out = terminal.console(sys.stdout)
    out.print(f"{found.label} on {wanted.machine.label}\n", markup=False)
    terminal.draw(section, out, keep=("recipe", "verdict"))
    out.print()
    if _unchanged(made.front, steps):
        out.print(f"Wrote {path}, the model as it is" if written else "Nothing was written", markup=False)
    elif written:
        again = f"edgewise tune {shlex.quote(path)}"
        out.print(f"Wrote {path}; find the best way to run it: {again}", markup=False)
    else:
        out.print("Nothing was written: no point does what was asked", markup=False)
    out.print(f"Saved in {store_path}", markup=False, style="dim")
    return code


def _unchanged(front: Any, steps: Any) -> bool:
    """Whether a search ended with what it began with."""
    from ..core.front import AS_IT_IS

    return steps is None and front.chosen == AS_IT_IS


def _space(without: tuple[str, ...]) -> Any:
    from ..core.errors import InputError
    from ..optimize.search import Space

    known = (*Space().smaller, "quantize")
    for name in without:
        if name not in known:
            raise InputError(f"--without is one of {', '.join(known)}, found {name!r}")
    smaller = tuple(name for name in Space().smaller if name not in without)
    return Space(smaller, () if "quantize" in without else Space().quantized)


def _question(model: Any, data: str | None, labels: str | None, preprocess: str | None, needed: bool) -> Any:
    from ..core.errors import InputError
    from ..study.images import Question

    if needed and data is None and model.data is None:
        raise InputError(
            f"a search needs labelled images, and {model.label} has none of its own",
            "--data FOLDER, or name a --recipe",
        )
    return Question(data, labels, preprocess)
