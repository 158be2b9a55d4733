"""From what a user typed to cells that can run: targets completed, models derived and cached, references made."""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import math
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path

from .. import engines, zoo
from ..core.errors import EdgewiseError, InputError, StoreError, Unavailable, Unsupported
from ..core.records import from_json, to_json
from ..core.types import (
    PIECEWISE,
    STREAMS,
    Device,
    Failure,
    Machine,
    Measurement,
    Model,
    Placement,
    Result,
    Scenario,
    Target,
    Task,
)
from ..measure import isolate
from ..measure.cell import Cell, Session
from ..model import feeds
from ..model.graph import fixed
from ..optimize.quantize.options import PLAIN, Quantizing, saturates, unprofitable
from ..system.machine import cpu_quota, physical_cores, usable_cores
from ..zoo import pocket, pretrained
from . import home, images
from .survey import EngineFacts

REFERENCE = Target("ort", "cpu", threads=1, options=(("optimize", "none"),))
# Downloading and exporting a large network, on a slow line.
_FETCHING_S = 1800.0

Versions = tuple[tuple[str, str], ...]
# What has been measured of a task, by the engine's version and what it would be measured with.
Known = Callable[[Task, Versions, str], Measurement | None]

# Conversions that failed, so that not every target of an engine waits for the same failure again.
_UNCONVERTED: dict[str, EdgewiseError] = {}
# Models whose reference was tried and failed, so that not every target waits for it again.
_UNREFERENCED: set[str] = set()
# Doubts about int8 that were told: once is enough, however many targets quantize.
_DOUBTED: set[str] = set()


@dataclass(frozen=True, slots=True)
class Limits:
    """What a worker may take, and how inputs are made."""

    timeout_s: float = 120.0
    memory_bytes: int | None = None
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    calibration: str | None = None


def expand(names: Sequence[str]) -> tuple[str, ...]:
    """Patterns of built-in names (`pocket/*`) written out; what a shell would have found as files is left to it."""
    known = (*zoo.names(), *pocket.names())
    found: list[str] = []
    for name in names:
        matching = [each for each in known if fnmatchcase(each, name)] if "*" in name or "?" in name else []
        found += matching or [name]
    return tuple(dict.fromkeys(found))


def find_model(name: str, limits: Limits) -> Model:
    """A file, a built-in network by its name, or one from elsewhere (`timm:NAME`); parsed and checked in a worker."""
    path = Path(name)
    if os.path.exists(name):  # unlike Path.exists, also False for names no file system takes
        pass
    elif name in zoo.names():
        path = home.cache() / f"{name}.onnx"
        # Built anew each time: seconds at most, and never an older version's network.
        isolate.call("edgewise.zoo:export", timeout_s=limits.timeout_s, name=name, path=str(path))
    elif name in pocket.names():
        path = Path(pocket.path(name))
    elif pretrained.named(name):
        fetched = isolate.call(
            "edgewise.zoo.pretrained:fetch",
            timeout_s=max(limits.timeout_s, _FETCHING_S),
            name=name,
            folder=str(home.cache()),
        )
        path = home.used(Path(fetched))
    else:
        near = difflib.get_close_matches(name, (*zoo.names(), *pocket.names()), 3)
        raise InputError(
            f"there is no file {name}, and no built-in network of that name"
            + (f"; did you mean {' or '.join(near)}?" if near else ""),
            "edgewise zoo",
        )
    inspect = "edgewise.model.load:inspect" if _onnx(path) else "edgewise.engines:inspect"
    found = isolate.call(
        inspect,
        timeout_s=limits.timeout_s,
        memory_bytes=limits.memory_bytes,
        path=str(path),
    )
    model = from_json(Model, found)
    # A file is called by its own name, whatever folder it is in; anything else by the name it was asked for.
    return model if os.path.exists(name) else replace(model, label=name)


def default_targets(found: Sequence[EngineFacts], machine: Machine, model: Model) -> Iterator[Target]:
    """Every usable engine, device and precision, on one thread and on all; composites and `null` only when asked."""
    for engine in found:
        if engine.version is None or not engine.computes or not readable(engine, model):
            continue
        for device in engine.devices:
            if device.composite or device.emulated:
                continue
            for options in ((), *dict(engine.variants).get(device.name, ())):
                for precision in _precisions(device, model):
                    for threads in _thread_counts(device, machine):
                        yield Target(engine.name, device.name, precision, threads, (), options)


def _onnx(path: str | Path) -> bool:
    """Whether the file is taken for ONNX: all are that do not carry the suffix of an engine's own format."""
    return Path(path).suffix not in engines.formats()


def readable(engine: EngineFacts, model: Model) -> bool:
    if _onnx(model.path):
        return engines.ONNX in engine.reads or engine.converter is not None
    return Path(model.path).suffix in engine.reads


def _precisions(device: Device, model: Model) -> tuple[str, ...]:
    # TF32 is a GPU's shortcut, worth a look only where somebody asks for it.
    usable = tuple(p for p in device.precisions if p != "tf32")
    return ("int8",) if model.precision == "int8" and "int8" in usable else usable


def _thread_counts(device: Device, machine: Machine) -> tuple[int | None, ...]:
    if device.kind != "cpu":
        return (None,)
    most = _most_threads(machine, device.cores)
    return (1, most) if most > 1 else (1,)


def _most_threads(machine: Machine, cores: Sequence[int]) -> int:
    """One per physical core we may use, and no more than a container's quota pays for."""
    allowed = usable_cores(machine)
    count = len(physical_cores(machine, [core for core in cores if core in allowed] or allowed))
    quota = cpu_quota()
    return max(1, min(count, math.ceil(quota)) if quota else count)


def complete(target: Target, engine: EngineFacts, machine: Machine, model: Model) -> Target:
    """Fill in what was left open, so that a stored task says everything: `ort` becomes `ort:cpu:fp32@2`."""
    if engine.version is None:
        raise Unavailable(engine.reason, engine.hint)
    device = engine.device(target.device)
    precision = target.precision
    if precision is None:
        precision = model.precision if model.precision in device.precisions else device.precisions[0]
    elif precision not in device.precisions:
        raise Unsupported(
            f"{engine.name} does not run {precision} on {device.name} here; it runs {', '.join(device.precisions)}"
        )
    threads = target.threads
    if device.kind != "cpu" and threads is not None:
        raise Unsupported(f"threads have no effect on {device.name}, found @{threads}", "leave out the @")
    if device.kind == "cpu" and threads is None:
        threads = len(target.cores) or _most_threads(machine, device.cores)
    options = dict(dict(engine.defaults).get(precision, ())) | dict(target.options)
    return replace(
        target,
        device=target.device or device.name,
        precision=precision,
        threads=threads,
        options=tuple(sorted(options.items())),
    )


def completed(placement: Placement, engines: Sequence[EngineFacts], machine: Machine, model: Model) -> Placement:
    parts = [
        replace(part, target=complete(part.target, _facts(part.target, engines), machine, model))
        for part in placement.parts
    ]
    return replace(placement, parts=tuple(parts))


def engine_versions(placement: Placement, engines: Sequence[EngineFacts]) -> Versions:
    return tuple(sorted({(of.name, of.version or "") for of in (_facts(t, engines) for t in placement.targets)}))


def _facts(target: Target, engines: Sequence[EngineFacts]) -> EngineFacts:
    return next(engine for engine in engines if engine.name == target.engine)


def cores_for(target: Target, engine: EngineFacts, machine: Machine) -> tuple[int, ...]:
    """The cores a worker must sit on: those named, or the cluster's."""
    allowed = usable_cores(machine)
    wrong = [core for core in target.cores if core not in allowed]
    if wrong:
        raise InputError(f"{target} names core {wrong[0]}; usable here: {', '.join(map(str, allowed))}")
    if target.cores:
        return target.cores
    device = engine.device(target.device)
    return device.cores if device.kind == "cpu" and "." in device.name else ()


def cell(
    model: Model,
    placement: Placement,
    scenario: Scenario,
    machine: Machine,
    engines: Sequence[EngineFacts],
    limits: Limits,
) -> Cell | Failure:
    """One cell, or the reason why there is none."""
    made = cell_unless(_nothing, model, placement, scenario, machine, engines, limits)
    assert not isinstance(made, Measurement)
    return made


def cell_unless(
    known: Known,
    model: Model,
    placement: Placement,
    scenario: Scenario,
    machine: Machine,
    engines: Sequence[EngineFacts],
    limits: Limits,
) -> Cell | Result:
    """One cell, or what was measured of it: then neither a conversion nor a reference is made for it."""
    facts = [_facts(target, engines) for target in placement.targets]
    try:
        if placement.kind == "select":
            raise InputError(f"{placement} is where a chooser runs, and not one model", "edgewise bench PLAN")
        placement = completed(placement, engines, machine, model)
        targets = placement.targets
        cores = [cores_for(target, engine, machine) for target, engine in zip(targets, facts, strict=True)]
        shapes = feeds.shapes(model, scenario.batch, limits.shapes)
        subjects = [fixed(derived(model, target, machine, limits), shapes) for target in targets]
        conversions = [_conversion(*each) for each in zip(subjects, targets, facts, strict=True)]
        task = Task(model.digest, placement, scenario)
        versions = engine_versions(placement, engines)
        runs = "+".join(c or subject.digest for c, subject in zip(conversions, subjects, strict=True))
        inputs = feeds.digest(model, shapes, scenario.seed, runs, scenario.input)
        if (found := known(task, versions, inputs)) is not None:
            return found
        checked = any(engine.computes or target.option("over") for target, engine in zip(targets, facts, strict=True))
        # What is cut is converted piece by piece, where it will run.
        loaded = [
            _converted(subject, conversion, target, engine, limits)
            if conversion and placement.kind not in PIECEWISE
            else subject
            for subject, conversion, target, engine in zip(subjects, conversions, targets, facts, strict=True)
        ]
        return Cell(
            task=task,
            model=loaded[0],
            machine=machine.id,
            versions=versions,
            inputs=inputs,
            label=model.label,
            # Of a split, the worker itself is the first part; a stream is handed out from wherever there is room.
            cores=() if placement.kind in STREAMS else cores[0],
            reference=_reference(model, shapes, scenario, limits) if checked else None,
            memory_bytes=limits.memory_bytes,
            timeout_s=limits.timeout_s,
            parts=() if placement.kind == "single" else tuple(zip(loaded, cores, strict=True)),
            kept=_kept(task, loaded, cores, versions, machine) if placement.kind == "split" else None,
        )
    except StoreError:
        raise
    except EdgewiseError as error:
        return Failure.of(error, Task(model.digest, placement, scenario), machine.id, "prepare", model.label)


def _kept(
    task: Task, models: Sequence[Model], cores: Sequence[tuple[int, ...]], versions: Versions, machine: Machine
) -> str:
    """Where a split keeps the shares it found: after everything they depend on, competitors included."""
    # With the option or without, they are the same shares.
    targets = [
        replace(target, options=tuple(pair for pair in target.options if pair[0] != "shares"))
        for target in task.placement.targets
    ]
    of = [(model.digest, model.inputs) for model in models]
    key = repr((of, [*map(str, targets)], cores, versions, machine.id, str(task.scenario.contention)))
    return str(home.used(home.cache() / f"{hashlib.sha256(key.encode()).hexdigest()[:24]}-shares.json"))


def _nothing(task: Task, versions: Versions, inputs: str) -> None:
    return None


def derived(model: Model, target: Target, machine: Machine, limits: Limits) -> Model:
    """The model itself, or its int8 form where the target asks for one."""
    if target.precision != "int8" or model.precision == "int8" or not _onnx(model.path):
        return model
    if not target.device or target.device.startswith("cpu"):
        doubt(machine)
    return quantized(model, machine, limits)


def _note(text: str) -> None:
    # Over the line that moves there while something is measured.
    begin = "\r\x1b[2K" if sys.stderr.isatty() else ""
    sys.stderr.write(f"{begin}note: {text}\n")


def doubt(machine: Machine, tell: Callable[[str], None] = _note) -> None:
    """Tells, before anything is converted, that this processor will hardly profit from int8, where that is so."""
    found = unprofitable(machine)
    if found and found not in _DOUBTED:
        _DOUBTED.add(found)
        tell(found)


def quantized(model: Model, machine: Machine, limits: Limits, how: Quantizing = PLAIN) -> Model:
    """The int8 form of a model, or what else `how` says: made once, kept by digest."""
    source = (limits.calibration or images.own_calibration(model)) if how.calibrated else None
    shapes = feeds.shapes(model, 1, limits.shapes)
    path = home.cache() / _quantized_name(model, how, saturates(machine), source, shapes)
    if path.exists():
        made = isolate.call("edgewise.model.load:inspect", path=str(home.used(path)))
    else:
        home.trim()
        made = isolate.call(
            "edgewise.optimize.quantize:quantize_file",
            timeout_s=max(limits.timeout_s, 600.0),
            memory_bytes=limits.memory_bytes,
            model=to_json(model),
            shapes={name: list(shape) for name, shape in shapes.items()},
            path=str(path),
            vnni=not saturates(machine),
            calibration=source,
            given=how.given,
        )
    found = from_json(Model, made)
    # The file as what it is: a form of `model`, with all that is said of that.
    return replace(
        model, digest=found.digest, path=found.path, precision=how.precision, recipe=str(how), parent=model.digest
    )


def _quantized_name(
    model: Model, how: Quantizing, saturating: bool, source: str | None, shapes: Mapping[str, tuple[int, ...]]
) -> str:
    """After everything that what is in it depends on."""
    options = "".join(f"-{value}" for value in how.given.values())
    if how.precision == "fp16":
        return f"{model.digest}{options}.onnx"
    calibration = (file_digest(source) if source else "seeded") if how.calibrated else "uncalibrated"
    sizes = hashlib.sha256(repr(sorted(shapes.items())).encode()).hexdigest()[:8]
    return f"{model.digest}-int8-{'7' if saturating else '8'}bit-{calibration}-{sizes}{options}.onnx"


def _conversion(model: Model, target: Target, engine: EngineFacts) -> str | None:
    """The name of what the engine loads, where that is not the model itself."""
    if not readable(engine, model):
        takes = ", ".join(sorted({*engine.reads, *(() if engine.converter is None else (engines.ONNX,))}))
        raise Unsupported(f"{engine.name} reads {takes} files, and {Path(model.path).name} is none of them")
    if not _onnx(model.path) or engines.ONNX in engine.reads:
        return None
    wanted = sorted(pair for pair in target.options if pair[0] in engine.settings)
    key = repr((model.digest, engine.name, engine.version, engine.converter, model.inputs, wanted))
    return hashlib.sha256(key.encode()).hexdigest()[:24]


def _converted(model: Model, digest: str, target: Target, engine: EngineFacts, limits: Limits) -> Model:
    """The model in the engine's own format, made in a worker and kept by digest."""
    place = home.cache() / f"{digest}-{engine.name}"
    note = place / "converted"
    if digest in _UNCONVERTED:
        raise _UNCONVERTED[digest]
    if note.is_file():
        home.used(place)
    else:
        home.trim()
        # A folder of its own, renamed when all is there: a conversion cut short is never taken for one.
        with tempfile.TemporaryDirectory(dir=home.cache(), ignore_cleanup_errors=True) as part:
            try:
                made = isolate.call(
                    "edgewise.engines:convert",
                    timeout_s=max(limits.timeout_s, 300.0),
                    memory_bytes=limits.memory_bytes,
                    name=engine.name,
                    model=to_json(model),
                    target=str(target),
                    folder=part,
                )
            except EdgewiseError as error:
                _UNCONVERTED[digest] = error
                raise
            (Path(part) / note.name).write_text(Path(from_json(Model, made).path).name)
            with contextlib.suppress(OSError):  # somebody else was quicker
                os.rename(part, place)
        if not note.is_file():
            raise StoreError(f"the converted model cannot be kept in {place}", f"remove {place}, or make it writable")
    return replace(model, digest=digest, path=str(place / note.read_text()), parent=model.digest)


def file_digest(path: str) -> str:
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()[:12]
    except OSError as error:
        raise InputError(f"the calibration file {path} cannot be read: {error.strerror}") from None


def _reference(model: Model, shapes: Mapping[str, tuple[int, ...]], load: Scenario, limits: Limits) -> str | None:
    """Outputs of ONNX Runtime in fp32 with its optimizations off, on the same inputs; None where it cannot run."""
    inputs = (load.seed,) if load.input == "noise" else (load.seed, load.input)
    key = hashlib.sha256(repr((model.digest, sorted(shapes.items()), *inputs)).encode()).hexdigest()[:24]
    path = home.cache() / f"{key}-reference.npz"
    if path.exists():
        return str(home.used(path))
    if key in _UNREFERENCED:
        return None
    if not _onnx(model.path):
        return None
    task = Task(model.digest, Placement.single(REFERENCE), Scenario(seed=load.seed, input=load.input))
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with Session(
            Cell(
                task,
                fixed(model, shapes),
                "",
                (),
                "",
                model.label,
                memory_bytes=limits.memory_bytes,
                timeout_s=limits.timeout_s,
            )
        ) as session:
            session.open()
            session.worker.call("save_outputs", path=str(part))
    except EdgewiseError:
        # A model the reference cannot run is measured all the same, and says that it was not compared.
        _UNREFERENCED.add(key)
        part.unlink(missing_ok=True)
        return None
    part.replace(path)
    return str(path)
