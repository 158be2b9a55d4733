"""What a cut comes to, without running it."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from ...core.records import from_json
from ...core.text import parse_placement
from ...core.types import Model
from .executable import asked
from .plan import plan
from .source import source_for


def outline(model: dict[str, Any], placement: str) -> dict[str, int]:
    """How often the parts wait for each other, how many operators there are, and how many of them are shared out."""
    place = parse_placement(placement)
    shares = [part.share or 1.0 / len(place.parts) for part in place.parts]
    with tempfile.TemporaryDirectory(prefix="edgewise-") as folder:
        axis, targets = asked(place)
        made = plan(
            source_for([from_json(Model, model)] * len(targets), targets, Path(folder), axis).graph, [shares], axis
        )
    works = [work for work in made.works if work.only is None]
    shared = sum(work.edges is not None for work in works) + made.sums
    return {"exchanges": made.steps, "operators": len(works), "shared": shared}
