"""Rows of a table: logarithms of probabilities whatever comes out of a model, each row by itself."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from edgewise.measure.rows import rows

LOGITS = arrays.arrays(np.float32, (3, 5), elements=st.floats(-50, 50, width=32))


@given(LOGITS)
def test_a_row_is_of_probabilities_and_keeps_the_order(scores: np.ndarray) -> None:
    found = rows(scores, probabilities=False)
    assert np.exp(found.astype(np.float64)).sum(axis=1) == pytest.approx(1, abs=1e-5)
    first = scores.argmax(axis=1)
    assert np.take_along_axis(found, first[:, None], 1)[:, 0] == pytest.approx(found.max(axis=1))
    each = [rows(row[None], probabilities=False)[0] for row in scores]
    assert np.array_equal(found, np.stack(each)), "it does not matter which others a row comes with"


@given(LOGITS)
def test_probabilities_come_to_the_same_as_what_they_were_made_of(scores: np.ndarray) -> None:
    shares = np.exp(scores.astype(np.float64) - scores.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    assert rows(shares, probabilities=True) == pytest.approx(rows(scores, probabilities=False), abs=1e-3)


def test_a_background_is_no_class() -> None:
    found = rows(np.array([[9.0, 1.0, 2.0]]), probabilities=False, offset=1)
    assert found == pytest.approx(rows(np.array([[1.0, 2.0]]), probabilities=False))


def test_what_is_not_finite_is_no_answer() -> None:
    scores = np.array([[np.nan, 1.0, np.inf, 0.0], [np.nan, np.inf, -np.inf, np.nan], [0.0, 0.0, 0.0, 0.0]])
    found = rows(scores, probabilities=False)
    assert found[0].argmax() == 1 and found[0][0] == found[0][2] == -np.inf
    assert np.all(found[1] == -np.inf)
    assert found[2] == pytest.approx(np.log(0.25))
    assert np.all(rows(np.zeros((1, 3)), probabilities=True) == -np.inf), "shares of nothing are no answer"
