"""Which classes a model gets right, worst first, and what it takes them for."""

from __future__ import annotations

import numpy as np

from ..core import stats
from ..core.evaluation import Evaluation
from ..core.types import Column, Section
from .accuracy import Outcome

COLUMNS = (
    Column("class"),
    Column("images", "count"),
    Column("recall", "accuracy"),
    Column("interval", "accuracy_range"),
    Column("precision", "accuracy"),
    Column("f1", "accuracy"),
    Column("taken_for"),
    Column("how_often", "count"),
)


def run(evaluation: Evaluation) -> Section:
    outcome = Outcome.of(evaluation)
    answers = outcome.ranked[:, 0]
    rows = []
    for number, precision, recall, f1 in zip(*outcome.by_class(), strict=True):
        mine = outcome.labels == number
        count = int(mine.sum())
        wrong, times = np.unique(answers[mine & (answers != number)], return_counts=True)
        worst = int(times.argmax()) if len(times) else None
        rows.append(
            (
                _name(evaluation, int(number)),
                count,
                float(recall),
                stats.wilson(round(recall * count), count),
                float(precision),
                float(f1),
                None if worst is None else _name(evaluation, int(wrong[worst])),
                None if worst is None else int(times[worst]),
            )
        )
    rows.sort(key=lambda row: row[5])
    return Section(f"{evaluation.label} on {evaluation.placement}", COLUMNS, tuple(rows))


def _name(evaluation: Evaluation, number: int) -> str:
    return evaluation.classes[number] if 0 <= number < len(evaluation.classes) else str(number)
