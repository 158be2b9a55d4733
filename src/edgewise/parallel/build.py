"""A placement and a model to an Executable."""

from __future__ import annotations

from ..core import registry
from ..core.errors import Unsupported
from ..core.protocols import Executable
from ..core.types import Model, Placement


def build(model: Model, placement: Placement) -> Executable:
    if placement.kind != "single":
        raise Unsupported(
            f"this version runs a model on one target at a time, not as {placement.kind}",
            "name one target, such as --on " + str(placement.targets[0]),
        )
    target = placement.parts[0].target
    executable: Executable = registry.find("engines", target.engine).load(model, target)
    return executable
