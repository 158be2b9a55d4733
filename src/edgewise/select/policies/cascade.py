"""The cheapest first; the next one only where those asked so far, taken together, are not sure enough.

Thresholds, candidates, their order, whether earlier answers count at later stages and what sureness is measured by are
chosen together: the cheapest of all on the fitting images that is as accurate as the reference, less what may be lost.
`greedy` instead builds the chain block by block, each no less accurate than the reference on what it answers (Streeter
2018, "Approximation algorithms for cascading prediction models"). `plain` has one threshold of the largest probability
for all stages, and nothing else is fitted.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ...core.errors import InputError
from ..chain import Chain, Judged, checked, checked_powers
from ..plain import plain
from ..pooling import Floats, pool
from ..search import Views, cheapest, check_stages, finalists, greedy
from ..table import Scores, Table

# How sure a row of probabilities is: its first two's distance, or the odds of its first.
MEASURES = ("margin", "odds")
# Odds beyond what a 64-bit float tells from certainty.
_CERTAIN = 1e-15


def sureness(logs: Floats, measure: str) -> Floats:
    """In log-odds either way, so that thresholds can be raised and lowered alike."""
    return _sure(*_first_two(logs), measure)


def _first_two(logs: Floats) -> tuple[Floats, Floats]:
    """The largest of each row, and the next."""
    if logs.shape[1] == 1:
        return logs[:, 0], logs[:, 0]
    ends = np.partition(logs, logs.shape[1] - 2, axis=1)
    return ends[:, -1], ends[:, -2]


def _sure(first: Floats, second: Floats, measure: str) -> Floats:
    if measure == "margin":
        return first - second
    odds: Floats = first - np.log(np.maximum(1 - np.exp(first), _CERTAIN))
    return odds


@dataclass(frozen=True, slots=True)
class Cascade(Chain):
    """`powers[stage]` has what the answers so far are multiplied with, one for each candidate asked until then."""

    powers: tuple[tuple[float, ...], ...]
    measure: str
    kind: ClassVar[str] = "cascade"

    def judge(self, scores: Sequence[Scores]) -> Judged:
        logs = pool(scores, self.powers[len(scores) - 1])
        first, second = _first_two(logs)
        return Judged(logs.astype(np.float32), _sure(first, second, self.measure), np.exp(first))

    def raised(self, by: float) -> Cascade:
        """All thresholds by so much log-odds."""
        return replace(self, thresholds=tuple(threshold + by for threshold in self.thresholds))

    def saved(self) -> tuple[Mapping[str, Any], Mapping[str, NDArray[Any]]]:
        fields = {
            "candidates": list(self.chain),
            "thresholds": list(self.thresholds),
            "powers": [list(each) for each in self.powers],
            "measure": self.measure,
        }
        return fields, {}


class Confidence(Views):
    """Sure by the probabilities alone."""

    measures = MEASURES

    def sure(self, logs: Floats) -> Mapping[str, Floats]:
        return {measure: sureness(logs, measure) for measure in MEASURES}


def fit(
    table: Table,
    *,
    objective: str = "time",
    max_loss: float = 0.0,
    stages: int = 4,
    careful: float = 0.5,
    how: str = "search",
    top: int = 1,
) -> Cascade:
    """The cheap one first, and the next one where it is not sure. `max_loss`: how much less accurate than the most
    accurate candidate it may be, on the fitting images. `stages`: as many at most. `careful`: by how many standard
    errors of that difference it must stay away from it: the best of many looks better than it is. `how`: search,
    greedy or plain.
    """
    check(stages=stages, careful=careful, how=how)
    views = Confidence(table, objective, top, "cascade")
    if how == "greedy":
        chosen = greedy(views, max_loss=max_loss, stages=stages)
    elif how == "plain":
        chosen = plain(views, max_loss=max_loss)
    else:
        finals = finalists(views, max_loss=max_loss, stages=stages)
        chosen = cheapest(views, finals, max_loss=max_loss, careful=careful)
    return Cascade(chosen.chain, chosen.thresholds, chosen.powers, chosen.measure)


def check(*, stages: int, careful: float, how: str) -> None:
    """What no table makes sense of is refused."""
    check_stages(stages, careful)
    if how not in ("search", "greedy", "plain"):
        raise InputError(f"a cascade is found by search, greedy or plain, found how = {how!r}")


def specimen(candidates: int, classes: int) -> Cascade:
    """One that asks all of three, to see what deciding takes."""
    chain = tuple(range(min(3, candidates)))
    powers = tuple((1 / (stage + 1),) * (stage + 1) for stage in range(len(chain)))
    return Cascade(chain, (math.inf,) * (len(chain) - 1), powers, MEASURES[0])


def load(fields: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Cascade:
    chain, thresholds = checked(fields, "cascade")
    measure = fields.get("measure")
    if measure not in MEASURES:
        raise InputError(f"a cascade is sure by {' or '.join(MEASURES)}, found {measure!r:.80}")
    return Cascade(chain, thresholds, checked_powers(fields, len(chain), "cascade"), measure)
