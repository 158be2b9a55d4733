"""`edgewise run`: a plan executed on what you give it."""

from __future__ import annotations

import sys
from typing import Annotated


def run(
    plan: Annotated[str, "the plan, as `edgewise tune` or `edgewise select fit` writes it"],
    inputs: Annotated[tuple[str, ...], "images, or .npz and .npy files of inputs (default: seeded noise)"] = (),
    *,
    data: Annotated[str | None, "a folder of images to run as well"] = None,
    output: Annotated[str | None, "keep all outputs in this .npz"] = None,
    top: Annotated[int, "how many classes to show"] = 5,
    labels: Annotated[str | None, "class names in the order of the model's outputs, one per line"] = None,
    preprocess: Annotated[str | None, "how an image becomes the input (default: as the plan says)"] = None,
    timeout: Annotated[float, "seconds a worker may take to load, or for one part of the inputs"] = 120.0,
    memory: Annotated[str | None, "the most a worker may allocate, such as 4GB"] = None,
    json_: Annotated[bool, "everything as JSON"] = False,
) -> int:
    """Run a plan on images, or on arrays for models that take something else.

    Classes are shown with their share of the softmax; other outputs with shape and range. Latency is of each inference,
    without decoding and preparing. Without an input, seeded noise shows that it runs, and how fast. A plan that chooses
    says which model answered and why; its time is with preparing and choosing.
    """
    from ..core.chooser import Choosing
    from ..core.errors import InputError, rebuild
    from ..core.preprocess import parse_preprocess
    from ..core.records import dumps
    from ..core.types import Failure
    from ..data.dataset import class_names
    from ..report import format, terminal
    from ..study import plans
    from ..study.prepare import Limits
    from ..study.run_plan import check, images_in, run_plan
    from . import _values as values
    from ._choose import choose
    from ._progress import Progress

    if top < 1:
        raise InputError(f"--top is at least 1, found {top}")
    found = plans.read(plan)
    if isinstance(found, Choosing):
        if output or preprocess:
            raise InputError("a chooser keeps no outputs, and says itself how its models take an image", "--json")
        given = [*inputs, *(images_in(data) if data else [])]
        return choose(plan, found, given, top, labels, Limits(timeout, values.size_bytes(memory)), json_)
    how = str(parse_preprocess(preprocess)) if preprocess else found.model.preprocess
    names = class_names(labels) if labels else found.model.classes
    given = [*inputs, *(images_in(data) if data else [])]
    check(given, output)
    cell, changed = plans.ready(plan, found, Limits(timeout, values.size_bytes(memory)))
    if isinstance(cell, Failure):
        raise rebuild({"error": cell.error, "message": cell.message, "hint": cell.hint})
    progress = Progress(1)
    results = []
    out = terminal.console(sys.stdout)
    if not json_:
        out.print(f"{found.model.label} on {found.placement}, {found.scenario}", markup=False)
    for each in run_plan(
        cell, how, given, top=top, output=output, progress=lambda n: progress.detail(f"{n} of {len(given)}")
    ):
        results.append(each)
        if json_:
            continue
        progress.done()
        out.print(f"\n{each.input}: {format.time(each.latency_ns)}", markup=False)
        for place, share in each.ranked:
            name = names[place] if 0 <= place < len(names) else f"class {place}"
            out.print(f"  {format.cell(share, 'accuracy'):>9}  {name}", markup=False)
        for value in each.outputs if not each.ranked else ():
            shape = "x".join(map(str, value.shape)) or "scalar"
            span = "nothing finite" if value.low is None else f"from {value.low:.6g} to {value.high:.6g}"
            out.print(f"  {value.name}  {value.dtype} {shape}, {span}", markup=False)
    progress.done()
    if json_:
        named = {str(i): name for i, name in enumerate(names)}
        print(dumps({"plan": found, "results": results, "findings": changed, "classes": named}))
        return 0
    terminal.draw_findings(changed, out)
    if output:
        out.print(f"\nOutputs kept in {output}", markup=False, style="dim")
    return 0
