"""`edgewise engines check`: does an engine do what every engine must?"""

from __future__ import annotations

import sys
from collections import Counter
from typing import Annotated


def run(
    action: Annotated[str, "check"],
    name: Annotated[str, "the engine"],
    *,
    device: Annotated[str | None, "one of its devices (default: its first)"] = None,
    json_: Annotated[bool, "outcomes as JSON"] = False,
) -> int:
    """Run the conformance suite on an engine: right answers, refusals, errors, leaks.

    `pass` and `refused` (with a reason) are both fine; `fail` is not, and makes the exit code 6.
    """
    from ..core import registry
    from ..core.errors import CheckFailed, InputError
    from ..core.records import dumps
    from ..report import terminal
    from ..study.conformance import conformance
    from ..study.survey import survey

    if action != "check":
        raise InputError(f"engines has no {action!r}; it has check", f"edgewise engines check {name}")
    registry.find("engines", name)
    facts = survey([name])[1][0]
    if facts.version is None:
        from ..core.errors import Unavailable

        raise Unavailable(facts.reason, facts.hint)
    if device is not None:
        facts.device(device)
    out = terminal.console(sys.stdout)
    colours = {"pass": "green", "fail": "bold red", "refused": "yellow", "skip": "dim"}
    outcomes = []
    for outcome in conformance(name, device):
        outcomes.append(outcome)
        if not json_:
            out.print(f"[{colours[outcome.verdict]}]{outcome.verdict:8}[/] {outcome.check}", end="")
            out.print(f"  {outcome.reason}" if outcome.reason else "", markup=False)
    counts = Counter(outcome.verdict for outcome in outcomes)
    if json_:
        print(dumps({"engine": name, "version": facts.version, "outcomes": outcomes}))
    else:
        out.print(f"\n{name} {facts.version}: " + ", ".join(f"{n} {verdict}" for verdict, n in sorted(counts.items())))
    return CheckFailed.exit_code if counts["fail"] else 0
