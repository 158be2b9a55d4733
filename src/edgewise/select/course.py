"""One image on its way through a policy: asked about, decided on, asked about again, until there is an answer.

A chooser goes this way, and so does who takes the time of deciding: the steps between two models are then the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .policy import Decision, Policy
from .table import Scores


@dataclass(slots=True)
class Course:
    """Who was asked so far, and what they said."""

    decision: Decision
    ran: list[int] = field(default_factory=list)
    scores: list[Scores] = field(default_factory=list)


def begun(policy: Policy, features: NDArray[np.float64] | None) -> Course:
    return Course(policy.begin(features))


def answered(course: Course, policy: Policy, candidate: int, row: Scores) -> None:
    """What comes after `candidate` said this."""
    course.ran.append(candidate)
    course.scores.append(row)
    course.decision = policy.after(course.ran, course.scores)


def followed(policy: Policy, features: NDArray[np.float64] | None, ask: Callable[[int], Scores]) -> Course:
    """To its end; `ask` has the row of a candidate."""
    course = begun(policy, features)
    while (candidate := course.decision.run) is not None:
        answered(course, policy, candidate, ask(candidate))
    return course


def packed(courses: Sequence[Course], candidates: int, classes: int) -> dict[str, NDArray[Any]]:
    """As outputs of an Executable: `scores` are logarithms of probabilities (minus infinity where nobody was trusted),
    `asked` says which candidates were."""
    asked = np.zeros((len(courses), candidates), np.bool_)
    for place, course in enumerate(courses):
        asked[place, course.ran] = True
    found = [course.decision.scores for course in courses]
    wide = next((len(row) for row in found if row is not None), classes)
    given = [np.full(wide, -np.inf, np.float32) if row is None else row for row in found]
    scores = given[0][None] if len(given) == 1 else np.array(given, np.float32).reshape(len(given), wide)
    return {"scores": scores, "asked": asked}
