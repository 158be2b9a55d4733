"""Shares, means over classes and pairs, against scikit-learn and by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from edgewise.analyze import accuracy, classes
from edgewise.analyze.evidence import Evidence
from edgewise.core.evaluation import Answers, Evaluation
from edgewise.core.text import parse_placement

HEADS = [column.name for column in accuracy.COLUMNS]


def evaluation(labels: list[int], ranked: list[list[int]], label: str = "m", target: str = "ort") -> Evaluation:
    """In two parts, as answers come."""
    half = len(labels) // 2
    parts = tuple(
        Answers(
            tuple(labels[part]),
            tuple(map(tuple, ranked[part])),
            (0.5,) * len(labels[part]),
            10,
            20,
            30,
            len(labels[part]),
            6,
        )
        for part in (slice(half), slice(half, None))
    )
    names = ("zero", "one", "two", "three", "four", "five")
    return Evaluation(
        label, parse_placement(target), "here", (), "data", len(labels), "p", "unit", names, parts, label, "set"
    )


def row(section: object, number: int = 0) -> dict[str, object]:
    return dict(zip(HEADS, section.rows[number], strict=True))  # type: ignore[attr-defined]


def random_answers(count: int, seed: int) -> tuple[list[int], list[list[int]]]:
    random = np.random.default_rng(seed)
    labels = random.integers(0, 6, count)
    ranked = np.array([random.permutation(6)[:5] for _ in range(count)])
    ranked[::2, 0] = labels[::2]
    return labels.tolist(), ranked.tolist()


def test_means_over_classes_are_those_of_scikit_learn() -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    labels, ranked = random_answers(400, 0)
    first = [each[0] for each in ranked]
    shown = row(accuracy.compared([evaluation(labels, ranked)]))
    precision, recall, f1, _ = metrics.precision_recall_fscore_support(labels, first, average="macro", zero_division=0)
    assert shown["top1"] == pytest.approx(metrics.accuracy_score(labels, first))
    assert shown["top5"] == pytest.approx(np.mean([label in each for label, each in zip(labels, ranked, strict=True)]))
    assert (shown["precision"], shown["recall"], shown["f1"]) == pytest.approx((precision, recall, f1))
    low, high = shown["f1_interval"]  # type: ignore[misc]
    assert low < f1 < high


def test_the_interval_of_f1_covers() -> None:
    """Ten classes of 40 images, answered right two times in three: the truth is known from a very large sample."""
    random = np.random.default_rng(3)

    def outcome(each: int) -> accuracy.Outcome:
        labels = np.repeat(np.arange(10), each)
        wrong = (labels + random.integers(1, 10, len(labels))) % 10
        # Some classes are harder than others.
        right = random.random(len(labels)) < 0.5 + labels / 30
        return accuracy.Outcome(labels, np.where(right, labels, wrong)[:, None])

    truth = outcome(100_000).by_class()[3].mean()
    intervals = [each for _ in range(200) if (each := outcome(40).f1_interval())]
    assert len(intervals) == 200
    # 95 %, less two standard errors of 200 draws.
    assert np.mean([low <= truth <= high for low, high in intervals]) >= 0.92


def test_there_is_no_interval_of_f1_from_a_few_images() -> None:
    assert row(accuracy.compared([evaluation([0, 0, 1, 1], [[0], [1], [1], [1]])]))["f1_interval"] is None


def test_several_comparisons_are_corrected_for() -> None:
    labels, ranked = random_answers(400, 1)
    slightly = [
        [(each[0] + 1) % 6, *each[1:]] if place in (0, 2, 4, 6, 8, 10) else each for place, each in enumerate(ranked)
    ]
    alone = accuracy.compared([evaluation(labels, ranked, "a"), evaluation(labels, slightly, "b")])
    many = accuracy.compared(
        [evaluation(labels, ranked, "a"), *(evaluation(labels, slightly, str(i)) for i in range(4))]
    )
    assert alone.findings[0].code == "accuracy_differs"
    assert {finding.code for finding in many.findings} == {"accuracy_alike"}
    assert row(many, 1)["p"] == pytest.approx(4 * row(alone, 1)["p"])  # type: ignore[operator]


def test_answers_that_are_none_and_classes_that_do_not_fit_are_told() -> None:
    labels, ranked = random_answers(40, 2)
    whole = evaluation(labels, ranked)
    silent = tuple(replace(part, confidence=(0.0,) * len(part.labels), outputs=7) for part in whole.answers)
    section = accuracy.compared([replace(whole, answers=silent)])
    assert {finding.code for finding in section.findings} == {"no_answer", "other_classes"}
    fitting = tuple(replace(part, outputs=7) for part in whole.answers)
    assert not accuracy.compared([replace(whole, answers=fitting, preprocess="unit(label_offset=1)")]).findings


def test_classes_without_images_do_not_count() -> None:
    """A model of a thousand classes on a folder of two: what it takes for others is wrong, and no more."""
    shown = row(accuracy.compared([evaluation([0, 0, 1, 1], [[0, 2], [900, 0], [1, 0], [-1, 1]])]))
    assert shown["recall"] == pytest.approx(0.5)
    assert shown["precision"] == pytest.approx(1.0)
    assert shown["top5"] is None  # only two were kept


def test_pairs_are_compared_with_the_same_model_first() -> None:
    labels, ranked = random_answers(400, 1)
    worse = [[(each[0] + 1) % 6, *each[1:]] if place % 5 == 0 else each for place, each in enumerate(ranked)]
    section = accuracy.compared(
        [
            evaluation(labels, ranked, "a", "ort"),
            evaluation(labels, worse, "a", "openvino"),
            evaluation(labels, ranked, "b", "ort"),
        ]
    )
    codes = [(finding.code, finding["baseline"], finding["other"]) for finding in section.findings]
    assert codes == [("accuracy_differs", "ort", "a on openvino"), ("accuracy_alike", "a", "b")]
    assert row(section, 1)["difference"] < 0  # type: ignore[operator]
    assert row(section, 2)["p"] == 1.0


def test_the_worst_class_comes_first_with_what_it_is_taken_for() -> None:
    table = classes.run(evaluation([0, 0, 0, 1, 1, 1], [[0], [0], [0], [2], [2], [1]]))
    name, images, recall, interval, precision, f1, taken_for, how_often = table.rows[0]
    assert (name, images, taken_for, how_often) == ("one", 3, "two", 2)
    assert (recall, precision, f1) == pytest.approx((1 / 3, 1.0, 0.5))
    assert interval[0] < 1 / 3 < interval[1]
    assert table.rows[-1][0] == "zero" and table.rows[-1][6] is None


def test_a_report_compares_with_the_highest_precision_and_draws_shares() -> None:
    labels, ranked = random_answers(400, 1)
    worse = [[(each[0] + 1) % 6, *each[1:]] if place % 5 == 0 else each for place, each in enumerate(ranked)]
    asked = (
        evaluation(labels, worse, "a", "ort:cpu:int8"),
        evaluation(labels, ranked, "b", "ort:cpu:fp32"),
        evaluation(labels, ranked, "a", "ort:cpu:fp32"),
    )
    section = accuracy.run(Evidence(evaluations=asked))
    first = [(finding["baseline"], finding["other"]) for finding in section.findings]
    assert first == [("ort:cpu:fp32", "a on ort:cpu:int8"), ("a", "b")]
    (chart,) = section.charts
    assert [(series.name, series.x) for series in chart.series] == [
        ("ort:cpu:fp32", ("a", "b")),
        ("ort:cpu:int8", ("a",)),
    ]
    top1 = row(section)["top1"]
    assert chart.series[0].y[0] == top1
    assert chart.series[0].low[0] < top1 < chart.series[0].high[0]  # type: ignore[operator]


def test_a_report_without_answers_says_how_to_get_them() -> None:
    section = accuracy.run(Evidence())
    assert section.rows == () and [finding.code for finding in section.findings] == ["absent"]
    unanswered = replace(evaluation([0, 1], [[0], [1]]), answers=())
    assert accuracy.run(Evidence(evaluations=(unanswered,))).rows == ()
