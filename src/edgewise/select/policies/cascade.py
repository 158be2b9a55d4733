"""The cheapest first; the next one only where those asked so far, taken together, are not sure enough.

Thresholds, candidates, their order, whether earlier answers count at later stages and what sureness is measured by are
chosen together: the cheapest of all on the fitting images that is as accurate as the reference, less what may be lost.
`greedy` instead builds the chain block by block, each no less accurate than the reference on what it answers (Streeter
2018, "Approximation algorithms for cascading prediction models"). `plain` has one threshold of the largest probability
for all stages, and nothing else is fitted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ...core.errors import InputError
from ..chain import Judged, checked, checked_powers, decide, replay
from ..plain import plain
from ..policy import Decision, Replayed
from ..pooling import Floats, pool
from ..search import Views, cheapest, finalists, greedy
from ..table import Scores, Table

# How sure a row of probabilities is: its first two's distance, or the odds of its first.
MEASURES = ("margin", "odds")
# Odds beyond what a 64-bit float tells from certainty.
_CERTAIN = 1e-15


def sureness(logs: Floats, measure: str) -> Floats:
    """In log-odds either way, so that thresholds can be raised and lowered alike."""
    if logs.shape[1] == 1:
        return np.zeros(len(logs))
    first, second = _first_two(logs)
    if measure == "margin":
        return first - second
    share = np.exp(first)
    odds: Floats = first - np.log(np.maximum(1 - share, _CERTAIN))
    return odds


def _first_two(logs: Floats) -> tuple[Floats, Floats]:
    ends = np.partition(logs, logs.shape[1] - 2, axis=1)[:, -2:]
    return ends[:, 1], ends[:, 0]


@dataclass(frozen=True, slots=True)
class Cascade:
    """`powers[stage]` has what the answers so far are multiplied with, one for each candidate asked until then."""

    chain: tuple[int, ...]
    thresholds: tuple[float, ...]
    powers: tuple[tuple[float, ...], ...]
    measure: str
    kind: ClassVar[str] = "cascade"

    @property
    def uses_features(self) -> bool:
        return False

    @property
    def candidates(self) -> Sequence[int]:
        return self.chain

    def begin(self, features: NDArray[np.float64] | None) -> Decision:
        return Decision(self.chain[0])

    def after(self, ran: Sequence[int], scores: Sequence[Scores]) -> Decision:
        return decide(self.chain, self.thresholds, self._judge, scores)

    def replay(self, table: Table, *, top: int = 1) -> Replayed:
        return replay(self.chain, self.thresholds, self._judge, table, top)

    def _judge(self, scores: Sequence[Scores]) -> Judged:
        logs = pool(scores, self.powers[len(scores) - 1])
        return Judged(logs.astype(np.float32), sureness(logs, self.measure), np.exp(logs.max(axis=1)))

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
    """`max_loss`: how much less accurate than the most accurate candidate it may be, on the fitting images. `careful`:
    by how many standard errors of that difference it must stay away from it: the best of many looks better than it is.
    """
    if how not in ("search", "greedy", "plain"):
        raise InputError(f"a cascade is found by search, greedy or plain, found {how!r}")
    views = Confidence(table, objective, top)
    if how == "greedy":
        chosen = greedy(views, max_loss=max_loss, stages=stages)
    elif how == "plain":
        chosen = plain(views, max_loss=max_loss)
    else:
        finals = finalists(views, max_loss=max_loss, stages=stages)
        chosen = cheapest(views, finals, max_loss=max_loss, careful=careful)
    return Cascade(chosen.chain, chosen.thresholds, chosen.powers, chosen.measure)


def load(fields: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Cascade:
    chain, thresholds = checked(fields, "cascade")
    measure = fields.get("measure")
    if measure not in MEASURES:
        raise InputError(f"a cascade is sure by {' or '.join(MEASURES)}, found {measure!r:.80}")
    return Cascade(chain, thresholds, checked_powers(fields, len(chain), "cascade"), measure)
