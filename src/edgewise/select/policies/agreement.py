"""Two cheap candidates are asked, and a third only where they disagree: no threshold, and no faith in confidences.

After the agreement-based cascades of Kolawole et al. 2024, "Agreement-based cascading for efficient inference".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ...core.errors import InputError
from ..chain import Chain, Judged, checked, numbers
from ..pooling import pool
from ..search import Views
from ..table import Scores, Table
from .cascade import Confidence

# The first never answers alone; the second answers where it agrees with the first.
_THRESHOLDS = (1.0, 1.0)


@dataclass(frozen=True, slots=True)
class Agreement(Chain):
    """Three candidates, or one alone where no three are accurate enough. Those that agree answer together, by their
    `powers`; the third answers alone, sharpened by its own."""

    powers: tuple[float, ...]
    kind: ClassVar[str] = "agreement"

    def judge(self, scores: Sequence[Scores]) -> Judged:
        if len(scores) == len(self.chain):
            logs = pool(scores[-1:], self.powers[-1:])
        else:
            logs = pool(scores, self.powers[: len(scores)])
        agreed = len(scores) == 2 and scores[0].argmax(axis=1) == scores[1].argmax(axis=1)
        sure = np.zeros(len(logs)) + agreed
        return Judged(logs.astype(np.float32), sure, np.exp(logs.max(axis=1)))

    def saved(self) -> tuple[Mapping[str, Any], Mapping[str, NDArray[Any]]]:
        return {"candidates": list(self.chain), "powers": list(self.powers)}, {}


def fit(table: Table, *, objective: str = "time", max_loss: float = 0.0, top: int = 1) -> Agreement:
    """Two are asked, and a third where they do not agree: the cheapest three that are as accurate on the fitting images
    as the most accurate one, less `max_loss`."""
    views = Confidence(table, objective, top, "agreement")
    needed = views.enough - max_loss * len(table)
    answers = [each.argmax(axis=1) for each in table.scores]
    best: tuple[float, tuple[int, ...]] = (views.costs((views.reference,))[0], (views.reference,))
    for first, second in combinations(views.order, 2):
        agreed = answers[first] == answers[second]
        for third in views.order:
            costs = views.costs((first, second, third))
            cost = costs[1] + (costs[2] - costs[1]) * float(1 - agreed.mean())
            if third in (first, second) or cost >= best[0]:
                continue
            together = views.view((first, second), pooled=True).right
            if np.where(agreed, together, views.right[:, third]).sum() >= needed:
                best = (cost, (first, second, third))
    chain = best[1]
    return Agreement(chain, _THRESHOLDS[: len(chain) - 1], _powers(views, chain))


def _powers(views: Views, chain: tuple[int, ...]) -> tuple[float, ...]:
    last = views.view(chain[-1:], pooled=True).powers
    return (*views.view(chain[:2], pooled=True).powers, *last) if len(chain) > 1 else last


def specimen(candidates: int, classes: int) -> Agreement:
    """One that asks the first two, and a third where they disagree, to see what deciding takes."""
    chain = tuple(range(min(3, candidates)))
    return Agreement(chain, _THRESHOLDS[: len(chain) - 1], (1.0,) * len(chain))


def load(fields: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Agreement:
    given = fields.get("candidates")
    chain, _ = checked(
        {**fields, "thresholds": [0.0] * (len(given) - 1 if isinstance(given, list) else 0)}, "agreement"
    )
    if len(chain) not in (1, 3):
        raise InputError(f"an agreement is of two candidates and a third, found {len(chain)}")
    powers = numbers(fields.get("powers"), len(chain), "the powers of an agreement")
    return Agreement(chain, _THRESHOLDS[: len(chain) - 1], powers)
