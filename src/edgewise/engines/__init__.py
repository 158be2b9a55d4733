"""One file per engine. An engine is a module with `version`, `devices` and `load`; more functions are more abilities.

    variants(device)               option sets worth trying by default, such as ((("ep", "xnnpack"),),)
    defaults()                     options that a precision needs on this machine, such as {"int8": (("isa", "avx2"),)}
    environment(target)            variables that must be set before the library is imported
    convert(model, folder, *, …)   writes an ONNX model in the engine's own format and returns the file's path;
                                   its keyword-only parameters are the target options that change the file
    converter()                    version of the converter, where it is not the engine's own
    inspect(path)                  describes a file in the engine's own format
    support(model, target)         what becomes of each operator
    among(target)                  the target as one of several executables in one process
    profile(model, target)         an instrumented executable, which knows what each operator took
    peaks(device)                  the roofs of a device that is not a CPU, and what could not be measured, with reasons

`READS` lists the suffixes of the files `load` takes (.onnx where it says nothing); `OPTIONS` what a target of it
understands; `COMPUTES = False` marks an engine whose answers mean nothing; `PACKAGE` and `EXTRA` say how to get it.
"""

from __future__ import annotations

import hashlib
import inspect as signatures
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

from ..core import registry
from ..core.errors import EngineFailure, Unavailable
from ..core.records import from_json, to_json
from ..core.text import parse_target
from ..core.types import Model, Target, Verdict

# Files of this folder that are not engines.
NOT_PLUGINS = ("conformance",)
# What an engine can do beyond the three functions, by the function that does it.
ABILITIES = {
    "variants": "further kernel libraries",
    "defaults": "precisions tried here",
    "environment": "kernel ceiling",
    "convert": "conversion",
    "support": "operator support",
    "profile": "operator times",
    "peaks": "measured roofs",
}
ONNX = ".onnx"


def describe(name: str) -> dict[str, Any]:
    """What the engine `name` is and can do here, as JSON: run in a worker, since it imports the library."""
    engine = registry.find("engines", name)
    try:
        version = engine.version()
    except ImportError as error:
        package, extra = getattr(engine, "PACKAGE", name), getattr(engine, "EXTRA", None)
        wanted = f"'edgewise[{extra}]'" if extra else package
        raise Unavailable(f"{name} needs the package {package!r} ({error})", f"pip install {wanted}") from None
    devices = engine.devices()
    variants = getattr(engine, "variants", None)
    return {
        "version": version,
        "devices": [to_json(device) for device in devices],
        "variants": {d.name: to_json(variants(d)) for d in devices} if variants else {},
        "defaults": to_json(engine.defaults()) if hasattr(engine, "defaults") else {},
        "functions": [ability for ability in ABILITIES if hasattr(engine, ability)],
        "options": list(getattr(engine, "OPTIONS", ())),
        "computes": getattr(engine, "COMPUTES", True),
        "reads": list(reads(engine)),
        "converter": _converter(engine, version),
        "settings": list(settings(engine)) if hasattr(engine, "convert") else [],
    }


def _converter(engine: ModuleType, version: str) -> str | None:
    """What a conversion depends on besides the model; None where the engine converts nothing.

    The converter's version (nothing where it is missing, as `convert` will say), the libraries that fold constants and
    infer sizes, and our own part: a file written by yesterday's code is not today's.
    """
    if not hasattr(engine, "convert"):
        return None
    try:
        own = str(engine.converter()) if hasattr(engine, "converter") else version
    except (ImportError, Unavailable):
        own = ""
    here = Path(__file__).parent
    name = engine.__name__.rpartition(".")[2]
    sources = [*sorted((here / f"_{name}").glob("*.py")), *here.glob("_*.py"), here.parent / "model" / "graph.py"]
    digest = hashlib.sha256(Path(str(engine.__file__)).read_bytes())
    for source in sources:
        digest.update(source.read_bytes())
    libraries = [f"{library} {metadata.version(library)}" for library in ("onnx", "onnx-ir")]
    return ", ".join([own, *libraries, digest.hexdigest()[:12]])


def reads(engine: ModuleType) -> tuple[str, ...]:
    return tuple(getattr(engine, "READS", (ONNX,)))


def formats() -> dict[str, str]:
    """Suffixes of the formats other than ONNX, each with the engine that describes its files."""
    engines = {name: registry.find("engines", name) for name in registry.names("engines")}
    return {
        suffix: name
        for name, engine in engines.items()
        if hasattr(engine, "inspect")
        for suffix in reads(engine)
        if suffix != ONNX
    }


def inspect(path: str) -> Model:
    """A file in an engine's own format, described by that engine; run in a worker, as `describe`."""
    suffix = Path(path).suffix
    name = formats()[suffix]
    engine = registry.find("engines", name)
    try:
        engine.version()  # says what is missing, before a file is judged by what is not there
        found: Model = engine.inspect(path)
    except ImportError as error:
        wanted = getattr(engine, "EXTRA", name)
        raise Unavailable(
            f"a {suffix} file needs the engine {name} ({error})", f"pip install 'edgewise[{wanted}]'"
        ) from None
    return found


def settings(engine: ModuleType) -> tuple[str, ...]:
    """The target options that change what `convert` writes."""
    parameters = signatures.signature(engine.convert).parameters.values()
    return tuple(each.name for each in parameters if each.kind is each.KEYWORD_ONLY)


def converted(name: str, model: Model, target: Target, folder: str) -> Model:
    """`model` written into `folder` in the engine's own format; names and sizes stay those of the original."""
    engine = registry.find("engines", name)
    wanted = {key: value for key, value in target.options if key in settings(engine)}
    made = Path(engine.convert(model, folder, **wanted))
    if not made.exists() or made.parent != Path(folder):
        raise EngineFailure(f"{name} converted {model.label} and left no file")
    return replace(model, path=str(made), parent=model.digest)


def convert(name: str, model: dict[str, Any], target: str, folder: str) -> Model:
    """`converted`, as a worker is asked for it."""
    return converted(name, from_json(Model, model), parse_target(target), folder)


def support(model: dict[str, Any], target: str) -> list[Verdict]:
    """What the engine of `target` does with each operator, as a worker is asked for it."""
    wanted = parse_target(target)
    found: list[Verdict] = list(registry.find("engines", wanted.engine).support(from_json(Model, model), wanted))
    return found


def peaks(name: str, device: str) -> dict[str, Any]:
    """The roofs of an engine's device, and what of them is missing, as a worker is asked for them."""
    found, missing = registry.find("engines", name).peaks(device)
    return {"roofs": to_json(tuple(found)), "missing": to_json(tuple(missing))}
