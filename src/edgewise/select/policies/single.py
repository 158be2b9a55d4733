"""One candidate for everything: what every other policy must beat."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ...core.errors import InputError
from ..policy import Decision, Replayed
from ..table import Scores, Table, hits


@dataclass(frozen=True, slots=True)
class Single:
    candidate: int
    kind: ClassVar[str] = "single"

    @property
    def uses_features(self) -> bool:
        return False

    @property
    def candidates(self) -> Sequence[int]:
        return (self.candidate,)

    def begin(self, features: NDArray[np.float64] | None) -> Decision:
        return Decision(self.candidate)

    def after(self, ran: Sequence[int], scores: Sequence[Scores]) -> Decision:
        return Decision(None, scores[-1], float(np.exp(np.float64(scores[-1].max()))), "only")

    def replay(self, table: Table, *, top: int = 1) -> Replayed:
        scores = table.scores[self.candidate]
        ran = np.zeros((len(table), len(table.candidates)), np.bool_)
        ran[:, self.candidate] = True
        last = np.full(len(table), self.candidate)
        confidence = np.exp(scores.max(axis=1).astype(np.float64))
        return Replayed(scores.argmax(axis=1), ran, last, confidence, hits(scores, table.labels, top))

    def saved(self) -> tuple[Mapping[str, Any], Mapping[str, NDArray[Any]]]:
        return {"candidate": self.candidate}, {}


def fit(table: Table, *, objective: str = "time", max_loss: float = 0.0, top: int = 1) -> Single:
    """The cheapest of those that are at most `max_loss` less accurate than the most accurate one."""
    right = table.right(top).mean(axis=0)
    costs = table.costs(np.eye(len(table.candidates), dtype=np.bool_), objective)
    enough = [place for place in range(len(costs)) if right[place] >= right.max() - max_loss - 1e-12]
    return Single(min(enough, key=lambda place: (costs[place], -right[place])))


def load(fields: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Single:
    candidate = fields.get("candidate")
    if not isinstance(candidate, int) or candidate < 0:
        raise InputError(f"a policy of one candidate names it by its place, found {candidate!r}")
    return Single(candidate)
