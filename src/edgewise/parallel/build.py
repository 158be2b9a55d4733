"""A placement and a model to an Executable."""

from __future__ import annotations

from collections.abc import Sequence

from ..core import registry
from ..core.protocols import Executable
from ..core.types import Model, Placement


def build(
    model: Model,
    placement: Placement,
    parts: Sequence[tuple[Model, tuple[int, ...]]] = (),
    kept: str | None = None,
) -> Executable:
    """`parts` has, for each target of several, the model as it loads it, and the cores its process sits on; `kept` is a
    file for what is found out while it runs, and that the next one begins with."""
    if placement.kind == "single":
        target = placement.parts[0].target
        executable: Executable = registry.find("engines", target.engine).load(model, target)
        return executable
    if placement.kind == "deal":
        from .deal.stream import Deal

        return Deal(parts, placement)
    if placement.kind == "split":
        from .split.executable import Split

        return Split(parts, placement, kept=kept)
    if placement.kind == "stages":
        from .stages.executable import Stages

        return Stages(parts, placement)
    from .stages.abreast import Branches

    return Branches(parts, placement)
