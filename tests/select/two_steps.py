"""A policy as somebody else would write one, in a package of their own: the cheapest candidate where it is sure, else
the most accurate. The threshold is kept in an array, so that there is a file beside the plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from edgewise.core.errors import InputError
from edgewise.select.policy import Decision, Replayed
from edgewise.select.table import Scores, Table, hits


@dataclass(frozen=True, slots=True)
class TwoSteps:
    first: int
    second: int
    threshold: float
    kind: ClassVar[str] = "two_steps"

    @property
    def uses_features(self) -> bool:
        return False

    @property
    def candidates(self) -> Sequence[int]:
        return (self.first, self.second)

    def begin(self, features: NDArray[np.float64] | None) -> Decision:
        return Decision(self.first)

    def after(self, ran: Sequence[int], scores: Sequence[Scores]) -> Decision:
        sure = float(np.exp(scores[-1].max().astype(np.float64)))
        if len(ran) == 1 and sure < self.threshold:
            return Decision(self.second)
        return Decision(None, scores[-1], sure, "sure" if len(ran) == 1 else "last")

    def replay(self, table: Table, *, top: int = 1) -> Replayed:
        first, second = table.scores[self.first], table.scores[self.second]
        further = np.exp(first.max(axis=1).astype(np.float64)) < self.threshold
        scores = np.where(further[:, None], second, first)
        ran = np.zeros((len(table), len(table.candidates)), np.bool_)
        ran[:, self.first] = True
        ran[further, self.second] = True
        last = np.where(further, self.second, self.first)
        confidence = np.exp(scores.max(axis=1).astype(np.float64))
        return Replayed(scores.argmax(axis=1), ran, last, confidence, hits(scores, table.labels, top))

    def saved(self) -> tuple[Mapping[str, Any], Mapping[str, NDArray[Any]]]:
        return {"first": self.first, "second": self.second}, {"threshold": np.array([self.threshold])}


def fit(table: Table, *, objective: str = "time", threshold: float = 0.9) -> TwoSteps:
    costs = [candidate.cost(objective) for candidate in table.candidates]
    return TwoSteps(int(np.argmin(costs)), int(table.right().mean(axis=0).argmax()), threshold)


def load(fields: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> TwoSteps:
    if "threshold" not in arrays:
        raise InputError("a policy of two steps has a threshold")
    return TwoSteps(fields["first"], fields["second"], float(arrays["threshold"][0]))
