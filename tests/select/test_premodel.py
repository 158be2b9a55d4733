"""The premodel: its chain as one would write it plainly, replayed as it decides, saved and loaded as it is."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tables import COSTS, hidden, planted, simulated

from edgewise.core.errors import InputError
from edgewise.select.features import NAMES, PAPER
from edgewise.select.policies import premodel
from edgewise.select.policies.premodel import Premodel, fit, load
from edgewise.select.policy import REFUSED
from edgewise.select.subset import choose
from edgewise.select.table import Table

TRAIN, TEST = simulated(400, 0), simulated(300, 1)
CHAINS = ("knn", "tree", "svm", "knn+tree", "tree+knn+svm")


def plainly(train: Table, test: Table, names: tuple[str, ...], k: int, otherwise: str, top: int) -> list[int]:
    """The paper's chain of nearest neighbours, image by image and neighbour by neighbour."""
    assert train.features is not None
    assert test.features is not None
    right = train.right(top)
    costs = [candidate.run_ns for candidate in train.candidates]
    chain = [step.candidate for step in choose(right, costs)]
    columns = [NAMES.index(name) for name in names]
    known, asked = train.features[:, columns], test.features[:, columns]
    low, high = known.min(axis=0), known.max(axis=0)
    known, asked = (known - low) / (high - low), (asked - low) / (high - low)
    found = []
    for point in asked:
        distances = np.sqrt(((known - point) ** 2).sum(axis=1))
        neighbours = sorted(range(len(known)), key=lambda row: distances[row])[:k]
        choice = int(right.mean(axis=0).argmax()) if otherwise == "best" else REFUSED
        for candidate in chain:
            votes = 0
            for row in neighbours:
                able = [each for each in chain if right[row, each]]
                if able and min(able, key=lambda each: costs[each]) == candidate:
                    votes += 1
            if votes > k / 2:
                choice = candidate
                break
        found.append(choice)
    return found


@pytest.mark.parametrize("otherwise", ["best", "refuse"])
@pytest.mark.parametrize(("k", "top"), [(5, 1), (1, 1), (4, 1), (7, 5)])
def test_the_chain_is_what_one_would_write_plainly(k: int, top: int, otherwise: str) -> None:
    names = ("contrast", "hue1", "aspect_ratio")
    policy = fit(TRAIN, k=k, top=top, otherwise=otherwise, features=names)
    assert policy.replay(TEST).last.tolist() == plainly(TRAIN, TEST, names, k, otherwise, top)


def decided(policy: Premodel, table: Table, row: int) -> tuple[int, int, float]:
    """Step by step: who was asked, the class and the confidence."""
    assert table.features is not None
    decision = policy.begin(table.features[row])
    if decision.run is None:
        assert decision.scores is None
        return REFUSED, REFUSED, 0.0
    after = policy.after([decision.run], [table.scores[decision.run][row]])
    assert after.run is None
    assert after.scores is not None
    assert after.confidence is not None
    return decision.run, int(after.scores.argmax()), after.confidence


@pytest.mark.parametrize("otherwise", ["best", "refuse"])
@pytest.mark.parametrize("sound", [1.0, 0.9])
@pytest.mark.parametrize("levels", CHAINS)
def test_replayed_it_decides_as_it_does_one_by_one(levels: str, sound: float, otherwise: str) -> None:
    policy = fit(TRAIN, levels=levels, sound=sound, otherwise=otherwise, features=PAPER)
    replayed = policy.replay(TEST)
    for row in range(len(TEST)):
        asked, answer, confidence = decided(policy, TEST, row)
        assert replayed.last[row] == asked
        assert replayed.answers[row] == answer
        assert replayed.confidence[row] == confidence
        assert np.flatnonzero(replayed.ran[row]).tolist() == ([] if asked == REFUSED else [asked])
        assert replayed.right[row] == (answer == TEST.labels[row])


@pytest.mark.parametrize("levels", CHAINS)
def test_what_features_know_is_used(levels: str) -> None:
    """More accurate than any mix of the cheapest candidate and the best that costs as much."""
    policy = fit(TRAIN, levels=levels, features=("contrast", "hue1"))
    replayed = policy.replay(TEST)
    right = TEST.right().mean(axis=0)
    best = int(right.argmax())
    cost = TEST.costs(replayed.ran).mean()
    share = (cost - COSTS[0]) / (COSTS[best] - COSTS[0])
    assert 0 < share < 0.7
    assert replayed.right.mean() > right[0] + share * (right[best] - right[0]) + 0.05


def test_the_label_among_the_first_is_enough_where_that_is_asked() -> None:
    policy = fit(TRAIN, top=5, features=PAPER)
    assert policy.chain == (0,)
    assert policy.replay(TEST, top=5).right.all()
    assert not policy.replay(TEST).right.all()


def test_a_strange_image_is_not_decided_by_the_levels() -> None:
    assert TRAIN.features is not None
    strange = TRAIN.features[0] * 50 + 1000
    near = fit(TRAIN, features=PAPER, sound=0.99, otherwise="refuse")
    assert near.begin(strange).run is None
    assert near.begin(strange).why == "strange"
    best = fit(TRAIN, features=PAPER, sound=0.99)
    assert (best.begin(strange).run, best.begin(strange).why) == (best.default, "strange")
    assert fit(TRAIN, features=PAPER).begin(strange).why != "strange"


def test_about_as_many_are_strange_as_was_said() -> None:
    everything = fit(TRAIN, features=PAPER, sound=1.0, otherwise="refuse").replay(TEST).last == REFUSED
    most = fit(TRAIN, features=PAPER, sound=0.8, otherwise="refuse").replay(TEST).last == REFUSED
    assert (most >= everything).all()
    assert 0.05 < (most & ~everything).mean() < 0.35


@pytest.mark.parametrize("levels", CHAINS)
def test_saved_and_loaded_it_is_the_same(levels: str) -> None:
    policy = fit(TRAIN, levels=levels, features=PAPER, sound=0.95)
    fields, arrays = through_files(*policy.saved())
    again = load(fields, arrays)
    assert (again.replay(TEST).last == policy.replay(TEST).last).all()
    assert again.saved()[0] == policy.saved()[0]
    assert again.candidates == policy.candidates
    assert again.uses_features


def through_files(fields: Any, arrays: Any) -> tuple[Any, dict[str, NDArray[Any]]]:
    file = io.BytesIO()
    np.savez(file, **arrays)
    file.seek(0)
    with np.load(file, allow_pickle=False) as loaded:
        return json.loads(json.dumps(fields)), dict(loaded)


@pytest.mark.parametrize("levels", ["knn", "svm", "tree"])
def test_fitted_again_it_is_the_same(levels: str) -> None:
    some = TRAIN.rows(range(150))
    first, second = fit(some, levels=levels), fit(some, levels=levels)
    assert first.saved()[0] == second.saved()[0]
    arrays, others = first.saved()[1], second.saved()[1]
    assert arrays.keys() == others.keys()
    assert all((arrays[name] == others[name]).all() for name in arrays)


def test_by_itself_it_finds_the_features_that_tell() -> None:
    found = fit(TRAIN).features
    assert "contrast" in found
    assert len(found) < len(NAMES) / 2


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"features": ["colour"]}, "features are"),
        ({"features": []}, "features are"),
        ({"features": "contrast"}, "a list"),
        ({"chain": []}, "each once"),
        ({"chain": [0, 0]}, "each once"),
        ({"chain": [-1]}, "each once"),
        ({"chain": [True]}, "a list"),
        ({"levels": ["knn"]}, "a level for each"),
        ({"levels": ["knn", "magic", "knn", "knn"]}, "a level for each"),
        ({"levels": ["knn", "tree", "knn", "knn"]}, "decision tree"),
        ({"levels": ["svm", "knn", "knn", "knn"]}, "support vector"),
        ({"default": -2}, "default"),
        ({"default": "best"}, "default"),
        ({"k": 0}, "looks at"),
        ({"k": 400}, "looks at"),
        ({"k": 2.5}, "looks at"),
        ({"farthest": "far"}, "farthest"),
        ({"farthest": -1.0}, "farthest"),
    ],
)
def test_fields_that_make_no_sense_are_refused(change: dict[str, Any], says: str) -> None:
    fields, arrays = fit(TRAIN, features=PAPER).saved()
    assert len(fields["chain"]) == 4
    with pytest.raises(InputError, match=says):
        load({**fields, **change}, arrays)


def test_arrays_that_do_not_fit_are_refused() -> None:
    fields, arrays = fit(TRAIN, features=PAPER).saved()
    for name, array in arrays.items():
        for other in (None, array[:1], array.astype(np.float16), array.astype(array.dtype).ravel()[:0]):
            broken = {key: value for key, value in arrays.items() if key != name}
            with pytest.raises(InputError):
                load(fields, broken if other is None else broken | {name: other})
    for value in (np.nan, 0.0):
        with pytest.raises(InputError):
            load(fields, {**arrays, "span": np.full(len(PAPER), value)})


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"levels": "forest"}, "a level is one of"),
        ({"levels": ""}, "a level is one of"),
        ({"otherwise": "guess"}, "best is asked"),
        ({"k": 0}, "neighbours"),
        ({"k": 400}, "neighbours"),
        ({"sound": 0.0}, "sound"),
        ({"sound": 1.5}, "sound"),
        ({"top": 0}, "top"),
        ({"features": ("size",)}, "features are"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        fit(TRAIN, **{"features": PAPER, **options})


def test_without_features_nothing_is_decided() -> None:
    right, features = hidden(50)
    with pytest.raises(InputError, match="has none"):
        fit(planted(right, COSTS))
    with pytest.raises(InputError, match="finite"):
        fit(planted(right, COSTS, features[:, :5]))
    features[3, 3] = np.nan
    with pytest.raises(InputError, match="finite"):
        fit(planted(right, COSTS, features))
    with pytest.raises(InputError, match="given none"):
        fit(TRAIN, features=PAPER).begin(None)


def test_memory_may_be_what_is_saved() -> None:
    right, features = hidden(200)
    dear_first = planted(right, (9, 1, 2, 3), features)
    assert fit(dear_first, objective="memory", features=PAPER).chain == fit(dear_first, features=PAPER).chain


def test_all_reasons_are_one_word() -> None:
    assert {premodel.CHOSEN, premodel.OTHERWISE, premodel.STRANGE} == {"chosen", "otherwise", "strange"}


def test_candidates_are_ranked_by_what_asking_them_costs_with_preparing() -> None:
    """The first runs faster, but making an image its input takes longer than the other takes as a whole."""
    right, features = np.ones((40, 2), np.bool_), np.random.default_rng(0).random((40, len(NAMES)))
    table = planted(right, (1e6, 3e6), features)
    slow = replace(table.candidates[0], preprocess="large", prepare_ns=5e6)
    assert premodel.fit(table, features=["contrast"]).chain == (0,)
    table = replace(table, candidates=(slow, table.candidates[1]))
    assert premodel.fit(table, features=["contrast"]).chain == (1,)
    # Energy is that of the candidates alone.
    told = tuple(replace(each, energy_uj=float(place + 1)) for place, each in enumerate(table.candidates))
    assert premodel.fit(replace(table, candidates=told), features=["contrast"], objective="energy").chain == (0,)
