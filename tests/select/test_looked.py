"""The premodel looked into, on a table whose answers are planted."""

from __future__ import annotations

import pytest
from tables import pictured, simulated

import edgewise.select.looked as looking
from edgewise.core.selected import Looked
from edgewise.select.looked import TECHNIQUES, look
from edgewise.select.thinning import Trial


@pytest.fixture(scope="module")
def looked() -> Looked:
    return look(simulated(300), count=3)


def test_how_often_each_is_the_cheapest_that_is_right(looked: Looked) -> None:
    assert looked.optimal[0] == max(looked.optimal)
    assert 0.8 < sum(looked.optimal) <= 1


def test_who_takes_part_and_on_what_is_left(looked: Looked) -> None:
    first, second = looked.rounds[:2]
    assert (first.taken, first.images) == (0, 300)
    # What the first gets wrong it has none of right.
    assert second.right[0] == 0
    assert second.images == round(300 * (1 - first.right[0]))


def test_the_feature_that_tells_the_difficulty_matters_most(looked: Looked) -> None:
    worth = dict(looked.importance)
    assert max(worth, key=lambda name: worth[name]) == "contrast"
    # One of two that say the same is enough.
    assert not {"hue1", "hue2"} <= set(worth)


def test_every_technique_more_candidates_and_more_features_are_tried_on_images_held_out(looked: Looked) -> None:
    # There are no thumbnails: what looks at them is left out.
    assert [method.name for method in looked.techniques] == [each for each in TECHNIQUES if "cnn" not in each]
    assert all(method.overhead_ns > 0 for method in looked.techniques)
    one, *more = looked.by_candidates
    assert (one.count, one.least, one.most) == (1, one.cost, one.cost)
    assert max(each.accuracy for each in more) > one.accuracy
    assert [each.count for each in looked.by_features] == list(range(1, len(looked.importance) + 1))


def test_features_are_ranked_without_the_images_held_out(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []
    ranked = looking.importance

    def spying(trial: Trial, columns: tuple[int, ...]) -> dict[int, float]:
        sizes.append(len(trial.points))
        return ranked(trial, columns)

    monkeypatch.setattr(looking, "importance", spying)
    look(simulated(120), count=2)
    # Once of all images, for what is drawn of importance, and once in each fold.
    assert sorted(sizes) == [60, 60, 120]


def test_a_network_is_tried_where_there_are_thumbnails() -> None:
    found = look(pictured(simulated(100)), count=2)
    assert [method.name for method in found.techniques] == list(TECHNIQUES)


def test_the_same_again(looked: Looked) -> None:
    again = look(simulated(300), count=3)
    assert (again.optimal, again.rounds, again.importance) == (looked.optimal, looked.rounds, looked.importance)
    assert (again.by_candidates, again.by_features) == (looked.by_candidates, looked.by_features)
