"""One file per engine. An engine is a module with `version`, `devices` and `load`; more functions are more abilities.

    variants(device)     option sets worth trying by default, such as ((("ep", "xnnpack"),),)
    defaults()           options that a precision needs on this machine, such as {"int8": (("isa", "avx2"),)}
    environment(target)  variables that must be set before the library is imported

`OPTIONS` names what a target of it understands; `COMPUTES = False` marks an engine whose answers mean nothing;
`PACKAGE` and `EXTRA` say how to get it.
"""

from __future__ import annotations

from typing import Any

from ..core import registry
from ..core.errors import Unavailable
from ..core.records import to_json

# Files of this folder that are not engines.
NOT_PLUGINS = ("conformance",)
# What an engine can do beyond the three functions, by the function that does it.
ABILITIES = {
    "variants": "further execution providers",
    "defaults": "precisions tried here",
    "environment": "kernel ceiling",
    "support": "operator support",
    "profile": "operator times",
    "bind": "zero copy",
}


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
        "abilities": [words for ability, words in ABILITIES.items() if hasattr(engine, ability)],
        "options": list(getattr(engine, "OPTIONS", ())),
        "computes": getattr(engine, "COMPUTES", True),
    }
