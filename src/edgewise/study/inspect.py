"""What a model is made of: its file read, its sizes fixed, its graph taken apart, each in a worker."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from .. import engines
from ..core.errors import Unsupported
from ..core.records import from_json, to_json
from ..core.types import Model
from ..measure import isolate
from ..model import feeds
from ..model.cost import Cost
from ..model.graph import fixed
from .prepare import Limits, find_model


def inspect(name: str, batch: int, limits: Limits) -> tuple[Model, Cost]:
    """The model with its input sizes set, and what one run of it takes."""
    suffix = Path(name).suffix
    if suffix in engines.formats() and Path(name).exists():
        raise Unsupported(
            f"{Path(name).name} is in an engine's own format ({suffix}); inspect reads ONNX files",
            "inspect the ONNX file it was made from",
        )
    model = find_model(name, limits)
    sized = fixed(model, feeds.shapes(model, batch, limits.shapes))
    found = isolate.call(
        "edgewise.model.cost:cost_of",
        timeout_s=limits.timeout_s,
        memory_bytes=limits.memory_bytes,
        model=to_json(sized),
    )
    label = model.label if Path(name).exists() else name
    return replace(sized, label=label), from_json(Cost, found)
