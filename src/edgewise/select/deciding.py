"""What deciding takes: everything a chooser does about an image, but for its features and asking candidates."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from .course import Course, followed, packed
from .policy import Policy
from .table import Scores, Table

# Images by which the time is taken, and times for each.
_IMAGES, _REPEATS = 200, 3


def deciding_ns(policy: Policy, table: Table, images: int = _IMAGES) -> float:
    """The mean over images: by what a stage takes where that was measured among the candidates; timed otherwise, of
    several times for one image the least (what else the machine does only adds), and as much longer as deciding takes
    where models ran before."""
    company = table.company
    if company is not None and policy.kind in company.deciding_ns:
        return float(policy.replay(table).ran.sum(axis=1).mean()) * company.deciding_ns[policy.kind]
    found = [min(_decided_ns(policy, table, row) for _ in range(_REPEATS)) for row in range(min(len(table), images))]
    return statistics.fmean(found) * (1.0 if company is None else company.cold)


def _decided_ns(policy: Policy, table: Table, row: int) -> int:
    features = table.look(row)
    said = [each[row] for each in table.scores]
    return decided(policy, said.__getitem__, len(said), table.classes, features)[1]


def decided(
    policy: Policy,
    ask: Callable[[int], Scores],
    candidates: int,
    classes: int,
    features: NDArray[np.float64] | None = None,
) -> tuple[Course, int]:
    """An image to its end as a chooser takes it there, and what that took without what passed in `ask`."""
    clock = time.perf_counter_ns
    asking_ns = 0

    def asked(candidate: int) -> Scores:
        nonlocal asking_ns
        begin = clock()
        row = ask(candidate)
        asking_ns += clock() - begin
        return row

    begin = clock()
    course = followed(policy, features, asked)
    packed([course], candidates, classes)
    return course, clock() - begin - asking_ns
