"""What each target does with each operator of a model: every engine asked in a worker of its own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..core.errors import EdgewiseError, Unsupported
from ..core.records import from_json, to_json
from ..core.types import Failure, Placement, Scenario, Target, Task, Verdict
from ..measure import isolate
from ..model import feeds
from ..model.graph import fixed
from .prepare import Limits, complete, derived, find_model, readable
from .survey import survey


def support(
    name: str, targets: Sequence[Target], batch: int, limits: Limits
) -> list[tuple[Target, list[Verdict] | Failure]]:
    """Verdicts by target; a target that cannot tell is a Failure. Without targets: every device that can tell."""
    machine, engines = survey({target.engine for target in targets} if targets else None)
    model = find_model(name, limits)
    shapes = feeds.shapes(model, batch, limits.shapes)
    asked = list(targets) or [
        Target(engine.name, device.name)
        for engine in engines
        if engine.computes and "support" in engine.functions and readable(engine, model)
        for device in engine.devices
        if not device.composite
    ]
    facts = {engine.name: engine for engine in engines}
    found: list[tuple[Target, list[Verdict] | Failure]] = []
    for target in asked:
        try:
            engine = facts[target.engine]
            whole = complete(target, engine, machine, model)
            if "support" not in engine.functions:
                raise Unsupported(f"{engine.name} does not tell what it supports")
            if not readable(engine, model):
                raise Unsupported(f"{engine.name} does not read {Path(model.path).name}")
            told = isolate.call(
                "edgewise.engines:support",
                timeout_s=limits.timeout_s,
                memory_bytes=limits.memory_bytes,
                model=to_json(fixed(derived(model, whole, machine, limits), shapes)),
                target=str(whole),
            )
            found.append((target, [from_json(Verdict, verdict) for verdict in told]))
        except EdgewiseError as error:
            task = Task(model.digest, Placement.single(target), Scenario(batch=batch))
            found.append((target, Failure.of(error, task, machine.id, "support", model.label)))
    return found
