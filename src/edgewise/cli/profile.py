"""`edgewise profile`: what each operator takes."""

from __future__ import annotations

import shlex
import sys
from typing import Annotated


def run(
    model: Annotated[str, "a model file, or a built-in network by name"],
    *,
    on: Annotated[tuple[str, ...], "a target, such as openvino:cpu@1; repeat for several"] = ("ort",),
    by: Annotated[str | None, "type (of operator) or layer (default: both)"] = None,
    all_: Annotated[bool, "every layer, in the order they run, not only the slowest"] = False,
    batch: Annotated[int, "the batch size"] = 1,
    shape: Annotated[tuple[str, ...], "sizes of an input, such as input=1x3x224x224"] = (),
    calibration: Annotated[str | None, "an .npz with one array per input, for int8 (default: seeded noise)"] = None,
    save: Annotated[str | None, "the store to keep profiles in (default: the one `edgewise show` shows)"] = None,
    timeout: Annotated[float, "seconds a worker may take"] = 120.0,
    memory: Annotated[str | None, "the most a worker may allocate, such as 4GB"] = None,
    json_: Annotated[bool, "raw operator times as JSON"] = False,
) -> int:
    """Show where the time of an inference goes, by type of operator and by layer, and what looking costs.

    Plain and instrumented runs take turns, so the overhead shown is of this model on this machine. Times are as
    measured: operators, what lies between and around them, less what looking costs, are the plain latency.
    """
    from ..analyze import breakdown
    from ..analyze.evidence import Evidence
    from ..core.errors import BY_NAME, InputError
    from ..core.profile import Profile
    from ..core.records import dumps
    from ..core.types import Failure, Scenario
    from ..measure.profile import profile
    from ..report import terminal
    from ..store.db import Store
    from ..store.kept import Kept
    from ..study import home
    from ..study.prepare import Limits
    from ..study.request import request
    from ._progress import Progress
    from ._values import shapes, size_bytes

    if by not in (None, "type", "layer"):
        raise InputError(f"--by is type or layer, found {by!r}", f"edgewise profile {shlex.quote(model)} --by layer")
    limits = Limits(timeout, size_bytes(memory), shapes(shape), calibration)
    path = save or str(home.default_store())
    found: list[Profile | Failure] = []
    with Store(path) as store:
        wanted = request((model,), tuple(dict.fromkeys(on)), (batch,), [Scenario()], limits)
        store.save_machine(wanted.machine)
        for subject in wanted.models:
            store.save_model(subject)
        progress = Progress(len(wanted.pairs()))
        try:
            for number, cell in enumerate(wanted.cells()):
                progress.cell(number, f"{cell.label} on {cell.task.placement}, plain and instrumented in turns")
                taken = cell if isinstance(cell, Failure) else profile(cell)
                if isinstance(taken, Profile):
                    Kept(store).keep("profile", taken.key, taken)
                found.append(taken)
        except KeyboardInterrupt:
            progress.done()
            print(f"interrupted: {len(found)} of {len(wanted.pairs())} targets are done, in {path}", file=sys.stderr)
            print(f"hint: edgewise {shlex.join(sys.argv[1:])}", file=sys.stderr)
            return 130
        progress.done()
    profiles = [each for each in found if isinstance(each, Profile)]
    failures = [each for each in found if isinstance(each, Failure)]
    machines = {wanted.machine.id: wanted.machine}
    most = None if all_ else 10
    if json_:
        evidence = Evidence(machines, profiles=tuple(profiles))
        sections = [breakdown.run(evidence), breakdown.layers(evidence, most=most)] if profiles else []
        print(dumps({"machine": wanted.machine, "profiles": found, "sections": sections}))
    else:
        out = terminal.console(sys.stdout)
        for each in profiles:
            evidence = Evidence(machines, profiles=(each,))
            out.print(f"{each.label} on {each.task.placement}\n", markup=False)
            if by != "layer":
                terminal.draw(breakdown.run(evidence), out, keep=("operator", "slowest"))
                out.print()
            if by != "type":
                terminal.draw(breakdown.layers(evidence, most=most), out, keep=("layer", "operator"))
                out.print()
        terminal.draw_failures(failures, out)
        if profiles:
            out.print(f"Kept in {path}; draw it with: edgewise report {shlex.quote(path)}", style="dim")
    return BY_NAME[failures[0].error].exit_code if failures else 0
