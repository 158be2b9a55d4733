"""What deciding takes: everything a chooser does about an image, but for its features and asking candidates."""

from __future__ import annotations

import statistics
import time

from ..core import registry
from ..measure.company import Others
from ..measure.rows import rows
from .course import followed, packed
from .policy import Policy
from .table import Scores, Table

# Images by which the time is taken, and times for each.
_IMAGES, _REPEATS = 100, 3


def deciding_ns(policy: Policy, table: Table, images: int = _IMAGES) -> float:
    """The mean over images, of each the median of several times. As in a chooser, other models ran before each step."""
    others = Others()
    found = [
        statistics.median(_decided_ns(policy, table, row, others) for _ in range(_REPEATS))
        for row in range(min(len(table), images))
    ]
    return statistics.fmean(found)


def stages_ns(table: Table) -> dict[str, float]:
    """What one stage takes to decide, of each kind of policy that has stages. Which candidates it has, and with what
    thresholds, makes no difference to speak of: a `specimen` will do."""
    found = {}
    for name in registry.names("select.policies"):
        module = registry.find("select.policies", name)
        if hasattr(module, "specimen"):
            policy = module.specimen(table)
            some = table.rows(range(min(len(table), _IMAGES)))
            stages = float(policy.replay(some).ran.sum(axis=1).mean())
            found[name] = deciding_ns(policy, some) / stages
    return found


def _decided_ns(policy: Policy, table: Table, row: int, others: Others) -> int:
    features = None if table.features is None else table.features[row]
    clock = time.perf_counter_ns
    asking_ns = 0

    def ask(candidate: int) -> Scores:
        nonlocal asking_ns
        begin = clock()
        found: Scores = table.scores[candidate][row]
        others.run()
        # What asking ends with: it finds as little in the caches, and leaves there what deciding needs, too.
        rows(found[None], probabilities=False)
        asking_ns += clock() - begin
        return found

    begin = clock()
    packed([followed(policy, features, ask)], len(table.candidates), table.classes)
    return clock() - begin - asking_ns
