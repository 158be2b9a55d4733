"""Temperatures, powers and regressions are the ones that fit best, and probabilities come to mean what they say."""

from __future__ import annotations

import numpy as np
import pytest
from simulated import simulated

from edgewise.select import calibrate, logistic
from edgewise.select.pooling import pool, powers


def likelihood_loss(logs: np.ndarray, labels: np.ndarray) -> float:
    """The mean negative logarithm of the probability of the label."""
    return -float(np.take_along_axis(logs, labels[:, None], axis=1).mean())


def test_the_temperature_is_the_likeliest() -> None:
    table = simulated(3_000, temperature=0.4)
    for scores in table.scores:
        found = calibrate.temperature(scores, table.labels)
        losses = [likelihood_loss(calibrate.tempered(scores, found * by), table.labels) for by in (0.97, 1, 1.03)]
        assert losses[1] == min(losses)


def test_a_temperature_on_logarithms_is_one_on_logits() -> None:
    table = simulated(200)
    shifted = table.scores[0] + np.random.default_rng(0).normal(size=(200, 1)).astype(np.float32)
    assert calibrate.tempered(shifted, 1.7) == pytest.approx(calibrate.tempered(table.scores[0], 1.7), abs=1e-4)


def test_calibrated_confidences_are_shares_of_right_answers() -> None:
    table, fresh = (simulated(6_000, temperature=0.35, seed=seed) for seed in (1, 2))
    for scores, others in zip(table.scores, fresh.scores, strict=True):
        found = calibrate.temperature(scores, table.labels)
        errors = []
        for divisor in (1.0, found):
            logs = calibrate.tempered(others, divisor)
            right = logs.argmax(axis=1) == fresh.labels
            errors.append(calibrate.calibration_error(calibrate.reliability(np.exp(logs.max(axis=1)), right)))
        assert errors[1] < errors[0] and errors[1] < 0.06


def test_bins_hold_every_image_once() -> None:
    confidence = np.array([0.0, 0.05, 0.5, 0.999, 1.0])
    bins = calibrate.reliability(confidence, np.array([False, False, True, True, True]), 10)
    assert [each.images for each in bins] == [2, 1, 2]
    assert calibrate.calibration_error(bins) == pytest.approx((2 * 0.025 + 0.5 + 2 * 0.0005) / 5)
    assert calibrate.calibration_error(()) == 0.0


def test_rows_without_anything_finite_become_even() -> None:
    scores = np.full((2, 4), np.nan, np.float32)
    assert np.exp(calibrate.tempered(scores, 2.0)) == pytest.approx(np.full((2, 4), 0.25))


def test_a_classifier_that_never_errs_keeps_a_finite_temperature() -> None:
    scores = np.log(np.where(np.eye(4)[np.arange(8) % 4] > 0, 0.97, 0.01)).astype(np.float32)
    assert 0.04 < calibrate.temperature(scores, np.arange(8) % 4) < 1


def test_one_power_is_one_over_the_temperature() -> None:
    table = simulated(2_000)
    divisor = calibrate.temperature(table.scores[1], table.labels)
    assert powers(table.scores[1:2], table.labels)[0] == pytest.approx(1 / divisor, rel=0.02)


def test_powers_are_the_likeliest_and_pooling_helps() -> None:
    table = simulated(3_000, shared=0.3)
    found = np.array(powers(table.scores[:3], table.labels))

    def loss(given: np.ndarray) -> float:
        return likelihood_loss(pool(table.scores[:3], given.tolist()), table.labels)

    for direction in np.eye(3):
        assert loss(found) <= min(loss(found + 0.03 * direction), loss(found - 0.03 * direction)) + 1e-6
    pooled = pool(table.scores[:3], found.tolist())
    assert (pooled.argmax(axis=1) == table.labels).mean() > table.right()[:, :3].mean(axis=0).max()
    assert np.exp(pooled).sum(axis=1) == pytest.approx(np.ones(3_000))


def test_copies_of_one_candidate_share_its_power() -> None:
    table = simulated(1_000)
    both = powers([table.scores[0], table.scores[0]], table.labels)
    assert sum(both) == pytest.approx(powers(table.scores[:1], table.labels)[0], rel=0.02)


def test_a_regression_finds_the_weights_data_were_made_with() -> None:
    random = np.random.default_rng(0)
    rows = random.normal(size=(20_000, 3)) * [1.0, 5.0, 0.2] + [0.0, 3.0, -1.0]
    logits = 1.0 * rows[:, 0] - 0.3 * rows[:, 1] + 2.0 * rows[:, 2] + 0.5
    target = random.random(20_000) < logistic.sigmoid(logits)
    found = logistic.fit(rows, target, 0.1)
    assert found.weights == pytest.approx([1.0, -0.3, 2.0], abs=0.25)
    assert found.probability(rows).mean() == pytest.approx(target.mean(), abs=1e-3)


def test_a_ridge_shrinks_and_constants_are_harmless() -> None:
    random = np.random.default_rng(1)
    rows = np.column_stack([random.normal(size=500), np.ones(500)])
    target = rows[:, 0] > 0
    weak, strong = (logistic.fit(rows, target, ridge) for ridge in (0.1, 100.0))
    assert abs(strong.weights[0]) < abs(weak.weights[0])
    never = logistic.fit(rows, np.zeros(500, np.bool_))
    assert np.isfinite(never.weights).all() and never.probability(rows).max() < 0.01


def test_a_row_gets_the_same_whatever_stands_beside_it() -> None:
    rows = np.random.default_rng(2).normal(size=(301, 37))
    found = logistic.fit(rows, rows[:, 0] > 0.3)
    assert [float(found.probability(rows[row : row + 1])[0]) for row in range(301)] == found.probability(rows).tolist()
