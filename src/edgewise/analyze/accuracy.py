"""How often models are right: shares with intervals, precision, recall and F1, and pairs on the same images."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import stats
from ..core.chart import Axis, Chart, Series
from ..core.evaluation import KEPT, Evaluation
from ..core.preprocess import parse_preprocess
from ..core.types import PRECISIONS, Column, Finding, Machine, Section
from .evidence import Evidence, absent

PLACE = 45

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

COLUMNS = (
    Column("machine"),
    Column("data"),
    Column("model"),
    Column("target"),
    Column("top1", "accuracy"),
    Column("interval", "accuracy_range"),
    Column("top5", "accuracy", 4),
    Column("precision", "accuracy", 5),
    Column("recall", "accuracy", 6),
    Column("f1", "accuracy", 3),
    Column("f1_interval", "accuracy_range", 7),
    Column("than", "text", 2),
    Column("difference", "points", 1),
    Column("difference_interval", "points_range", 2),
    Column("p", "p", 2),
    Column("images", "count", 1),
    Column("decode", "ns", 8),
    Column("prepare", "ns", 8),
    Column("run", "ns", 8),
)
# Resamples of the images an interval of F1 is taken from, and the seed that makes it the same each time.
_RESAMPLES, _SEED = 500, 0
# With fewer images of a class than this, drawing them anew says little about other ones.
_FEWEST = 20
# Below this probability two models are called different.
_LEVEL = 0.05
_MOST_CHARTS = 8


@dataclass(frozen=True)
class Outcome:
    """Labels and answers of an evaluation as arrays, and what follows from them."""

    labels: Ints
    ranked: Ints

    @classmethod
    def of(cls, evaluation: Evaluation) -> Outcome:
        labels = np.array([label for part in evaluation.answers for label in part.labels], np.int64)
        ranked = np.array([row for part in evaluation.answers for row in part.ranked], np.int64)
        return cls(labels, ranked)

    @property
    def right(self) -> NDArray[np.bool_]:
        found: NDArray[np.bool_] = self.ranked[:, 0] == self.labels
        return found

    def within(self, count: int) -> int:
        """How many images have the right class among the first `count`."""
        return int((self.ranked[:, :count] == self.labels[:, None]).any(axis=1).sum())

    def by_class(self, chosen: Ints | None = None) -> tuple[Ints, Floats, Floats, Floats]:
        """The classes there are images of; precision, recall and F1 of each. `chosen`: of these images only."""
        labels, answers = self.labels, self.ranked[:, 0]
        if chosen is not None:
            labels, answers = labels[chosen], answers[chosen]
        most = int(max(labels.max(), answers.max())) + 1
        actual = np.bincount(labels, minlength=most)
        # An answer below 0 is one the data has no class for (a background class, by the label offset).
        claimed = np.bincount(answers[answers >= 0], minlength=most)
        right = np.bincount(labels[labels == answers], minlength=most)
        classes = np.flatnonzero(actual)
        recall = right[classes] / actual[classes]
        precision = right[classes] / np.maximum(claimed[classes], 1)
        f1 = 2 * right[classes] / (actual[classes] + claimed[classes])
        return classes, precision, recall, f1

    def f1_interval(self) -> tuple[float, float] | None:
        """95 % of the mean F1 over classes, by drawing the images of each class anew.

        Resamples lie off the estimate by about as much as the estimate off the truth, so that is taken away; their
        deviation is the estimate's. None where a class has too few images to draw from, or nothing varies.
        """
        order = np.argsort(self.labels, kind="stable")
        _, counts = np.unique(self.labels, return_counts=True)
        if counts.min() < _FEWEST or self.right.all() or not self.right.any():
            return None
        random = np.random.default_rng(_SEED)
        first, size = np.repeat(np.cumsum(counts) - counts, counts), np.repeat(counts, counts)
        estimate = self.by_class()[3].mean()
        means = [
            self.by_class(order[first + (random.random(len(order)) * size).astype(np.int64)])[3].mean()
            for _ in range(_RESAMPLES)
        ]
        centre, half = float(2 * estimate - np.mean(means)), stats.Z95 * float(np.std(means, ddof=1))
        return max(0.0, centre - half), min(1.0, centre + half)


def run(evidence: Evidence) -> Section:
    """Of every evaluation that is there; the highest precision of a model is what its others are compared with."""
    order = {subject: place for place, subject in enumerate(dict.fromkeys(e.subject for e in evidence.evaluations))}
    answered = [evaluation for evaluation in evidence.evaluations if evaluation.answered]
    answered.sort(key=lambda evaluation: (order[evaluation.subject], _precision(evaluation)))
    if not answered:
        return absent(
            "Accuracy", "no model was asked about labelled images", "edgewise accuracy MODEL --data FOLDER --on TARGET"
        )
    return compared(answered, evidence.machines)


def compared(evaluations: Sequence[Evaluation], machines: Mapping[str, Machine] | None = None) -> Section:
    """One row each, compared with the first of the same model, or else with the first of all, on the same images.
    Precision, recall and F1 are means over classes; p is corrected for the number of comparisons (Holm)."""
    machines = machines or {}
    outcomes = [Outcome.of(evaluation) for evaluation in evaluations]
    baselines = _baselines(evaluations)
    pairs = {i: paired(outcomes[j], outcomes[i]) for i, j in baselines.items()}
    corrected = dict(zip(pairs, stats.holm([pair.p for pair in pairs.values()]), strict=True))
    rows: list[tuple[object, ...]] = []
    findings: list[Finding] = []
    for index, (evaluation, outcome) in enumerate(zip(evaluations, outcomes, strict=True)):
        count = len(outcome.labels)
        hits = int(outcome.right.sum())
        _, precision, recall, f1 = outcome.by_class()
        pair = pairs.get(index)
        findings += _doubts(evaluation, outcome)
        if pair is not None:
            baseline = evaluations[baselines[index]]
            findings.append(_finding(baseline, evaluation, pair, corrected[index], len(pairs)))
        ran = sum(part.ran for part in evaluation.answers)
        rows.append(
            (
                machines[evaluation.machine].label if evaluation.machine in machines else evaluation.machine,
                evaluation.data_label,
                evaluation.label,
                str(evaluation.placement),
                hits / count,
                stats.wilson(hits, count),
                outcome.within(KEPT) / count if outcome.ranked.shape[1] == KEPT else None,
                float(precision.mean()),
                float(recall.mean()),
                float(f1.mean()),
                outcome.f1_interval(),
                _told_apart(evaluations[baselines[index]], evaluation)[0] if pair else None,
                pair.difference if pair else None,
                pair.interval if pair else None,
                corrected.get(index),
                count,
                sum(part.decode_ns for part in evaluation.answers) / count,
                sum(part.prepare_ns for part in evaluation.answers) / count,
                sum(part.run_ns for part in evaluation.answers) / ran,
            )
        )
    return Section("Accuracy", COLUMNS, tuple(rows), tuple(findings), _charts(evaluations, outcomes))


def _precision(evaluation: Evaluation) -> int:
    return max(PRECISIONS.index(target.precision or "fp32") for target in evaluation.placement.targets)


def _charts(evaluations: Sequence[Evaluation], outcomes: Sequence[Outcome]) -> tuple[Chart, ...]:
    """Top-1 with intervals, one drawing for each set of images: models along it, targets side by side."""
    charts = []
    for data in tuple(dict.fromkeys(e.data for e in evaluations))[:_MOST_CHARTS]:
        here = [(e, o) for e, o in zip(evaluations, outcomes, strict=True) if e.data == data]
        series = []
        for target in dict.fromkeys(str(e.placement) for e, _ in here):
            # One for each model: the same asked again on another machine is in the table.
            own = {e.label: o for e, o in here if str(e.placement) == target}
            shares = [(int(o.right.sum()), len(o.labels)) for o in own.values()]
            limits = [stats.wilson(*share) for share in shares]
            series.append(
                Series(
                    target,
                    tuple(own),
                    tuple(hits / count for hits, count in shares),
                    tuple(low for low, _ in limits),
                    tuple(high for _, high in limits),
                )
            )
        title = f"{here[0][0].data_label}: right answers, 95 % intervals"
        charts.append(Chart("bar", title, Axis("model"), Axis("top1", "accuracy"), tuple(series)))
    return tuple(charts)


def _baselines(evaluations: Sequence[Evaluation]) -> dict[int, int]:
    """With which each is compared, where there is one before it that was asked about the same images."""
    first: dict[tuple[str, str], int] = {}
    found = {}
    for index, evaluation in enumerate(evaluations):
        overall = first.setdefault((evaluation.data, ""), index)
        own = first.setdefault((evaluation.data, evaluation.subject), index)
        if index not in (own, overall):
            found[index] = own
        elif index != overall:
            found[index] = overall
    return found


def _doubts(evaluation: Evaluation, outcome: Outcome) -> Iterator[Finding]:
    """What makes an accuracy look like one that is not."""
    about = f"{evaluation.label} on {evaluation.placement}"
    silent = sum(value == 0 for part in evaluation.answers for value in part.confidence)
    if silent:
        yield Finding("no_answer", "problem", about, (("share", silent / len(outcome.labels)),))
    outputs, known = evaluation.answers[0].outputs, len(evaluation.classes)
    # Classes nobody named may go on beyond the largest that was seen.
    if known and outputs - parse_preprocess(evaluation.preprocess).label_offset != known:
        yield Finding("other_classes", "caution", about, (("outputs", outputs), ("classes", known)))


def paired(first: Outcome, second: Outcome) -> stats.Discordance:
    """Both were asked about the same images, in the same order."""
    only_first = int((first.right & ~second.right).sum())
    only_second = int((second.right & ~first.right).sum())
    return stats.Discordance(only_first, only_second, len(first.labels))


def _told_apart(first: Evaluation, second: Evaluation) -> tuple[str, str]:
    """Both by what they differ in."""
    if first.placement == second.placement:
        return first.label, second.label
    if first.subject == second.subject:
        return str(first.placement), f"{second.label} on {second.placement}"
    return f"{first.label} on {first.placement}", f"{second.label} on {second.placement}"


def _finding(baseline: Evaluation, other: Evaluation, pair: stats.Discordance, p: float, comparisons: int) -> Finding:
    names = _told_apart(baseline, other)
    low, high = pair.interval
    values: tuple[tuple[str, Any], ...] = (
        ("difference", pair.difference),
        ("low", low),
        ("high", high),
        ("p", p),
        ("comparisons", comparisons),
        ("only_first", pair.only_first),
        ("only_second", pair.only_second),
        ("baseline", names[0]),
        ("other", names[1]),
    )
    about = f"{other.label} on {other.placement}"
    if p < _LEVEL:
        return Finding("accuracy_differs", "note", about, values)
    return Finding("accuracy_alike", "note", about, values)
