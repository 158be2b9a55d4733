"""The premodel looked into, as the adaptive model selection paper does: its Figures 5 to 7 and 9 to 13."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ..core.selected import Looked, Round, Tried
from .baselines import alone
from .chain import spent
from .evaluate import evaluate
from .features import NAMES
from .folds import folds, outside
from .policies import premodel
from .policies.premodel import Premodel
from .policy import looking_ns
from .subset import choose, optimal
from .table import Table
from .thinning import Trial, importance, uncorrelated
from .worth import cast, features_of, trial_of, worth

# By themselves, and mixed: what decides at the first level, and what at the others.
TECHNIQUES = ("knn", "tree", "svm", "cnn", "knn+tree", "knn+svm", "knn+cnn", "tree+knn", "svm+knn", "cnn+knn")


def look(table: Table, *, objective: str = "time", top: int = 1, count: int = 10, seed: int = 0) -> Looked:
    """`count`: folds of what is held out. Where the table has no thumbnails, nothing that looks at them is tried."""
    right = table.right(top)
    costs = alone(table, objective).tolist()
    best = optimal(right, costs)

    def trial(fitting: Table) -> Trial:
        return trial_of(fitting, cast(fitting, top=top, objective=objective), seed=seed)

    def lost(fitting: Table) -> tuple[tuple[str, float], ...]:
        return _losses(fitting, trial(fitting))

    named = _Once(lambda fitting: worth(fitting, trial(fitting)))
    # In an order of its own for each fold: one that had seen the images held out would have chosen for them.
    ranked = _Once(lambda fitting: tuple(name for name, _ in sorted(lost(fitting), key=lambda each: -each[1])))
    losses = lost(table)
    fitted = partial(premodel.fit, top=top, objective=objective, seed=seed)

    def held_out(number: int, fit: Callable[[Table], Premodel]) -> Tried:
        return _tried(number, table, fit, objective, top, count, seed)

    def technique(levels: str) -> Callable[[Table], Premodel]:
        return lambda fitting: fitted(fitting, levels=levels, features=named(fitting))

    compared = evaluate(
        table,
        {levels: technique(levels) for levels in TECHNIQUES if table.thumbnails is not None or "cnn" not in levels},
        objective=objective,
        top=top,
        count=count,
        seed=seed,
        timed=True,
    )
    return Looked(
        tuple(float((best == place).mean()) for place in range(len(costs))),
        _rounds(table, costs, right),
        losses,
        compared.methods,
        tuple(
            held_out(number, lambda fitting, number=number: fitted(fitting, count=number, features=named(fitting)))  # type: ignore[misc]
            for number in range(1, len(costs) + 1)
        ),
        tuple(
            held_out(number, lambda fitting, number=number: fitted(fitting, features=ranked(fitting)[:number]))  # type: ignore[misc]
            for number in range(1, len(losses) + 1)
        ),
    )


def _losses(table: Table, trial: Trial) -> tuple[tuple[str, float], ...]:
    """What accuracy is lost without each of the features that the correlation filter leaves."""
    kept, _ = uncorrelated(features_of(table))
    found = importance(trial, kept)
    return tuple((NAMES[column], found[column]) for column in kept)


class _Once:
    """Features found on a fold's training images once, for everything that is tried there."""

    def __init__(self, how: Callable[[Table], tuple[str, ...]]) -> None:
        self._how = how
        self._found: dict[bytes, tuple[str, ...]] = {}

    def __call__(self, fitting: Table) -> tuple[str, ...]:
        key = features_of(fitting).tobytes()
        if key not in self._found:
            self._found[key] = self._how(fitting)
        return self._found[key]


def _rounds(table: Table, costs: Sequence[float], right: NDArray[np.bool_]) -> tuple[Round, ...]:
    found = []
    left = len(table)
    for step in choose(right, costs):
        found.append(Round(step.candidate, step.on_failures, left))
        left = round(len(table) * (1 - step.accuracy))
    return tuple(found)


def _tried(
    number: int,
    table: Table,
    fit: Callable[[Table], Premodel],
    objective: str,
    top: int,
    count: int,
    seed: int,
) -> Tried:
    right, cost = [], []
    for part in folds(table.labels, count, seed):
        policy = fit(table.rows(outside(part, len(table))))
        kept = table.rows(part)
        replayed = policy.replay(kept, top=top)
        right.append(replayed.right)
        own = spent(kept, policy.candidates, replayed.ran, objective)
        cost.append(own + (looking_ns(policy, table) if objective == "time" else 0.0))
    each = np.concatenate(cost)
    return Tried(number, float(np.concatenate(right).mean()), *map(float, (each.mean(), each.min(), each.max())))
