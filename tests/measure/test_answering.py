"""Answers out of scores: ranks, ties, confidence, and what is no answer."""

from __future__ import annotations

import numpy as np
import pytest

from edgewise.measure.answering import adds_up, ranked


def test_the_largest_come_first_and_ties_go_to_the_lower_class() -> None:
    scores = np.zeros((2, 1000))
    scores[0, [100, 7, 9, 300, 8, 999, 500]] = 5.0
    places, _ = ranked(scores, probabilities=False)
    assert places.tolist() == [[7, 8, 9, 100, 300], [0, 1, 2, 3, 4]]


def test_confidence_is_the_share_of_the_softmax() -> None:
    scores = np.random.default_rng(0).normal(size=(20, 50)) * 30
    shares = np.exp(scores - scores.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    for given, probabilities in ((scores, False), (shares, True), (shares * 1.03, True)):
        assert adds_up(given) is probabilities
        np.testing.assert_allclose(ranked(given, probabilities=probabilities)[1], shares.max(axis=1), rtol=1e-9)


def test_what_is_not_finite_is_no_answer() -> None:
    nothing, some = [np.nan] * 4, [np.nan, 1.0, np.inf, 3.0]
    places, share = ranked(np.array([nothing, some]), probabilities=False)
    assert places[0].tolist() == [-1] * 4 and share[0] == 0
    assert places[1].tolist()[:2] == [3, 1] and share[1] == pytest.approx(1 / (1 + np.exp(-2)))


def test_fewer_classes_than_are_kept() -> None:
    places, share = ranked(np.array([[0.0, 0.0]]), probabilities=False)
    assert places.tolist() == [[0, 1]] and share.tolist() == [0.5]
