"""`edgewise support`: which operators of a model run where."""

from __future__ import annotations

import sys
from typing import Annotated


def run(
    model: Annotated[str, "an ONNX file, or a built-in network by name"],
    *,
    on: Annotated[
        tuple[str, ...],
        "a target, such as ncnn:vulkan.0, or a split over several; repeat for more (default: every device)",
    ] = (),
    batch: Annotated[int, "the batch size"] = 1,
    shape: Annotated[tuple[str, ...], "sizes of an input, such as input=1x3x224x224"] = (),
    save: Annotated[str | None, "the store to save to (default: the one `edgewise show` shows)"] = None,
    timeout: Annotated[float, "seconds a worker may take"] = 120.0,
    memory: Annotated[str | None, "the most a worker may allocate, such as 4GB"] = None,
    json_: Annotated[bool, "verdicts and partitions as JSON"] = False,
) -> int:
    """Show what each target does with each operator: supported, falls back to another device, rejected, or wrong.

    Verdicts come first and cut the model into partitions; then it is loaded, to see whether they were right. Where its
    answer is wrong, every kind of operator in it is tried by itself. Of a split: which operators
    cutting the graph adds, and what the targets do with those.
    """
    from ..analyze import support as analysis
    from ..analyze.evidence import Evidence
    from ..core.errors import BY_NAME
    from ..core.records import dumps
    from ..core.support import Support
    from ..core.text import parse_placement
    from ..core.types import Failure
    from ..report import terminal
    from ..store.db import Store
    from ..study import home
    from ..study.prepare import Limits
    from ..study.support import keep, support, support_of_cut
    from ._values import shapes, size_bytes

    limits = Limits(timeout, size_bytes(memory), shapes(shape))
    placements = [parse_placement(text) for text in dict.fromkeys(on)]
    cuts = [placement for placement in placements if placement.kind != "single"]
    added = []
    found: list[Support | Failure] = []
    if not cuts or len(cuts) < len(placements):
        targets = [placement.targets[0] for placement in placements if placement.kind == "single"]
        machine, found = support(model, targets, batch, limits)
    for placement in cuts:
        machine, before, after = support_of_cut(model, placement, batch, limits)
        pairs = [
            (a, b) for a, b in zip(before, after, strict=True) if isinstance(a, Support) and isinstance(b, Support)
        ]
        if pairs:
            added.append(analysis.introduced([a for a, _ in pairs], [b for _, b in pairs]))
        found += [*before, *after]
    supports = tuple(each for each in found if isinstance(each, Support))
    failures = [each for each in found if isinstance(each, Failure)]
    with Store(save or str(home.default_store())) as store:
        store.save_machine(machine)
        for each in supports:
            keep(store, each)
    if json_:
        print(dumps({"supports": supports, "failures": failures, "added": added}))
    else:
        out = terminal.console(sys.stdout)
        for section in added:
            terminal.draw(section, out, keep=("operator", "added"))
            out.print()
        names = tuple(str(each.placement) for each in supports)
        if not added:
            terminal.draw(analysis.operators(supports), out, keep=("operator", *names))
        if supports:
            out.print()
            whole = Evidence(machines={machine.id: machine}, supports=supports)
            terminal.draw(analysis.run(whole), out, keep=("target", "tried"))
        terminal.draw_failures(failures, out)
    return BY_NAME[failures[0].error].exit_code if failures else 0
