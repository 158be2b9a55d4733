"""Fewer features: planted copies are found, and so is what tells nothing."""

from __future__ import annotations

import numpy as np
import pytest
from tables import COSTS, hidden, planted, simulated

from edgewise.core.errors import InputError
from edgewise.select import thinning
from edgewise.select.features import NAMES
from edgewise.select.table import Table
from edgewise.select.thinning import Trial, eliminate, importance, scale_of, uncorrelated
from edgewise.select.worth import cast, features_of, trial_of, worth


def tried(table: Table, seed: int = 0) -> Trial:
    return trial_of(table, cast(table), seed=seed)


def test_copies_are_removed_and_named_with_the_one_that_stands_for_them() -> None:
    random = np.random.default_rng(0)
    features = random.standard_normal((400, 6))
    features[:, 2] = 5 - 3 * features[:, 4]
    features[:, 5] = features[:, 4] + 0.3 * random.standard_normal(400)
    kept, removed = uncorrelated(features)
    # Each could stand for the two others; the first one does.
    assert kept == (0, 1, 2, 3)
    assert [(each.feature, each.kept) for each in removed] == [(4, 2), (5, 2)]
    assert removed[0].correlation == pytest.approx(-1)


def test_the_one_that_stands_for_most_is_kept() -> None:
    random = np.random.default_rng(1)
    middle = random.standard_normal(2000)
    sides = [middle + 0.7 * random.standard_normal(2000) for _ in range(3)]
    features = np.stack([sides[0], sides[1], middle, sides[2]], axis=1)
    kept, removed = uncorrelated(features)
    assert kept == (2,)
    assert sorted(each.feature for each in removed) == [0, 1, 3]


def test_what_is_the_same_in_all_images_goes() -> None:
    features = np.random.default_rng(2).random((50, 3))
    features[:, 1] = 0.1
    kept, removed = uncorrelated(features)
    assert kept == (0, 2)
    assert [(each.feature, each.kept) for each in removed] == [(1, None)]


def test_scaling_is_by_what_was_seen_in_training() -> None:
    features = np.array([[1.0, 5.0], [3.0, 5.0], [2.0, 5.0]])
    scale = scale_of(features)
    assert scale(features).tolist() == [[0, 0], [1, 0], [0.5, 0]]
    assert scale(np.array([[5.0, 6.0]])).tolist() == [[2, 1]]
    other = np.random.default_rng(0).random((20, 2)) * 7
    assert [scale.one(row) for row in other] == scale.exactly(other).tolist()
    assert (scale(other) == scale.exactly(other).astype(np.float32)).all()


def test_elimination_leaves_what_tells() -> None:
    table = simulated(600)
    kept, removed = uncorrelated(features_of(table))
    # hue1 and hue2 are one the other's opposite.
    assert {NAMES[each.feature] for each in removed} == {"hue2"}
    left, steps = eliminate(tried(table), kept)
    assert NAMES.index("contrast") in left
    assert len(left) + len(steps) == len(kept)
    assert len(left) < len(kept) / 2
    losses = importance(tried(table), left)
    assert max(losses, key=lambda column: losses[column]) == NAMES.index("contrast")


def test_elimination_ends_where_accuracy_would_be_lost() -> None:
    random = np.random.default_rng(3)
    points = random.random((500, 4), dtype=np.float32)
    own = (points[:, 1] > 0.5) ^ (points[:, 3] > 0.5)
    trial = Trial(points, own[None], np.stack([own, ~own], axis=1), 5)
    left, steps = eliminate(trial, range(4))
    assert left == (1, 3)
    assert [column for column, _ in steps] in ([0, 2], [2, 0])
    assert min(importance(trial, left).values()) > 0.2


def test_many_images_are_drawn_from_and_the_result_is_the_same_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thinning, "ROWS", 200)
    table = simulated(500)
    assert worth(table, tried(table)) == worth(table, tried(table))
    assert "contrast" in worth(table, tried(table, seed=1))


def test_images_that_all_look_alike_are_refused() -> None:
    right, _ = hidden(50)
    table = planted(right, COSTS, np.ones((50, len(NAMES))))
    with pytest.raises(InputError, match="nothing tells"):
        worth(table, tried(table))
