"""`edgewise accuracy`: how often models are right, on labelled images."""

from __future__ import annotations

import shlex
import sys
from typing import Annotated


def run(
    models: Annotated[tuple[str, ...], "model files, or built-in networks by name (pocket/small is a trained one)"],
    *,
    on: Annotated[tuple[str, ...], "a target, such as openvino:cpu:int8; repeat for several"] = ("ort",),
    data: Annotated[
        str | None, "a folder with one folder per class, a .csv list, an .npz (default: the model's own)"
    ] = None,
    labels: Annotated[str | None, "class names in the order of the model's outputs, one per line"] = None,
    preprocess: Annotated[
        str | None, "how an image becomes the input, such as 'imagenet(resize=256, crop=224)'"
    ] = None,
    calibration: Annotated[str | None, "images for int8, as for --data (default: some of the data, left out)"] = None,
    batch: Annotated[int, "images in one inference"] = 16,
    limit: Annotated[int | None, "ask about that many images only, drawn at random"] = None,
    seed: Annotated[int, "what --limit and calibration draw with"] = 0,
    classes: Annotated[bool, "a table per model of its classes, worst first"] = False,
    save: Annotated[str | None, "the store to save to (default: the one `edgewise show` shows)"] = None,
    resume: Annotated[bool, "go on where an interrupted run stopped: skip what the store has"] = False,
    timeout: Annotated[float, "seconds a worker may take to load, or for one part of the images"] = 120.0,
    memory: Annotated[str | None, "the most a worker may allocate, such as 4GB"] = None,
    json_: Annotated[bool, "every answer as JSON"] = False,
) -> int:
    """Ask models about labelled images and count how often they are right.

    Shares come with 95 % intervals; whatever was asked about the same images is compared in pairs with the first
    (McNemar's test). Precision, recall and F1 are means over the classes there are images of.
    """
    from ..analyze import accuracy as analysis
    from ..analyze import classes as by_class
    from ..core.errors import BY_NAME, InputError
    from ..core.evaluation import Evaluation
    from ..core.records import dumps
    from ..core.types import Failure, Scenario
    from ..report import terminal
    from ..store.db import Store
    from ..study import home
    from ..study.accuracy import accuracy
    from ..study.images import Question
    from ..study.prepare import Limits
    from ..study.request import request
    from . import _values as values
    from ._progress import Progress

    if batch < 1:
        raise InputError(f"--batch is at least 1, found {batch}")
    limits = Limits(timeout, values.size_bytes(memory), {}, calibration)
    path = save or str(home.default_store())
    with Store(path) as store:
        wanted = request(models, tuple(dict.fromkeys(on)), (), [Scenario()], limits)
        store.save_machine(wanted.machine)
        for model in wanted.models:
            store.save_model(model)
        progress = Progress(len(wanted.models) * len(wanted.targets))
        results: list[Evaluation | Failure] = []

        def show(who: str, count: int, done: int) -> None:
            if not done:
                progress.cell(len(results), f"{who}, {count} images")
            else:
                progress.detail(f"{done} answered")

        question = Question(data, labels, preprocess, limit, seed)
        try:
            for result in accuracy(
                wanted.models,
                wanted.targets,
                question,
                wanted.machine,
                wanted.engines,
                wanted.limits,
                store,
                show,
                batch=batch,
                resume=resume,
            ):
                results.append(result)
        except KeyboardInterrupt:
            progress.done()
            again = shlex.join(a for a in sys.argv[1:] if a != "--resume")
            print(f"interrupted: what was answered is saved in {path}", file=sys.stderr)
            print(f"hint: edgewise {again} --resume", file=sys.stderr)
            return 130
        progress.done()
    evaluations = [result for result in results if isinstance(result, Evaluation)]
    failures = [result for result in results if isinstance(result, Failure)]
    section = analysis.compared(evaluations)
    if json_:
        tables = [by_class.run(each) for each in evaluations]
        print(dumps({"machine": wanted.machine, "results": results, "section": section, "classes": tables}))
    else:
        out = terminal.console(sys.stdout)
        for images, about in dict.fromkeys((each.images, each.data_label) for each in evaluations):
            out.print(f"{images:,} images of {about}\n", markup=False)
        terminal.draw(section, out, keep=("model", "target"))
        for table in [by_class.run(each) for each in evaluations] if classes else []:
            out.print(f"\n[bold]{table.title}[/bold]")
            terminal.draw(table, out, keep=("class",))
        terminal.draw_failures(failures, out)
        shown = f"edgewise show {shlex.quote(save)}" if save else "edgewise show"
        out.print(f"\nSaved in {path}; see it with: {shown}", markup=False, style="dim")
    return BY_NAME[failures[0].error].exit_code if failures else 0
