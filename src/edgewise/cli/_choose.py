"""What `edgewise run` says of a plan that chooses a model for each image."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..core.chooser import Choosing
    from ..study.prepare import Limits


def choose(
    path: str, plan: Choosing, inputs: Sequence[str], top: int, labels: str | None, limits: Limits, json_: bool
) -> int:
    from ..core.chooser import Unanswered
    from ..core.errors import BY_NAME, InputError
    from ..core.records import dumps, to_json
    from ..data.dataset import class_names
    from ..report import format, terminal
    from ..report.why import why
    from ..study.choosers import opened
    from ..study.run_plan import check, choose_for
    from ._progress import Progress

    if not inputs:
        raise InputError("a chooser takes images: noise has no right answer", f"edgewise run {path} IMAGE…")
    names = class_names(labels) if labels else plan.classes
    check(inputs, None)
    found = opened(path, plan, limits)
    progress = Progress(1)
    out = terminal.console(sys.stdout)
    if not json_:
        shown = ", ".join(member.candidate.name for member in plan.members)
        out.print(f"{plan.policy} of {shown}", markup=False)
    results = []
    code = 0
    findings = list(found.findings)
    for image, answer in choose_for(
        found,
        inputs,
        limits,
        top=top,
        progress=lambda n: progress.detail(f"{n} of {len(inputs)}"),
        notice=findings.append,
    ):
        results.append({"input": image} | to_json(answer))
        if isinstance(answer, Unanswered):
            code = BY_NAME[answer.error].exit_code
        if json_:
            continue
        progress.done()
        if isinstance(answer, Unanswered):
            out.print(f"\n{image}: no answer\n  {answer.message}", markup=False)
            continue
        out.print(f"\n{image}: {format.time(answer.time_ns)}", markup=False)
        for place, share in answer.ranked:
            name = names[place] if 0 <= place < len(names) else f"class {place}"
            out.print(f"  {format.cell(share, 'accuracy'):>9}  {name}", markup=False)
        sure = "" if answer.confidence is None else f", confidence {format.cell(answer.confidence, 'accuracy')}"
        out.print(f"  {answer.model or 'nobody'} answered{sure}: {why(answer.why)}", markup=False)
        if len(answer.asked) > 1:
            out.print(f"  asked in turn: {', '.join(answer.asked)}", markup=False, style="dim")
    progress.done()
    if json_:
        named = {str(i): name for i, name in enumerate(names)}
        print(dumps({"plan": plan, "results": results, "findings": findings, "classes": named}))
        return code
    terminal.draw_findings(findings, out)
    return code
