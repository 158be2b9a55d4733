"""The hull of random mixes and the oracle, by hand."""

from __future__ import annotations

import numpy as np
import pytest
from simulated import candidate

from edgewise.core.choice import Spot
from edgewise.select.baselines import accuracy_at, alone, cost_at, hull, oracle
from edgewise.select.policies import single
from edgewise.select.table import Table


def test_the_hull_by_hand() -> None:
    spots = [Spot(1, 0.5), Spot(2, 0.6), Spot(4, 0.9), Spot(5, 0.85), Spot(8, 1.0), Spot(1.5, 0.4)]
    corners = hull(spots)
    # (2, 0.6) is below the line from (1, 0.5) to (4, 0.9), at 0.633; (5, 0.85) and (1.5, 0.4) are simply worse.
    assert corners == (Spot(1, 0.5), Spot(4, 0.9), Spot(8, 1.0))
    assert cost_at(corners, 0.7) == pytest.approx(2.5)
    assert cost_at(corners, 0.95) == pytest.approx(6)
    assert cost_at(corners, 1.01) is None
    assert cost_at(corners, 0.1) == 1
    assert accuracy_at(corners, 2.5) == pytest.approx(0.7)
    assert accuracy_at(corners, 100) == 1.0
    assert accuracy_at(corners, 0.1) == 0.5


def test_one_candidate_is_its_own_hull() -> None:
    assert hull([Spot(3, 0.5)]) == (Spot(3, 0.5),)
    assert hull([Spot(3, 0.5), Spot(3, 0.6)]) == (Spot(3, 0.6),)


def test_the_oracle_by_hand() -> None:
    labels = np.array([0, 1, 2, 0])
    answers = ([0, 0, 0, 1], [0, 1, 0, 2], [1, 1, 1, 1])
    scores = tuple(np.log(np.eye(3)[each] * 0.7 + 0.1).astype(np.float32) for each in answers)
    # The dearest first: the oracle must not take places for prices.
    candidates = (candidate("b", 20.0), candidate("a", 5.0), candidate("c", 10.0, preprocess="raw", prepare_us=90.0))
    table = Table(candidates, labels, scores)
    found = oracle(table)
    assert found.right.tolist() == [True, True, False, False]
    assert found.last.tolist() == [1, 1, 1, 1]
    assert found.answers.tolist() == [0, 1, 0, 2]
    assert table.costs(found.ran).tolist() == [15e3] * 4
    assert alone(table, "time").tolist() == [30e3, 15e3, 100e3]
    # Without the cheapest's knowledge, the others answer.
    blind = Table(candidates, labels, (scores[0], scores[2], scores[2]))
    assert oracle(blind).last.tolist() == [0, 1, 1, 1]


def test_the_best_single_may_lose_what_it_is_allowed_to() -> None:
    labels = np.zeros(100, np.int64)
    right = (60, 89, 90)
    scores = tuple(
        np.log(np.where(np.arange(100)[:, None] < share, [0.8, 0.2], [0.2, 0.8])).astype(np.float32) for share in right
    )
    table = Table((candidate("a", 1.0), candidate("b", 5.0), candidate("c", 50.0)), labels, scores)
    assert [single.fit(table, max_loss=loss).candidate for loss in (0.0, 0.01, 0.3)] == [2, 1, 0]
