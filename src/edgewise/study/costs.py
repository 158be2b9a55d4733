"""What models cost, counted once per store: so that a report can say FLOPs and parameters without the files."""

from __future__ import annotations

from ..analyze.evidence import Costed
from ..core.errors import EdgewiseError, StoreError
from ..core.records import from_json, to_json
from ..core.types import Model
from ..measure import isolate
from ..model import feeds
from ..model.cost import Cost
from ..model.graph import fixed
from ..store.db import Store
from ..store.kept import Kept
from .prepare import Limits


def keep_cost(store: Store, model: Model, batch: int, limits: Limits) -> Costed | None:
    """The cost of `model`: the one the store has, or else counted in a worker at this batch size, and kept.

    None where it cannot be counted (an engine's own format, sizes left open, a graph that is damaged): that is nothing
    to stop a measurement for.
    """
    kept = Kept(store)
    found = kept.find("cost", model.digest, Costed)
    if found is not None:
        return found
    try:
        counted = isolate.call(
            "edgewise.model.cost:cost_of",
            timeout_s=limits.timeout_s,
            memory_bytes=limits.memory_bytes,
            model=to_json(fixed(model, feeds.shapes(model, batch, limits.shapes))),
        )
    except StoreError:
        raise
    except EdgewiseError:
        return None
    costed = Costed(model.digest, model.label, batch, from_json(Cost, counted))
    kept.keep("cost", model.digest, costed)
    return costed
