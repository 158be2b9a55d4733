"""The convolutional network: its gradient, what it sees that features do not, and what is kept of it."""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tables import COSTS, pictured, planted, simulated

from edgewise.core.errors import InputError
from edgewise.select import cnn
from edgewise.select.features import FAMILIES, NAMES, PAPER, THUMBNAIL, extract
from edgewise.select.features.reduce import PIXELS
from edgewise.select.policies.premodel import Premodel, fit, load
from edgewise.select.table import Table
from edgewise.select.worth import cast, trial_of, worth

Bytes = NDArray[np.uint8]


def noise(count: int, seed: int = 0) -> tuple[Bytes, NDArray[np.bool_]]:
    random = np.random.default_rng(seed)
    return random.integers(0, 256, (count, PIXELS)).astype(np.uint8), random.random(count) < 0.5


def sides(count: int, seed: int) -> tuple[list[Bytes], NDArray[np.bool_]]:
    """A bright square on the left or on the right: one is the other in a mirror."""
    random = np.random.default_rng(seed)
    left = random.random(count) < 0.5
    images = []
    for yes in left:
        image = np.full((32, 32, 3), random.integers(0, 100), np.uint8)
        down = random.integers(2, 20)
        image[down : down + 9, 3:12] = random.integers(140, 256, 3)
        images.append(np.ascontiguousarray(image if yes else image[:, ::-1]))
    return images, left


def table_of(images: list[Bytes], right: NDArray[np.bool_]) -> Table:
    """What `edgewise select` makes of images."""
    rows = np.stack([extract(image, (*NAMES, THUMBNAIL)) for image in images])
    made = planted(right, COSTS[: right.shape[1]], rows[:, : len(NAMES)])
    return Table(made.candidates, made.labels, made.scores, made.features, rows[:, len(NAMES) :].astype(np.uint8))


def test_the_gradient_is_what_the_loss_does() -> None:
    thumbnails, yes = noise(5)
    # Flat parts too, where four pixels are alike.
    thumbnails[0], thumbnails[1, :300] = 80, 200
    layers = [each.astype(np.float64) for each in cnn.beginning(np.random.default_rng(1), yes)]
    values = cnn.values_of(thumbnails, np.float64)
    slopes, _ = cnn.gradients(layers, values, yes)
    random, step = np.random.default_rng(2), 1e-6
    for layer, slope in zip(layers, slopes, strict=True):
        assert layer.shape == slope.shape
        flat = layer.reshape(-1)
        for place in random.integers(0, layer.size, 8):
            was, losses = flat[place], []
            for there in (was + step, was - step):
                flat[place] = there
                losses.append(cnn.gradients(layers, values, yes)[1])
            flat[place] = was
            assert (losses[0] - losses[1]) / (2 * step) == pytest.approx(slope.reshape(-1)[place], rel=1e-4, abs=1e-8)


def test_it_convolves_as_one_would_write_it_plainly() -> None:
    thumbnails, yes = noise(1)
    network = cnn.Network(tuple(cnn.beginning(np.random.default_rng(3), yes)))
    values = (thumbnails[0] / 127.5 - 1).reshape(3, 16, 16)
    for stage in range(cnn.STAGES):
        weights, biases = network.layers[2 * stage : 2 * stage + 2]
        kernel = weights.reshape(len(weights), len(values), 3, 3)
        side = values.shape[1]
        padded = np.pad(values, ((0, 0), (1, 1), (1, 1)))
        found = np.empty((len(weights), side, side))
        for y in range(side):
            for x in range(side):
                found[:, y, x] = (kernel * padded[:, y : y + 3, x : x + 3]).sum(axis=(1, 2, 3)) + biases
        half = side // 2
        values = np.maximum(found.reshape(-1, half, 2, half, 2).max(axis=(2, 4)), 0)
    expected = float(network.layers[-2] @ values.ravel() + network.layers[-1][0])
    assert network.sure(thumbnails[0]) == pytest.approx(expected, rel=1e-4)


def test_it_sees_what_features_cannot() -> None:
    """Left or right: who is right about an image is a matter of that alone."""
    images, left = sides(200, 0)
    others, there = sides(200, 1)
    assert all(np.allclose(extract(image), extract(image[:, ::-1])) for image in images)
    train, test = (table_of(shown, np.stack([yes, ~yes], axis=1)) for shown, yes in ((images, left), (others, there)))
    policy = fit(train, levels="cnn")
    assert (policy.replay(test).last == np.where(there, 0, 1)).mean() > 0.97
    by_features = fit(train, levels="knn", features=PAPER)
    assert (by_features.replay(test).last == np.where(there, 0, 1)).mean() < 0.7


def test_learned_again_it_is_the_same_and_another_seed_is_another() -> None:
    thumbnails, yes = noise(90)
    first, second = cnn.train(thumbnails, yes), cnn.train(thumbnails, yes)
    assert all((one == other).all() for one, other in zip(first.layers, second.layers, strict=True))
    assert all(each.dtype == np.float32 for each in first.layers)
    assert not (cnn.train(thumbnails, yes, seed=1).layers[0] == first.layers[0]).all()


@pytest.mark.parametrize("answer", [True, False])
@pytest.mark.parametrize("count", [3, 200])
def test_one_answer_only_is_learned_however_few_there_are(count: int, answer: bool) -> None:
    thumbnails, _ = noise(count)
    assert (cnn.train(thumbnails, np.full(count, answer)).answers(thumbnails) == answer).all()


def test_layers_that_do_not_fit_are_refused() -> None:
    thumbnails, yes = noise(70)
    good = dict(cnn.train(thumbnails, yes).arrays())
    assert all((one == other).all() for one, other in zip(cnn.load(good).layers, good.values(), strict=True))
    for name, array in good.items():
        wrong: list[NDArray[Any]] = [array[None], array[:-1], array.astype(np.float64), array * np.float32(np.nan)]
        with pytest.raises(InputError, match="convolutional"):
            cnn.load({key: value for key, value in good.items() if key != name})
        for other in wrong:
            with pytest.raises(InputError, match="convolutional"):
                cnn.load(good | {name: other})


CHAINS = ("cnn", "knn+cnn", "cnn+tree")
TRAIN, TEST = pictured(simulated(200, 0)), pictured(simulated(60, 1), 1)


@pytest.fixture(scope="module", params=CHAINS)
def policy(request: pytest.FixtureRequest) -> Premodel:
    return fit(TRAIN, levels=request.param, features=PAPER)


def test_as_a_level_it_looks_at_the_thumbnail_and_pays_for_that(policy: Premodel) -> None:
    assert THUMBNAIL in policy.features
    alone = all(isinstance(level, cnn.Network) for level in policy.levels)
    assert policy.features == ((THUMBNAIL,) if alone else (*PAPER, THUMBNAIL))


def test_replayed_it_decides_as_it_does_one_by_one(policy: Premodel) -> None:
    last = policy.replay(TEST).last
    for row in range(len(TEST)):
        look = TEST.look(row)
        assert look is not None
        assert policy.begin(look).run == last[row]
    assert len(set(last.tolist())) > 1


def test_saved_and_loaded_it_is_the_same(policy: Premodel) -> None:
    fields, arrays = policy.saved()
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, **arrays)
    file.seek(0)
    with np.load(file, allow_pickle=False) as stored:
        again = load(json.loads(json.dumps(fields)), dict(stored))
    assert (again.replay(TEST).last == policy.replay(TEST).last).all()
    assert again.saved()[0] == fields
    broken = {name: array for name, array in arrays.items() if not name.endswith("weights1")}
    with pytest.raises(InputError, match="convolutional"):
        load(fields, broken)
    with pytest.raises(InputError):
        load({**fields, "features": fields["features"][:-1]}, arrays)
    with pytest.raises(InputError):
        load({**fields, "features": [THUMBNAIL, *fields["features"]]}, arrays)


def test_levels_of_networks_alone_can_tell_what_is_strange() -> None:
    found = fit(TRAIN, levels="cnn", features=PAPER, sound=0.95)
    assert found.features == (*PAPER, THUMBNAIL)
    look = TEST.look(0)
    assert look is not None
    look[: len(NAMES)] = look[: len(NAMES)] * 50 + 1000
    assert found.begin(look).why == "strange"


def test_without_thumbnails_nothing_is_decided(policy: Premodel) -> None:
    with pytest.raises(InputError, match="thumbnail"):
        fit(simulated(50), levels="cnn")
    with pytest.raises(InputError, match="thumbnail"):
        policy.replay(simulated(50))
    assert TEST.features is not None
    with pytest.raises(InputError, match="thumbnail"):
        policy.begin(TEST.features[0])


def test_an_image_is_seen_alike_in_a_table_and_by_itself() -> None:
    images, left = sides(60, 4)
    shown = table_of(images, np.stack([left, np.ones(60, np.bool_)], axis=1))
    found = fit(shown, levels="cnn+knn", features=PAPER)
    last = found.replay(shown).last
    for row, image in enumerate(images):
        assert found.begin(extract(image, only=found.features)).run == last[row]


def test_the_thumbnail_is_not_one_of_the_features_that_are_chosen_from() -> None:
    assert THUMBNAIL not in NAMES and FAMILIES[THUMBNAIL] == (THUMBNAIL,)
    assert THUMBNAIL not in worth(TRAIN, trial_of(TRAIN, cast(TRAIN)))
    with pytest.raises(InputError, match="features are"):
        fit(TRAIN, features=(THUMBNAIL,))
