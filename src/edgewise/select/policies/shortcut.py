"""A cascade whose first candidate may hand an image to the last at once.

Where the first is very unsure the ones between will be too, and asking them only delays the last: an image below a
second, lower threshold skips them. All else is as in a cascade.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ...core.errors import InputError
from ..chain import Judged, decide, numbers, prefix_costs
from ..policy import Decision, Replayed
from ..pooling import pool
from ..search import Views, cheapest, finalists, finite
from ..table import Scores, Table, hits
from ..thresholds import Found, Staged, answered, search
from . import cascade
from .cascade import Cascade, Confidence

# Chains that shortcuts are tried for, and the shares of images that take them.
_CHAINS = 4
_SHARES = np.arange(0.01, 0.41, 0.015)


@dataclass(frozen=True, slots=True)
class Shortcut:
    """`below`: how sure the first candidate must be for the next to be asked rather than the last; `direct`: the powers
    that the answers of these two are pooled with."""

    usual: Cascade
    below: float
    direct: tuple[float, ...]
    kind: ClassVar[str] = "shortcut"

    @property
    def uses_features(self) -> bool:
        return False

    @property
    def candidates(self) -> Sequence[int]:
        return self.usual.chain

    @property
    def chain(self) -> tuple[int, ...]:
        return self.usual.chain

    def begin(self, features: NDArray[np.float64] | None) -> Decision:
        return self.usual.begin(features)

    def after(self, ran: Sequence[int], scores: Sequence[Scores]) -> Decision:
        usual = self.usual
        if len(ran) == 1:
            return decide(usual.chain, usual.thresholds, usual.judge, scores, below=self.below)
        if ran[1] == usual.chain[-1]:
            judged = self._together([each[None] for each in scores])
            return Decision(None, judged.scores[0], float(judged.confidence[0]), "last")
        return usual.after(ran, scores)

    def _together(self, scores: Sequence[Scores]) -> Judged:
        logs = pool(scores, self.direct)
        return Judged(logs.astype(np.float32), np.zeros(len(logs)), np.exp(logs.max(axis=1)))

    def replay(self, table: Table, *, top: int = 1) -> Replayed:
        first, last = self.chain[0], self.chain[-1]
        sure = self.usual.judge([table.scores[first]]).sure
        short = sure < min(self.below, self.usual.thresholds[0])
        found = self.usual.replay(table, top=top)
        judged = self._together([table.scores[first][short], table.scores[last][short]])
        found.ran[short] = False
        found.ran[np.ix_(short, [first, last])] = True
        found.answers[short] = judged.scores.argmax(axis=1)
        found.last[short] = last
        found.confidence[short] = judged.confidence
        found.right[short] = hits(judged.scores, table.labels[short], top)
        return found

    def raised(self, by: float) -> Shortcut:
        return replace(self, usual=self.usual.raised(by), below=self.below + by)

    def saved(self) -> tuple[Mapping[str, Any], Mapping[str, NDArray[Any]]]:
        fields, arrays = self.usual.saved()
        return {**fields, "below": self.below, "direct": list(self.direct)}, arrays


def fit(
    table: Table,
    *,
    objective: str = "time",
    max_loss: float = 0.0,
    stages: int = 4,
    careful: float = 0.0,
    top: int = 1,
) -> Shortcut | Cascade:
    """Options as a cascade's, which it is where a shortcut is no cheaper."""
    views = Confidence(table, objective, top)
    finals = finalists(views, max_loss=max_loss, stages=stages)
    usual = cheapest(views, finals, max_loss=max_loss, careful=careful)
    made: Shortcut | Cascade = Cascade(usual.chain, usual.thresholds, usual.powers, usual.measure)
    cost = usual.cost
    for each in [tried for tried in finals if tried.pooled and len(tried.chain) > 2][:_CHAINS]:
        staged = views.staged(each.chain, each.measure, pooled=True)
        direct = views.view((each.chain[0], each.chain[-1]), pooled=True)
        found = _shortest(views, staged, each.chain, direct.right, max_loss, careful)
        if found is None or found[1].cost >= cost:
            continue
        below, thresholds = found
        parts = [views.view(each.chain[: stage + 1], pooled=True).powers for stage in range(len(each.chain))]
        chosen = finite(staged, each.chain, thresholds, parts, each.measure)
        if len(chosen.chain) < len(each.chain):
            continue
        cost = chosen.cost
        made = Shortcut(Cascade(chosen.chain, chosen.thresholds, chosen.powers, chosen.measure), below, direct.powers)
    return made


def _shortest(
    views: Views, staged: Staged, chain: tuple[int, ...], direct: NDArray[np.bool_], max_loss: float, careful: float
) -> tuple[float, Found] | None:
    """For each share of images that take the shortcut, the best thresholds for the others."""
    reference = views.right[:, views.reference]
    count, first = len(reference), staged.sure[0]
    price = prefix_costs(views.table, (chain[0], chain[-1]), views.objective)[-1]
    if views.objective == "memory":
        return None
    needed = float(reference.sum()) - max_loss * count
    # How much answers differ from the reference's is much the same for all: it is taken from the cascade's.
    plain = search(staged, needed, looks=1)
    if careful and plain is not None:
        lost = reference.astype(np.int64) - answered(staged, plain.thresholds)
        needed += careful * float(lost.std()) * count**0.5
    best: tuple[float, Found] | None = None
    for below in np.unique(np.quantile(first, _SHARES)):
        short = first < below
        rest = ~short
        others = Staged(
            tuple(sure[rest] for sure in staged.sure), tuple(right[rest] for right in staged.right), staged.costs
        )
        if not rest.any():
            continue
        found = search(others, needed - int(direct[short].sum()), looks=2)
        if found is None or found.thresholds[0] <= below:
            continue
        cost = float(short.mean()) * price + float(rest.mean()) * found.cost
        if best is None or cost < best[1].cost:
            best = float(below), Found(found.thresholds, cost, found.right + int(direct[short].sum()))
    return best


def load(fields: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Shortcut:
    usual = cascade.load(fields, arrays)
    if len(usual.chain) < 3:
        raise InputError(f"a shortcut goes past a candidate, and there are only {len(usual.chain)}")
    below = numbers([fields.get("below")], 1, "what a shortcut is taken below")[0]
    return Shortcut(usual, below, numbers(fields.get("direct"), 2, "the powers of a shortcut"))
