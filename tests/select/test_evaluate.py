"""Nested cross-validation: figures by hand, nothing leaks, and what is reported adds up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from simulated import simulated

from edgewise.core.choice import Selection
from edgewise.core.errors import InputError
from edgewise.select.deciding import deciding_ns
from edgewise.select.evaluate import Fit, evaluate, macro
from edgewise.select.folds import halves
from edgewise.select.policies import agreement, cascade, deferral, single
from edgewise.select.policy import Policy
from edgewise.select.risk import controlled, family
from edgewise.select.table import Table


def guarded(table: Table) -> Policy:
    first, second = halves(table.labels, 0.5)
    fitting = table.rows(first)
    reference = single.fit(fitting).candidate
    tried = family(cascade.fit(fitting), fitting, reference=reference, epsilon=0.03, delta=0.1)
    return controlled(tried, table.rows(second), reference=reference, epsilon=0.03, delta=0.1)[0]


FITS: Mapping[str, Fit] = {
    "single": single.fit,
    "cascade": cascade.fit,
    "deferral": deferral.fit,
    "agreement": agreement.fit,
    "guarded": guarded,
}


@pytest.fixture(scope="module")
def table() -> Table:
    return simulated(1_500, seed=21)


@pytest.fixture(scope="module")
def selection(table: Table) -> Selection:
    return evaluate(table, FITS, count=5)


def test_the_best_single_is_compared_with_itself(selection: Selection, table: Table) -> None:
    itself = selection.methods[0]
    assert itself.difference.value == 0 and itself.ratio.value == 1 and itself.p == 1
    assert itself.accuracy == selection.reference.accuracy
    assert sum(selection.best) == 5
    assert selection.singles[3].accuracy.value == pytest.approx(table.right()[:, 3].mean())


def test_cascades_beat_mixing_at_random(selection: Selection) -> None:
    by_name = {method.name: method for method in selection.methods}
    for name in ("cascade", "deferral", "guarded"):
        assert by_name[name].over_hull > 0.01
        assert by_name[name].ratio.high < 0.9
    assert selection.oracle.gap_closed == pytest.approx(1.0)
    assert selection.oracle.accuracy.value >= max(method.accuracy.value for method in selection.singles)
    assert selection.oracle.cost.value < selection.reference.cost.value


def test_what_is_reported_adds_up(selection: Selection, table: Table) -> None:
    for method in (*selection.methods, *selection.singles, selection.oracle, selection.reference):
        assert sum(method.answered) + method.refused == pytest.approx(1.0)
        assert all(asked >= answered - 1e-12 for asked, answered in zip(method.asked, method.answered, strict=True))
        assert method.accuracy.low <= method.accuracy.value <= method.accuracy.high
        assert method.ratio.low <= method.ratio.value <= method.ratio.high
        assert method.difference.low <= method.difference.value <= method.difference.high
        costs = np.array([candidate.run_ns for candidate in table.candidates])
        assert method.cost.value == pytest.approx(float(np.array(method.asked) @ costs) + 10e3)
    accuracies = [spot.accuracy for spot in selection.hull]
    assert accuracies == sorted(accuracies)


def test_nothing_leaks_where_labels_mean_nothing(table: Table) -> None:
    """Labels are permuted: no method may look better than what one class in ten gives by chance."""
    labels = np.random.default_rng(5).permutation(table.labels)
    found = evaluate(replace(table, labels=labels), FITS, count=5)
    noise = 4 * (0.1 * 0.9 / len(table)) ** 0.5
    for method in found.methods:
        assert method.accuracy.value < 0.1 + noise
        assert method.over_hull < noise


def test_how_far_confidence_is_off_before_and_after_a_temperature(selection: Selection) -> None:
    assert len(selection.calibration) == len(selection.candidates)
    for before, after in selection.calibration:
        assert 0 <= after < before < 1


def test_only_training_images_reach_a_fit(table: Table) -> None:
    sizes, seen = [], []

    def spying(given: Table) -> Policy:
        sizes.append(len(given))
        seen.append({row.tobytes() for row in given.scores[0]})
        return single.fit(given)

    evaluate(table, {"spy": spying}, count=5)
    assert sizes == [1_200] * 5
    everything = {row.tobytes() for row in table.scores[0]}
    missing = [everything - each for each in seen]
    assert all(len(each) == 300 for each in missing)
    assert set.union(*missing) == everything


def test_the_same_seed_gives_the_same(table: Table) -> None:
    small = table.rows(range(400))
    first, second = (evaluate(small, {"cascade": cascade.fit}, count=3, seed=4) for _ in range(2))
    assert first == second
    assert first != evaluate(small, {"cascade": cascade.fit}, count=3, seed=5)


def test_precision_recall_and_f1_by_hand() -> None:
    labels = np.array([0, 0, 1, 1, 3])
    answers = np.array([0, 1, 1, 1, -1])
    precision, recall, f1 = macro(answers, labels, 4)
    assert precision == pytest.approx((1 + 2 / 3 + 0) / 3)
    assert recall == pytest.approx((0.5 + 1 + 0) / 3)
    assert f1 == pytest.approx((2 / 3 + 4 / 5 + 0) / 3)


def test_deciding_takes_time_that_counts(table: Table) -> None:
    small = table.rows(range(300))
    assert deciding_ns(cascade.fit(small), small, 50) > 0
    timed = evaluate(small, {"cascade": cascade.fit}, count=2, timed=True).methods[0]
    plain = evaluate(small, {"cascade": cascade.fit}, count=2).methods[0]
    assert timed.overhead_ns > 0 and plain.overhead_ns == 0
    assert timed.cost.value == pytest.approx(plain.cost.value + timed.overhead_ns, rel=1e-6)


def test_one_candidate_is_nothing_to_choose_from(table: Table) -> None:
    with pytest.raises(InputError, match="two candidates"):
        evaluate(replace(table, candidates=table.candidates[:1], scores=table.scores[:1]), {})


def test_energy_and_memory_of_every_method_are_told_whatever_is_saved(table: Table) -> None:
    known = replace(
        table,
        candidates=tuple(
            replace(each, energy_uj=10.0**place, memory_bytes=1000 * (place + 1))
            for place, each in enumerate(table.candidates)
        ),
    )
    found = evaluate(known, {"cascade": cascade.fit}, count=3)
    (method,) = found.methods
    assert method.energy_uj == pytest.approx(sum(share * 10.0**place for place, share in enumerate(method.asked)))
    assert [single.energy_uj for single in found.singles] == [10.0**place for place in range(len(table.candidates))]
    assert [single.memory_bytes for single in found.singles] == [1000 * (n + 1) for n in range(len(table.candidates))]
    assert found.reference.energy_uj is not None and method.energy_uj < found.reference.energy_uj
    saving = evaluate(known, {"cascade": cascade.fit}, objective="energy", count=3)
    assert saving.methods[0].energy_uj == pytest.approx(saving.methods[0].cost.value)
    unknown = replace(known, candidates=(replace(known.candidates[0], energy_uj=None), *known.candidates[1:]))
    assert evaluate(unknown, {"cascade": cascade.fit}, count=3).methods[0].energy_uj is None
