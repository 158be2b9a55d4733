"""What decides at a level besides neighbours: a tree and a support vector machine learn what can be learned."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from edgewise.core.errors import InputError
from edgewise.select import svm, tree
from edgewise.select.neighbours import known

Floats = NDArray[np.float32]


def ring(count: int, seed: int) -> tuple[Floats, NDArray[np.bool_]]:
    """Inside a circle or outside, in two of three features."""
    points = np.random.default_rng(seed).random((count, 3), dtype=np.float32)
    return points, ((points[:, :2] - 0.5) ** 2).sum(axis=1) < 0.09


def stripes(count: int, seed: int) -> tuple[Floats, NDArray[np.bool_]]:
    points = np.random.default_rng(seed).random((count, 3), dtype=np.float32)
    return points, (points[:, 1] > 0.3) & (points[:, 2] < 0.8)


def test_a_tree_learns_what_is_cut_along_the_axes() -> None:
    grown = tree.grow(*stripes(400, 0))
    points, yes = stripes(1000, 1)
    assert (grown.answers(points) == yes).mean() > 0.97
    assert len(grown.feature) <= 9


def test_a_tree_and_a_machine_learn_a_circle() -> None:
    points, yes = ring(1000, 1)
    assert (tree.grow(*ring(1000, 0)).answers(points) == yes).mean() > 0.93
    assert (svm.train(*ring(1000, 0)).answers(points) == yes).mean() > 0.95


def test_a_machine_parts_what_can_be_parted() -> None:
    points = np.random.default_rng(0).random((300, 2), dtype=np.float32)
    yes = points.sum(axis=1) > 1.0
    far = np.abs(points.sum(axis=1) - 1.0) > 0.15
    machine = svm.train(points[far], yes[far])
    assert (machine.answers(points[far]) == yes[far]).all()
    # Most rows support nothing.
    assert len(machine.weights) < far.sum() / 2


@pytest.mark.parametrize("learn", [tree.grow, svm.train])
def test_one_point_is_answered_as_among_many(learn: object) -> None:
    found = learn(*ring(300, 0))  # type: ignore[operator]
    points, _ = ring(200, 1)
    together = found.answers(points)
    assert together.tolist() == [bool(found.answers(points[row : row + 1])[0]) for row in range(len(points))]


@pytest.mark.parametrize("yes", [True, False])
@pytest.mark.parametrize("learn", [tree.grow, svm.train])
def test_one_answer_only_is_learned_too(learn: object, yes: bool) -> None:
    points, _ = ring(40, 0)
    found = learn(points, np.full(40, yes))  # type: ignore[operator]
    assert (found.answers(points) == yes).all()


def test_a_leaf_has_its_images_and_a_tree_its_depth() -> None:
    points, yes = ring(500, 0)
    assert len(tree.grow(points, yes, depth=0).feature) == 1
    assert len(tree.grow(points, yes, depth=1).feature) == 3
    assert len(tree.grow(points, yes, leaf=300).feature) == 1
    same = np.zeros_like(points)
    assert len(tree.grow(same, yes).feature) == 1


@pytest.mark.parametrize("module", [tree, svm])
def test_learned_again_it_is_the_same_and_so_it_is_saved_and_loaded(module: object) -> None:
    learn = module.grow if module is tree else module.train  # type: ignore[attr-defined]
    first, second = learn(*ring(300, 0)), learn(*ring(300, 0))
    loaded = module.load(first.arrays(), 3)  # type: ignore[attr-defined]
    for name, array in first.arrays().items():
        assert (array == second.arrays()[name]).all()
        assert (array == loaded.arrays()[name]).all()


@pytest.mark.parametrize("module", [tree, svm])
def test_broken_arrays_are_refused(module: object) -> None:
    learn = module.grow if module is tree else module.train  # type: ignore[attr-defined]
    good = dict(learn(*ring(300, 0)).arrays())
    load = module.load  # type: ignore[attr-defined]
    for name in good:
        with pytest.raises(InputError):
            load({key: array for key, array in good.items() if key != name}, 3)
        with pytest.raises(InputError):
            load(good | {name: good[name][None]}, 3)
    with pytest.raises(InputError):
        load(good, 1 if module is tree else 4)
    if module is tree:
        # A walk that never ends.
        with pytest.raises(InputError):
            load(good | {"left": np.zeros_like(good["left"])}, 3)
        with pytest.raises(InputError):
            load(good | {"right": good["right"] + 10_000}, 3)
    else:
        with pytest.raises(InputError):
            load(good | {"weights": good["weights"] * np.float32(np.nan)}, 3)


@pytest.mark.parametrize("rows", [8, 200, 1000])
def test_neighbours_are_the_nearest_and_of_those_alike_the_first(rows: int) -> None:
    random = np.random.default_rng(0)
    # On a coarse grid, so that many are at the same distance.
    table = random.integers(0, 4, (rows, 3)).astype(np.float32)
    points = random.integers(0, 4, (90, 3)).astype(np.float32)
    found = known(np.ascontiguousarray(table.T))
    for point in points:
        distances = np.sqrt(((table - point) ** 2).sum(axis=1))
        expected = sorted(range(rows), key=lambda place: (distances[place], place))[:5]
        near = found.nearest(point.tolist(), 5)
        assert sorted(near) == sorted(expected)
        assert found.distances(point.tolist(), near) == pytest.approx(distances[near].tolist())


@pytest.mark.parametrize(("rows", "features"), [(6, 2), (300, 1), (300, 7), (1000, 29), (3001, 7)])
def test_neighbours_are_the_nearest_however_far_they_are(rows: int, features: int) -> None:
    random = np.random.default_rng(rows + features)
    table = random.random((rows, features), dtype=np.float32)
    near = random.random((30, features), dtype=np.float32)
    points = np.concatenate((near, near[:10] * 50, near[:10] * 1e5 - 5e4, near[:3] * 1e9, near[:2] * 1e30, table[:5]))
    found = known(np.ascontiguousarray(table.T))
    for point in points:
        values = point.tolist()
        distances = [math.dist(row, values) for row in table.tolist()]
        expected = sorted(range(rows), key=lambda place: (distances[place], place))
        for k in (1, 2, 5):
            assert sorted(found.nearest(values, k)) == sorted(expected[:k])
            assert found.distances(values, expected[:k]) == [distances[place] for place in expected[:k]]
