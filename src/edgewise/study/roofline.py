"""What a roofline needs, found out and kept: roofs of processors, operator times, bytes moved, costs."""

from __future__ import annotations

from ..core.errors import EdgewiseError, StoreError
from ..core.profile import Profile
from ..core.records import from_json
from ..core.roofs import Roof, Roofs, Traffic, place
from ..core.types import Failure, Machine, Measurement, Target
from ..measure import isolate, traffic
from ..measure.cell import Cell
from ..measure.profile import profile
from ..store.db import Store
from ..store.kept import Kept
from ..system.affinity import physical_cores, usable_cores
from ..system.peaks import cpu
from .request import Request
from .survey import EngineFacts

_TIMEOUT_S = 300.0


def keep_roofs(store: Store, target: Target, request: Request, *, fresh: bool = False) -> Roofs:
    """The roofs of the processor `target` (a completed one) runs on: those the store has, or measured now and kept."""
    key = "\n".join((request.machine.id, place(target), str(target.threads)))
    kept = Kept(store)
    found = None if fresh else kept.find("roofs", key, Roofs)
    if found is None:
        found = _measured(target, request.machine, request.engine(target))
        kept.keep("roofs", key, found)
    return found


def _measured(target: Target, machine: Machine, engine: EngineFacts) -> Roofs:
    device = engine.device(target.device)
    if device.kind == "cpu":
        cores = _cores(target, machine, device.cores)
        return cpu.roofs(machine, cores, device=place(target), threads=target.threads)
    if "peaks" not in engine.functions:
        missing = ((device.name, f"{engine.name} has no way to measure the roofs of {device.name}"),)
        return Roofs(machine.id, place(target), None, (), missing)
    try:
        answer = isolate.call("edgewise.engines:peaks", timeout_s=_TIMEOUT_S, name=engine.name, device=device.name)
    except StoreError:
        raise
    except EdgewiseError as error:
        return Roofs(machine.id, place(target), None, (), ((device.name, error.message),))
    roofs = tuple(from_json(Roof, roof) for roof in answer["roofs"])
    return Roofs(machine.id, place(target), None, roofs, tuple((name, why) for name, why in answer["missing"]))


def _cores(target: Target, machine: Machine, cores: tuple[int, ...]) -> tuple[int, ...]:
    """As many as there are threads: those named, or whole cores first, then their second threads."""
    if target.cores:
        return target.cores[: target.threads]
    allowed = usable_cores(machine)
    mine = [core for core in cores if core in allowed] or list(allowed)
    whole = physical_cores(machine, mine)
    return (*whole, *(core for core in mine if core not in whole))[: target.threads]


def keep_profile(store: Store, cell: Cell, request: Request) -> Profile | Failure | None:
    """Operator times, where the engine tells them: those the store has of this version of it, or taken now and kept."""
    target = cell.task.placement.targets[0]
    if "profile" not in request.engine(target).functions:
        return None
    kept = Kept(store)
    for known in kept.all("profile", Profile):
        if (known.task, known.machine, known.versions) == (cell.task, cell.machine, cell.versions):
            return known
    found = profile(cell)
    if isinstance(found, Profile):
        kept.keep("profile", found.key, found)
    return found


def keep_traffic(store: Store, cell: Cell, measured: Measurement, request: Request) -> Traffic:
    """Bytes moved in a run, or the reason why they are not known; kept either way."""
    target = cell.task.placement.targets[0]
    device = request.engine(target).device(target.device)
    if device.kind == "cpu":
        found = traffic.of_measurement(measured)
    elif device.name.startswith("cuda"):
        found = traffic.of_gpu(cell)
    else:
        why = f"edgewise reads no counters of {device.name}"
        task = cell.task
        found = Traffic(task.subject, cell.label, task.placement, task.scenario, cell.machine, "none", None, 0, why)
    key = "\n".join((found.subject, str(found.placement), str(found.scenario), found.machine, found.source))
    Kept(store).keep("traffic", key, found)
    return found
