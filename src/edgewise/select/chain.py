"""Candidates asked in a fixed order until one is sure enough: what cascades, deferral and agreement have in common."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

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


@dataclass(frozen=True, slots=True)
class Chain:
    """Asked one after another. A kind of chain says what a stage makes of the answers (`judge`); every stage but the
    last has a threshold that its sureness has to reach for an image to end there."""

    chain: tuple[int, ...]
    thresholds: tuple[float, ...]
    kind: ClassVar[str]

    @property
    def uses_features(self) -> bool:
        return False

    @property
    def candidates(self) -> Sequence[int]:
        return self.chain

    def judge(self, scores: Sequence[Scores]) -> Judged:
        """What the first stages answered, an array for each, a row for each image."""
        raise NotImplementedError

    def begin(self, features: NDArray[np.float64] | None) -> Decision:
        return Decision(self.chain[0])

    def after(self, ran: Sequence[int], scores: Sequence[Scores]) -> Decision:
        judged = self.judge([each[None] for each in scores])
        stage = len(scores) - 1
        last = stage == len(self.chain) - 1
        if not last and not judged.sure[0] >= self.thresholds[stage]:
            return Decision(self.chain[stage + 1])
        return Decision(None, judged.scores[0], float(judged.confidence[0]), "last" if last else "sure")

    def replay(self, table: Table, *, top: int = 1) -> Replayed:
        count = len(table)
        ran = np.zeros((count, len(table.candidates)), np.bool_)
        answers, last = np.zeros(count, np.int64), np.zeros(count, np.int64)
        confidence, right = np.zeros(count), np.zeros(count, np.bool_)
        left = np.arange(count)
        for stage, candidate in enumerate(self.chain):
            ran[left, candidate] = True
            judged = self.judge([table.scores[each][left] for each in self.chain[: stage + 1]])
            done = np.ones(len(left), np.bool_)
            if stage < len(self.chain) - 1:
                done = judged.sure >= self.thresholds[stage]
            places = left[done]
            answers[places] = judged.scores[done].argmax(axis=1)
            last[places] = candidate
            confidence[places] = judged.confidence[done]
            right[places] = hits(judged.scores[done], table.labels[places], top)
            left = left[~done]
            if not len(left):
                break
        return Replayed(answers, ran, last, confidence, right)


def prefix_costs(table: Table, candidates: Sequence[int], objective: str, kind: str = "") -> tuple[float, ...]:
    """What an image costs that ends at each stage. Memory is taken by all, asked or not. Time is also that of deciding,
    where there is something to decide, by a policy of that `kind`; and what stages take longer the next time, since
    others ran meanwhile. On average it comes to what `spent` says."""
    ran = np.zeros((len(candidates), len(table.candidates)), np.bool_)
    for stage in range(len(candidates)):
        ran[stage, list(candidates if objective == "memory" else candidates[: stage + 1])] = True
    costs = [float(cost) for cost in table.costs(ran, objective)]
    if objective == "time" and len(candidates) > 1:
        after = _after(table)
        for stage, last in enumerate(candidates):
            costs[stage] += (stage + 1) * stage_ns(table, kind)
            costs[stage] += sum(float(after[place, last]) for place in candidates[: stage + 1]) if stage else 0.0
    return tuple(costs)


def spent(table: Table, candidates: Sequence[int], ran: Flags, objective: str = "time") -> Floats:
    """What each image costs; `candidates` are those a policy may ask, in its order. Memory is that of all of them.

    Where another ran since it last did, a candidate takes longer. An image is charged with what its last one does so:
    to those asked before it, which find it when they are asked again; to itself, which finds these; and to the first
    of the next image, if that is none of them, as often as it is first."""
    if objective == "memory":
        ran = np.zeros_like(ran)
        ran[:, list(candidates)] = True
    costs = table.costs(ran, objective)
    some = ran.any(axis=1)
    if objective != "time" or table.company is None or not some.any():
        return costs
    order, after = list(candidates), _after(table)
    asked = ran[some][:, order]
    first, last = asked.argmax(axis=1), asked.shape[1] - 1 - asked[:, ::-1].argmax(axis=1)
    # A row for each image: what its last candidate does to each, to itself only where others were asked before.
    done = after[np.ix_(order, order)].T[last]
    done[first == last, last[first == last]] = 0.0
    begins = np.bincount(first, minlength=len(order)) / len(first)
    costs[some] += (done * np.where(asked, 1.0, begins)).sum(axis=1)
    return costs


def stage_ns(table: Table, kind: str) -> float:
    """What a policy of that kind takes to decide at one stage, as far as it is known."""
    return table.company.deciding_ns.get(kind, 0.0) if table.company is not None else 0.0


def _after(table: Table) -> Floats:
    """How much longer each (row) takes after each other one, and in its own place after those that are quicker."""
    size = len(table.candidates)
    if table.company is None:
        return np.zeros((size, size))
    found = np.array(table.company.after_ns)
    if table.company.since_ns:
        np.fill_diagonal(found, table.company.since_ns)
    return found


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
