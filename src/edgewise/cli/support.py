"""`edgewise support`: which operators of a model run where."""

from __future__ import annotations

import sys
from typing import Annotated


def run(
    model: Annotated[str, "an ONNX file, or a built-in network by name"],
    *,
    on: Annotated[tuple[str, ...], "a target, such as ncnn:vulkan.0; repeat for several (default: every device)"] = (),
    batch: Annotated[int, "the batch size"] = 1,
    shape: Annotated[tuple[str, ...], "sizes of an input, such as input=1x3x224x224"] = (),
    timeout: Annotated[float, "seconds a worker may take"] = 120.0,
    memory: Annotated[str | None, "the most a worker may allocate, such as 4GB"] = None,
    json_: Annotated[bool, "verdicts as JSON"] = False,
) -> int:
    """Show what each target does with each operator: supported, falls back to another device, or rejected and why."""
    from ..analyze import support as analysis
    from ..core.errors import BY_NAME
    from ..core.records import dumps
    from ..core.text import parse_target
    from ..core.types import Failure, Verdict
    from ..report import terminal
    from ..study.prepare import Limits
    from ..study.support import support
    from ._values import shapes, size_bytes

    found = support(
        model, [parse_target(text) for text in on], batch, Limits(timeout, size_bytes(memory), shapes(shape))
    )
    verdicts: dict[str, list[Verdict]] = {str(t): v for t, v in found if not isinstance(v, Failure)}
    failures = [failure for _, failure in found if isinstance(failure, Failure)]
    if json_:
        print(dumps({"verdicts": verdicts, "failures": failures}))
    else:
        out = terminal.console(sys.stdout)
        terminal.draw(analysis.run(verdicts), out, keep=("operator", *verdicts))
        terminal.draw_failures(failures, out)
    return BY_NAME[failures[0].error].exit_code if failures else 0
