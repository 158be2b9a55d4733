"""Candidates asked in a fixed order until one is sure enough: what cascades and learned deferral have in common."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.errors import InputError
from .policy import Decision, Replayed
from .table import Flags, Scores, Table, hits

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Judged:
    """What a stage makes of the answers so far, a row for each image: the answer it would give, how sure it is of
    stopping there (a threshold is set on this), and how likely the answer is right."""

    scores: Scores
    sure: Floats
    confidence: Floats


Judge = Callable[[Sequence[Scores]], Judged]


def decide(
    candidates: Sequence[int],
    thresholds: Sequence[float],
    judge: Judge,
    scores: Sequence[Scores],
    *,
    below: float = -math.inf,
) -> Decision:
    """Once the first candidates of the chain answered so. `below` that, the last is asked at once."""
    judged = judge([each[None] for each in scores])
    stage = len(scores) - 1
    last = stage == len(candidates) - 1
    if not last and not judged.sure[0] >= thresholds[stage]:
        return Decision(candidates[-1 if judged.sure[0] < below else stage + 1])
    return Decision(None, judged.scores[0], float(judged.confidence[0]), "last" if last else "sure")


def replay(candidates: Sequence[int], thresholds: Sequence[float], judge: Judge, table: Table, top: int) -> Replayed:
    count = len(table)
    ran = np.zeros((count, len(table.candidates)), np.bool_)
    answers, last = np.zeros(count, np.int64), np.zeros(count, np.int64)
    confidence, right = np.zeros(count), np.zeros(count, np.bool_)
    left = np.arange(count)
    for stage, candidate in enumerate(candidates):
        ran[left, candidate] = True
        judged = judge([table.scores[each][left] for each in candidates[: stage + 1]])
        done = np.ones(len(left), np.bool_)
        if stage < len(candidates) - 1:
            done = judged.sure >= thresholds[stage]
        places = left[done]
        answers[places] = judged.scores[done].argmax(axis=1)
        last[places] = candidate
        confidence[places] = judged.confidence[done]
        right[places] = hits(judged.scores[done], table.labels[places], top)
        left = left[~done]
        if not len(left):
            break
    return Replayed(answers, ran, last, confidence, right)


def prefix_costs(table: Table, candidates: Sequence[int], objective: str) -> tuple[float, ...]:
    """What an image costs that ends at each stage. Memory is taken by all, asked or not."""
    ran = np.zeros((len(candidates), len(table.candidates)), np.bool_)
    for stage in range(len(candidates)):
        ran[stage, list(candidates if objective == "memory" else candidates[: stage + 1])] = True
    return tuple(float(cost) for cost in table.costs(ran, objective))


def spent(table: Table, candidates: Sequence[int], ran: Flags, objective: str) -> Floats:
    """What each image costs; memory is that of all candidates a policy keeps loaded."""
    if objective == "memory":
        ran = np.zeros_like(ran)
        ran[:, list(candidates)] = True
    return table.costs(ran, objective)


def checked(fields: Mapping[str, Any], kind: str) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """The candidates and thresholds of a saved chain."""
    candidates, thresholds = fields.get("candidates"), fields.get("thresholds")
    if (
        not isinstance(candidates, list)
        or not candidates
        or not all(isinstance(each, int) and not isinstance(each, bool) and each >= 0 for each in candidates)
        or len(set(candidates)) != len(candidates)
    ):
        raise InputError(f"a {kind} names different candidates by their places, found {candidates!r:.80}")
    return tuple(candidates), numbers(thresholds, len(candidates) - 1, f"the thresholds of a {kind}")


def numbers(value: Any, count: int, what: str) -> tuple[float, ...]:
    """A list of so many finite numbers."""
    fits = isinstance(value, list) and len(value) == count
    if not fits or not all(isinstance(each, int | float) and math.isfinite(each) for each in value):
        raise InputError(f"{what} are {count} numbers, found {value!r:.80}")
    return tuple(float(each) for each in value)


def checked_powers(fields: Mapping[str, Any], length: int, kind: str) -> tuple[tuple[float, ...], ...]:
    """For each stage, as many as were asked until then."""
    given = fields.get("powers")
    if not isinstance(given, list) or len(given) != length:
        raise InputError(f"a {kind} of {length} has as many lists of powers, found {given!r:.80}")
    return tuple(numbers(each, stage + 1, f"the powers of stage {stage + 1}") for stage, each in enumerate(given))
