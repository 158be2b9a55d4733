"""What each target does with each operator of a model: asked first, then tried, every engine in a worker of its own."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..analyze import trust
from ..core.errors import EdgewiseError, Unsupported
from ..core.records import from_json, to_json
from ..core.support import Partition, Support
from ..core.types import Failure, Machine, Model, Placement, Scenario, Start, Target, Task, Verdict
from ..measure import isolate
from ..measure.cell import Session
from ..model import feeds
from ..model.alone import Alone
from ..model.graph import fixed
from ..store.db import Store
from ..store.kept import Kept
from .prepare import Limits, cell, complete, derived, find_model, readable
from .survey import EngineFacts, survey

# Where the operators of a rejected node run is the user's choice; it is not on this target.
ELSEWHERE = "elsewhere"


def support(
    name: str, targets: Sequence[Target], batch: int, limits: Limits
) -> tuple[Machine, list[Support | Failure]]:
    """By target; one that cannot tell is a Failure. Without targets: every device that can tell."""
    machine, engines = survey({target.engine for target in targets} if targets else None)
    model = find_model(name, limits)
    asked = list(targets) or [
        Target(engine.name, device.name)
        for engine in engines
        if engine.computes and "support" in engine.functions and readable(engine, model)
        for device in engine.devices
        if not device.composite
    ]
    facts = {engine.name: engine for engine in engines}
    return machine, [_of(model, target, batch, machine, facts[target.engine], limits) for target in asked]


def support_of_cut(
    name: str, placement: Placement, batch: int, limits: Limits
) -> tuple[Machine, list[Support | Failure], list[Support | Failure]]:
    """Of the model as it is, and with the cut of this placement written into it, on each kind of target."""
    if placement.kind != "split":
        raise Unsupported(
            f"a {placement.kind} writes nothing into a model: ask about its targets",
            " ".join(f"--on '{target}'" for target in placement.targets),
        )
    targets = list(dict.fromkeys(replace(target, cores=(), threads=None) for target in placement.alone))
    machine, before = support(name, targets, batch, limits)
    model = find_model(name, limits)
    sized = fixed(model, feeds.shapes(model, batch, limits.shapes))
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        path = str(Path(folder) / "split.onnx")
        _call(
            "edgewise.parallel.split.rewrite:write", limits, model=to_json(sized), placement=str(placement), path=path
        )
        _, found = support(path, targets, batch, replace(limits, shapes={}))
    return machine, before, [replace(each, label=f"{model.label} | split") for each in found]


def _of(
    model: Model, target: Target, batch: int, machine: Machine, engine: EngineFacts, limits: Limits
) -> Support | Failure:
    scenario = Scenario(batch=batch)
    task = Task(model.digest, Placement.single(target), scenario)
    try:
        whole = complete(target, engine, machine, model)
        task = replace(task, placement=Placement.single(whole))
        if "support" not in engine.functions:
            raise Unsupported(f"{engine.name} does not tell what it supports")
        if not readable(engine, model):
            raise Unsupported(f"{engine.name} does not read {Path(model.path).name}")
        sized = fixed(derived(model, whole, machine, limits), feeds.shapes(model, batch, limits.shapes))
        told = _call("edgewise.engines:support", limits, model=to_json(sized), target=str(whole))
        verdicts = tuple(from_json(Verdict, verdict) for verdict in told)
        found = Support(
            model.digest,
            model.label,
            task.placement,
            machine.id,
            ((engine.name, engine.version or ""),),
            verdicts,
            _partitions(sized, verdicts, limits),
        )
        return _tried(found, model, whole, scenario, machine, engine, limits)
    except EdgewiseError as error:
        return Failure.of(error, task, machine.id, "support", model.label)


def _call(function: str, limits: Limits, **keywords: Any) -> Any:
    return isolate.call(function, timeout_s=limits.timeout_s, memory_bytes=limits.memory_bytes, **keywords)


def _partitions(model: Model, verdicts: Sequence[Verdict], limits: Limits) -> tuple[Partition, ...]:
    """None where the file is in an engine's own format: its graph is not ours to read."""
    where = {v.node: ELSEWHERE if v.verdict == "rejected" else v.device for v in verdicts}
    if Path(model.path).suffix != ".onnx":
        return ()
    made = _call("edgewise.model.partition:partition_of", limits, model=to_json(model), where=where)
    return tuple(from_json(Partition, each) for each in made)


def _tried(
    found: Support,
    model: Model,
    target: Target,
    scenario: Scenario,
    machine: Machine,
    engine: EngineFacts,
    limits: Limits,
) -> Support:
    """What loading it came to. Where its answer is wrong, every kind of node is tried alone to find the guilty."""
    start = _start(model, target, scenario, machine, engine, limits)
    if isinstance(start, Failure):
        return replace(found, failure=start.message)
    error = start.agreement.error if start.agreement else None
    found = replace(found, ran_on=start.ran.devices, error=error)
    explained = trust.EXPLAINED_ERROR[target.precision or "fp32"]
    if error is None or error <= explained:
        return found
    wrong: set[str] = set()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        sized = fixed(model, feeds.shapes(model, scenario.batch, limits.shapes))
        kinds = _call("edgewise.model.alone:alone_of", limits, model=to_json(sized), folder=folder)
        for kind in (from_json(Alone, each) for each in kinds):
            try:
                one = find_model(kind.path, limits)
            except EdgewiseError:
                continue
            tried = _start(one, target, Scenario(), machine, engine, limits)
            if isinstance(tried, Start) and tried.agreement and tried.agreement.error > explained:
                wrong |= set(kind.nodes)
    return replace(found, verdicts=tuple(_judged(v, wrong) for v in found.verdicts))


def _judged(verdict: Verdict, wrong: set[str]) -> Verdict:
    if verdict.node not in wrong:
        return verdict
    return replace(verdict, verdict="wrong", reason="tried by itself, it answers otherwise than the reference")


def _start(
    model: Model, target: Target, scenario: Scenario, machine: Machine, engine: EngineFacts, limits: Limits
) -> Start | Failure:
    prepared = cell(model, Placement.single(target), scenario, machine, [engine], limits)
    if isinstance(prepared, Failure):
        return prepared
    try:
        with Session(prepared) as session:
            return session.open()
    except EdgewiseError as error:
        return Failure.of(error, prepared.task, machine.id, "load", model.label)


def keep(store: Store, found: Support) -> None:
    """So that a report has it; asked again, the newer one counts."""
    Kept(store).keep("support", f"{found.subject} {found.placement} {found.machine}", found)
