"""Fewer features: without those that say what another says, then without those the premodel does as well without.

Everything here sees the training images only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .levels import deciding
from .neighbours import Points, least
from .table import Flags

# Above this the correlation of two features (Pearson's, either sign) says that one is enough.
CORRELATED = 0.75
# What the premodel's accuracy may lose by all features that are taken away.
SLACK = 0.005
FOLDS = 5
# More images than this are not tried on: each trial looks at all pairs, and there are hundreds of trials.
ROWS = 600


@dataclass(frozen=True, slots=True)
class Removed:
    """A feature (by its column), the one that stands for it (None: it is the same in all images, and says nothing),
    and their correlation."""

    feature: int
    kept: int | None
    correlation: float


@dataclass(frozen=True, slots=True)
class Scale:
    """From the least and largest value in training, `low` and `low` + `span`, to 0 and 1. Others may lie outside: how
    far, is what tells a strange image."""

    low: NDArray[np.float64]
    span: NDArray[np.float64]

    def __call__(self, features: NDArray[np.float64]) -> Points:
        return self.exactly(features).astype(np.float32)

    def exactly(self, features: NDArray[np.float64]) -> NDArray[np.float64]:
        return (features - self.low) / self.span

    def one(self, features: NDArray[np.float64]) -> list[float]:
        """The same exactly, of one image: for as few numbers Python is quicker."""
        each = zip(features.tolist(), self.low.tolist(), self.span.tolist(), strict=True)
        return [(value - low) / span for value, low, span in each]


@dataclass(frozen=True, slots=True)
class Trial:
    """What a chain of nearest neighbours is tried with: for each level whom it would be right to send there (a row of
    `levels` for each level), and for each image (row of `right`) whether each level's candidate is right, and in the
    last column whoever is asked where no level says yes."""

    points: Points
    levels: Flags
    right: Flags
    k: int
    seed: int = 0


def scale_of(features: NDArray[np.float64]) -> Scale:
    """What is the same in all images is left as large as it is."""
    low = features.min(axis=0)
    span = features.max(axis=0) - low
    return Scale(low, np.where(span > 0, span, 1.0))


def uncorrelated(
    features: NDArray[np.float64], threshold: float = CORRELATED
) -> tuple[tuple[int, ...], tuple[Removed, ...]]:
    """The columns kept, in order, and those removed. The feature that could stand for most others is kept first and
    those go; then the same among the rest. Ties go to the first."""
    apart = features - features.mean(axis=0)
    norms = np.sqrt((apart * apart).sum(axis=0))
    scale = np.abs(features).max(axis=0, initial=0.0)
    constant = norms <= 1e-12 * np.maximum(scale, 1e-300) * np.sqrt(max(1, len(features)))
    unit = apart / np.where(constant, 1.0, norms)
    correlation = unit.T @ unit
    removed = [Removed(int(column), None, 0.0) for column in constant.nonzero()[0]]
    left = [int(column) for column in (~constant).nonzero()[0]]
    kept = []
    while left:
        partners = {
            each: [other for other in left if other != each and abs(correlation[each, other]) > threshold]
            for each in left
        }
        keep = max(left, key=lambda column: (len(partners[column]), -column))
        kept.append(keep)
        removed += [Removed(other, keep, float(correlation[keep, other])) for other in partners[keep]]
        left = [column for column in left if column != keep and column not in partners[keep]]
    return tuple(sorted(kept)), tuple(removed)


def accuracies(trial: Trial, columns: Sequence[int]) -> tuple[float, dict[int, float]]:
    """How often the chain's choice is right with these columns, and without each of them: cross-validated, every image
    judged by those of the other folds."""
    tried = _drawn(trial)
    folds = _folds(len(tried.points), trial.seed)
    total = np.zeros((len(tried.points), len(tried.points)), np.float32)
    for column in columns:
        total += _apart(tried.points[:, column])
    total[folds[:, None] == folds] = np.inf
    without = {column: _accuracy(tried, total - _apart(tried.points[:, column])) for column in columns}
    return _accuracy(tried, total), without


def eliminate(
    trial: Trial, columns: Sequence[int], *, slack: float = SLACK, least: int = 1
) -> tuple[tuple[int, ...], tuple[tuple[int, float], ...]]:
    """The columns left, and those taken away one by one, each with the accuracy after it: always the one whose loss
    costs least (of several alike the last), down to `least`, and as long as no more than `slack` is lost of what all
    together reach."""
    left, steps = tuple(columns), []
    bar: float | None = None
    while len(left) > least:
        own, without = accuracies(trial, left)
        bar = own - slack if bar is None else bar
        column = max(left, key=lambda each: (without[each], each))
        if without[column] < bar:
            break
        left = tuple(each for each in left if each != column)
        steps.append((column, without[column]))
    return left, tuple(steps)


def importance(trial: Trial, columns: Sequence[int]) -> dict[int, float]:
    """What the accuracy loses without each of these columns; below zero where it wins."""
    own, without = accuracies(trial, columns)
    return {column: own - found for column, found in without.items()}


def _drawn(trial: Trial) -> Trial:
    if len(trial.points) <= ROWS:
        return trial
    random = np.random.default_rng(trial.seed)
    rows = np.sort(random.choice(len(trial.points), ROWS, replace=False))
    return Trial(trial.points[rows], trial.levels[:, rows], trial.right[rows], trial.k, trial.seed)


def _folds(count: int, seed: int) -> NDArray[np.intp]:
    return np.random.default_rng(seed).permutation(count) % FOLDS


def _apart(values: NDArray[np.float32]) -> NDArray[np.float32]:
    apart = values[:, None] - values
    apart *= apart
    return apart


def _accuracy(trial: Trial, distances: NDArray[np.float32]) -> float:
    places, _ = least(distances, trial.k)
    votes = 2 * trial.levels[:, places].sum(axis=2) > trial.k
    found = deciding(votes)
    return float(trial.right[np.arange(len(found)), found].mean())
