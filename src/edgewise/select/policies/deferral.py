"""A chain of candidates that learned where asking on pays.

Being unsure is not the same as being worth another try: where the later ones would be wrong too, asking them is a
waste. The best rule asks on where the chance that only the later answer is right exceeds the chance that only this one
is by more than its price (Jitkrittum et al. 2023, "When does confidence-based cascade deferral suffice?"). Both chances
are logistic regressions on what the answers so far look like. Thresholds are chosen on predictions for images that the
regressions were not fitted on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ...core.errors import InputError
from .. import logistic
from ..chain import Chain, Judged, checked, checked_powers
from ..folds import folds, outside
from ..hints import columns, hints, histories
from ..logistic import Logistic
from ..pooling import Floats, pool
from ..search import Chosen, Views, check_stages, finalists, finite, settled
from ..table import Scores, Table
from ..thresholds import Staged
from . import cascade
from .cascade import Confidence

# Chains of the cascade's search that regressions are fitted for, and parts for predictions of unseen images.
_CHAINS, _PARTS = 3, 4
_RIDGE = 10.0
# What thresholds are raised by where a cascade's are raised by one: they are chances, those are log-odds.
_STEP = 0.1
_REGRESSIONS = ("gain", "harm", "right")


@dataclass(frozen=True, slots=True)
class Learned:
    """What one stage learned: how often its classes were right, and the chances that only the last stage is right
    (`gain`), that only this one is (`harm`), and that this one is (`right`)."""

    history: Floats
    gain: Logistic
    harm: Logistic
    right: Logistic


def worth(gain: Logistic, harm: Logistic, rows: Floats) -> Floats:
    """Of stopping: above zero where asking on would rather harm."""
    return harm.probability(rows) - gain.probability(rows)


@dataclass(frozen=True, slots=True)
class Deferral(Chain):
    """`powers` as in a cascade; `learned` has one for each stage but the last."""

    powers: tuple[tuple[float, ...], ...]
    learned: tuple[Learned, ...]
    classes: int
    kind: ClassVar[str] = "deferral"

    def judge(self, scores: Sequence[Scores]) -> Judged:
        stage = len(scores) - 1
        if stage == len(self.chain) - 1:
            logs = pool(scores, self.powers[stage])
            return Judged(logs.astype(np.float32), np.zeros(len(logs)), np.exp(logs.max(axis=1)))
        learned = self.learned[stage]
        found = hints(scores, self.powers[stage])
        rows = found.with_history(learned.history)
        return Judged(
            found.logs.astype(np.float32), worth(learned.gain, learned.harm, rows), learned.right.probability(rows)
        )

    def raised(self, by: float) -> Deferral:
        """All thresholds by so many steps of a chance."""
        return replace(self, thresholds=tuple(threshold + by * _STEP for threshold in self.thresholds))

    def saved(self) -> tuple[Mapping[str, Any], Mapping[str, NDArray[Any]]]:
        fields = {
            "candidates": list(self.chain),
            "thresholds": list(self.thresholds),
            "powers": [list(each) for each in self.powers],
            "classes": self.classes,
        }
        arrays: dict[str, NDArray[Any]] = {}
        for stage, each in enumerate(self.learned):
            arrays[f"history{stage}"] = each.history
            for name in _REGRESSIONS:
                arrays[f"{name}{stage}"] = getattr(each, name).saved()
        return fields, arrays


def fit(
    table: Table,
    *,
    objective: str = "time",
    max_loss: float = 0.0,
    stages: int = 4,
    careful: float = 0.0,
    top: int = 1,
) -> Deferral:
    """A cascade whose stages learned when the next candidate would be right and they are not. Options as a cascade's.
    Chains are taken from the search for cascades, and regressions fitted for the best. There is less need to be
    careful: thresholds are chosen on predictions of unseen images."""
    check(stages=stages, careful=careful)
    views = Confidence(table, objective, top, "deferral")
    reference = views.right[:, views.reference]
    tried = finalists(views, max_loss=max_loss, stages=stages)
    chains = list(dict.fromkeys(each.chain for each in tried if each.pooled and len(each.chain) > 1))[:_CHAINS]
    best: tuple[Chosen, tuple[Learned, ...]] | None = None
    for chain in chains:
        learned, sure = _learn(views, chain)
        parts = [views.view(chain[: stage + 1], pooled=True) for stage in range(len(chain))]
        staged = Staged(sure, tuple(part.right for part in parts), views.costs(chain))
        found = settled(staged, reference, max_loss, careful)
        if found is not None and (best is None or found.cost < best[0].cost):
            best = finite(staged, chain, found, [part.powers for part in parts], "learned"), learned
    if best is None or best[0].cost >= views.costs((views.reference,))[0]:
        powers = views.view((views.reference,), pooled=True).powers
        return Deferral((views.reference,), (), (powers,), (), table.classes)
    chosen, learned = best
    kept = learned[: len(chosen.thresholds)]
    return Deferral(chosen.chain, chosen.thresholds, chosen.powers, kept, table.classes)


def check(*, stages: int, careful: float) -> None:
    """What no table makes sense of is refused."""
    check_stages(stages, careful)


def _learn(views: Views, chain: tuple[int, ...]) -> tuple[tuple[Learned, ...], tuple[Floats, ...]]:
    """What each stage learns from all images, and how sure it is of each when it learned from the others."""
    table = views.table
    parts = folds(table.labels, min(_PARTS, len(table)))
    last = views.view(chain, pooled=True).right
    learned, sure = [], []
    for stage in range(len(chain) - 1):
        view = views.view(chain[: stage + 1], pooled=True)
        found = hints([table.scores[place] for place in chain[: stage + 1]], view.powers)
        gain, harm = last & ~view.right, view.right & ~last
        history = histories(found.first, view.right, table.classes)
        rows = found.with_history(history)
        regressions = [logistic.fit(rows, target, _RIDGE) for target in (gain, harm, view.right)]
        learned.append(Learned(history, *regressions))
        unseen = np.zeros(len(table))
        for part in parts:
            others = outside(part, len(table))
            rows = found.with_history(histories(found.first[others], view.right[others], table.classes))
            gains, harms = (logistic.fit(rows[others], target[others], _RIDGE) for target in (gain, harm))
            unseen[part] = worth(gains, harms, rows[part])
        sure.append(unseen)
    return tuple(learned), tuple(sure)


def specimen(candidates: int, classes: int) -> Deferral:
    """One that asks all of three, to see what deciding takes."""
    alike = cascade.specimen(candidates, classes)
    learned = []
    for stage in range(len(alike.chain) - 1):
        nothing = Logistic(np.zeros(columns(stage + 1, classes)), 0.0)
        learned.append(Learned(np.zeros(classes), nothing, nothing, nothing))
    return Deferral(alike.chain, alike.thresholds, alike.powers, tuple(learned), classes)


def load(fields: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Deferral:
    chain, thresholds = checked(fields, "deferral")
    powers = checked_powers(fields, len(chain), "deferral")
    classes = fields.get("classes")
    if not isinstance(classes, int) or classes < 1:
        raise InputError(f"a deferral has a number of classes, found {classes!r:.80}")
    learned = []
    for stage in range(len(chain) - 1):
        history = arrays.get(f"history{stage}")
        if history is None or history.shape != (classes,) or not np.isfinite(history).all():
            raise InputError(f"history{stage} of a deferral is {classes} finite numbers")
        wide = columns(stage + 1, classes)
        parts = {
            name: logistic.load(arrays.get(f"{name}{stage}"), wide, f"{name}{stage} of a deferral")
            for name in _REGRESSIONS
        }
        learned.append(Learned(history.astype(np.float64), **parts))
    return Deferral(chain, thresholds, powers, tuple(learned), classes)
