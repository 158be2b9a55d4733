"""What deciding takes: everything a chooser does about an image, but for its features and asking candidates."""

from __future__ import annotations

import statistics
import time

from ..core import registry
from .course import followed, packed
from .policy import Policy
from .table import Table

# Images by which the time is taken, and times for each.
_IMAGES, _REPEATS = 200, 3


def deciding_ns(policy: Policy, table: Table, images: int = _IMAGES) -> float:
    """The mean over images. Of several times for one image the least counts: what else the machine does only adds."""
    rows = range(min(len(table), images))
    return statistics.fmean(min(_decided_ns(policy, table, row) for _ in range(_REPEATS)) for row in rows)


def stages_ns(table: Table) -> dict[str, float]:
    """What one stage takes to decide, of each kind of policy that has stages. Which candidates it has, and with what
    thresholds, makes no difference to speak of: a `specimen` will do."""
    found = {}
    for name in registry.names("select.policies"):
        module = registry.find("select.policies", name)
        if hasattr(module, "specimen"):
            policy = module.specimen(table)
            rows = table.rows(range(min(len(table), _IMAGES)))
            stages = float(policy.replay(rows).ran.sum(axis=1).mean())
            found[name] = deciding_ns(policy, rows) / stages
    return found


def _decided_ns(policy: Policy, table: Table, row: int) -> int:
    features = None if table.features is None else table.features[row]
    scores = [each[row] for each in table.scores]
    clock = time.perf_counter_ns
    begin = clock()
    course = followed(policy, features, scores.__getitem__)
    packed([course], len(scores), table.classes)
    return clock() - begin
