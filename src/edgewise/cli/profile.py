"""`edgewise profile`: what each operator takes."""

from __future__ import annotations

import sys
from typing import Annotated


def run(
    model: Annotated[str, "a model file, or a built-in network by name"],
    *,
    on: Annotated[tuple[str, ...], "a target, such as openvino:cpu@1; repeat for several"] = ("ort",),
    batch: Annotated[int, "the batch size"] = 1,
    shape: Annotated[tuple[str, ...], "sizes of an input, such as input=1x3x224x224"] = (),
    calibration: Annotated[str | None, "an .npz with one array per input, for int8 (default: seeded noise)"] = None,
    timeout: Annotated[float, "seconds a worker may take"] = 120.0,
    memory: Annotated[str | None, "the most a worker may allocate, such as 4GB"] = None,
    json_: Annotated[bool, "raw operator times as JSON"] = False,
) -> int:
    """Show where the time of an inference goes, operator by operator, and what looking costs.

    Plain and instrumented runs take turns, so the overhead shown is of this model on this machine.
    """
    from ..analyze import breakdown
    from ..core.errors import BY_NAME
    from ..core.records import dumps
    from ..core.types import Failure, Scenario
    from ..measure.profile import profile
    from ..report import terminal
    from ..study.prepare import Limits
    from ..study.request import request
    from ._values import shapes, size_bytes

    limits = Limits(timeout, size_bytes(memory), shapes(shape), calibration)
    wanted = request((model,), tuple(dict.fromkeys(on)), (batch,), [Scenario()], limits)
    profiles = [cell if isinstance(cell, Failure) else profile(cell) for cell in wanted.cells()]
    failures = [each for each in profiles if isinstance(each, Failure)]
    if json_:
        print(dumps({"machine": wanted.machine, "profiles": profiles}))
    else:
        out = terminal.console(sys.stdout)
        for each in profiles:
            if not isinstance(each, Failure):
                out.print(f"{each.label} on {each.task.placement}\n", markup=False)
                terminal.draw(breakdown.run(each), out, keep=("operator", "slowest"))
                out.print()
        terminal.draw_failures(failures, out)
    return BY_NAME[failures[0].error].exit_code if failures else 0
