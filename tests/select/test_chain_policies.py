"""Cascades and learned deferral: what was fitted is what runs, keeps what was promised, and survives being saved."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from simulated import candidate, simulated

from edgewise.core.errors import InputError
from edgewise.select.chain import prefix_costs, spent
from edgewise.select.policies import agreement, cascade, deferral, single
from edgewise.select.policy import Policy
from edgewise.select.table import Table

FITS: Mapping[str, Callable[..., Policy]] = {
    "single": single.fit,
    "cascade": cascade.fit,
    "greedy": lambda table, **options: cascade.fit(table, how="greedy", **options),
    "plain": lambda table, **options: cascade.fit(table, how="plain", **options),
    "deferral": deferral.fit,
    "agreement": agreement.fit,
}
LOADS: Mapping[str, Callable[..., Policy]] = {
    "single": single.load,
    "cascade": cascade.load,
    "deferral": deferral.load,
    "agreement": agreement.load,
}


@pytest.fixture(scope="module")
def table() -> Table:
    return simulated(1_500, seed=3)


@pytest.fixture(scope="module")
def fitted(table: Table) -> dict[str, Policy]:
    return {name: fit(table) for name, fit in FITS.items()}


def stepped(policy: Policy, table: Table, row: int) -> tuple[int, set[int], int, float]:
    decision = policy.begin(None)
    ran: list[int] = []
    scores: list[Any] = []
    while decision.run is not None:
        assert decision.run not in ran
        ran.append(decision.run)
        scores.append(table.scores[decision.run][row])
        decision = policy.after(ran, scores)
    assert decision.scores is not None and decision.confidence is not None and decision.why
    assert 0 <= decision.confidence <= 1
    return int(decision.scores.argmax()), set(ran), ran[-1], decision.confidence


@pytest.mark.parametrize("name", FITS)
def test_replay_decides_as_the_steps_do(name: str, table: Table, fitted: dict[str, Policy]) -> None:
    fresh = simulated(600, seed=4)
    policy = fitted[name]
    replayed = policy.replay(fresh)
    for row in range(len(fresh)):
        answer, ran, last, confidence = stepped(policy, fresh, row)
        assert answer == replayed.answers[row]
        assert ran == set(np.flatnonzero(replayed.ran[row]).tolist())
        assert last == replayed.last[row]
        assert confidence == replayed.confidence[row]
    assert np.array_equal(replayed.right, replayed.answers == fresh.labels)


@pytest.mark.parametrize("name", FITS)
def test_what_is_saved_is_all_there_is(name: str, fitted: dict[str, Policy]) -> None:
    policy = fitted[name]
    fields, arrays = policy.saved()
    back = LOADS[policy.kind](json.loads(json.dumps(fields)), {key: np.array(value) for key, value in arrays.items()})
    fresh = simulated(400, seed=5)
    first, second = policy.replay(fresh), back.replay(fresh)
    assert np.array_equal(first.ran, second.ran) and np.array_equal(first.answers, second.answers)
    assert np.array_equal(first.confidence, second.confidence)


@pytest.mark.parametrize("name", FITS)
def test_fitting_again_gives_the_same(name: str, table: Table, fitted: dict[str, Policy]) -> None:
    fields, arrays = fitted[name].saved()
    again, others = FITS[name](table).saved()
    assert fields == again
    assert arrays.keys() == others.keys()
    assert all(np.array_equal(arrays[key], others[key]) for key in arrays)


@pytest.mark.parametrize("name", ["cascade", "greedy", "plain"])
@pytest.mark.parametrize("max_loss", [0.0, 0.01, 0.05])
def test_no_more_is_lost_on_the_fitting_images_than_allowed(name: str, max_loss: float, table: Table) -> None:
    policy = FITS[name](table, max_loss=max_loss)
    replayed = policy.replay(table)
    best = table.right().mean(axis=0).max()
    assert replayed.right.mean() >= best - max_loss - 1e-9
    cost = spent(table, policy.candidates, replayed.ran, "time").mean()
    assert cost <= spent(table, (), single.fit(table).replay(table).ran, "time").mean() + 1e-6


def test_the_plain_cascade_fits_one_threshold_and_the_searched_one_is_cheaper(table: Table) -> None:
    plain, searched = cascade.fit(table, how="plain", max_loss=0.01), cascade.fit(table, max_loss=0.01)
    assert plain.chain == (0, 1, 2, 3) and len(set(plain.thresholds)) == 1 and plain.measure == "odds"
    assert plain.powers == ((1.0,), (0.0, 1.0), (0.0, 0.0, 1.0), (0.0, 0.0, 0.0, 1.0))
    costs = [spent(table, each.candidates, each.replay(table).ran, "time").mean() for each in (searched, plain)]
    assert costs[0] < costs[1]


def test_more_loss_is_never_dearer(table: Table) -> None:
    costs = []
    for max_loss in (0.0, 0.01, 0.02, 0.05, 0.1):
        policy = cascade.fit(table, max_loss=max_loss, careful=0.0)
        costs.append(spent(table, policy.candidates, policy.replay(table).ran, "time").mean())
    # Chains are pruned on a coarse grid, so that a hair may be lost now and then.
    assert all(later <= earlier * 1.02 for earlier, later in pairwise(costs))


def test_a_cascade_is_much_cheaper_than_the_reference_on_new_images() -> None:
    policy = cascade.fit(simulated(4_000, seed=1))
    fresh = simulated(4_000, seed=2)
    replayed = policy.replay(fresh)
    right = fresh.right().mean(axis=0)
    assert replayed.right.mean() > right.max() - 0.015
    assert spent(fresh, policy.candidates, replayed.ran, "time").mean() < 0.8 * prefix_costs(fresh, (3,), "time")[0]


def test_being_careful_stays_away_from_the_limit(table: Table) -> None:
    bold, careful = (cascade.fit(table, max_loss=0.02, careful=by) for by in (0.0, 2.0))
    assert careful.replay(table).right.mean() > bold.replay(table).right.mean()


@pytest.mark.parametrize("objective", ["energy", "memory"])
def test_other_objectives(objective: str, table: Table) -> None:
    policy = cascade.fit(table, objective=objective, max_loss=0.02, careful=0.0)
    replayed = policy.replay(table)
    best = table.right().mean(axis=0)
    assert replayed.right.mean() >= best.max() - 0.02 - 1e-9
    cost = spent(table, policy.candidates, replayed.ran, objective).mean()
    cheapest_single = min(
        table.candidates[place].cost(objective) for place in range(4) if best[place] >= best.max() - 0.02
    )
    assert cost <= cheapest_single + 1e-6


def test_memory_is_that_of_all_that_are_loaded(table: Table) -> None:
    ran = np.zeros((2, 4), np.bool_)
    ran[:, 0] = True
    sizes = [each.memory_bytes or 0 for each in table.candidates]
    assert spent(table, (0, 2), ran, "memory").tolist() == [sizes[0] + sizes[2]] * 2


def test_an_image_is_prepared_once_for_those_that_take_it_alike(table: Table) -> None:
    other = replace(
        table, candidates=(*table.candidates[:3], candidate("wide", 1500.0, preprocess="raw", prepare_us=40))
    )
    assert prefix_costs(other, (0, 1, 3), "time") == (110e3, 360e3, 1900e3)


def test_thresholds_can_be_raised_until_the_last_answers_everything(table: Table) -> None:
    for policy in (cascade.fit(table), deferral.fit(table)):
        shares = [policy.raised(by).replay(table).ran[:, policy.chain[-1]].mean() for by in (-3, -1, 0, 1, 3)]
        assert shares == sorted(shares)
        assert policy.raised(100.0).replay(table).ran.sum() == len(table) * len(policy.chain)


BAD: tuple[tuple[str, dict[str, Any]], ...] = (
    ("cascade", {"candidates": []}),
    ("cascade", {"candidates": [0, 0]}),
    ("cascade", {"candidates": [0, -1]}),
    ("cascade", {"candidates": "01"}),
    ("cascade", {"thresholds": []}),
    ("cascade", {"thresholds": [float("nan")]}),
    ("cascade", {"thresholds": [float("inf")]}),
    ("cascade", {"thresholds": ["1"]}),
    ("cascade", {"powers": [[1.0]]}),
    ("cascade", {"powers": [[1.0], [1.0]]}),
    ("cascade", {"measure": "luck"}),
)


@pytest.mark.parametrize(("kind", "change"), BAD)
def test_a_cascade_that_does_not_fit_together_is_refused(kind: str, change: dict[str, Any]) -> None:
    fields = {"candidates": [0, 1], "thresholds": [1.0], "powers": [[1.0], [0.5, 0.5]], "measure": "margin"}
    assert cascade.load(fields, {}).chain == (0, 1)
    with pytest.raises(InputError):
        cascade.load(fields | change, {})


def test_a_deferral_that_does_not_fit_together_is_refused(fitted: dict[str, Policy]) -> None:
    fields, arrays = fitted["deferral"].saved()
    assert deferral.load(fields, arrays)
    for key in arrays:
        for bad in (None, np.zeros(3), np.full_like(arrays[key], np.nan)):
            with pytest.raises(InputError):
                deferral.load(
                    fields, {**arrays, key: bad} if bad is not None else {k: arrays[k] for k in arrays if k != key}
                )
    for change in ({"powers": 3}, {"classes": 0}, {"classes": "ten"}):
        with pytest.raises(InputError):
            deferral.load({**fields, **change}, arrays)


def test_a_dearer_form_of_a_model_is_tried_only_where_it_is_more_accurate(table: Table) -> None:
    from edgewise.select.policies.cascade import Confidence

    def with_form(scores: Any) -> Table:
        """The second candidate once more, dearer, and with these answers."""
        form = replace(table.candidates[1], run_ns=table.candidates[1].run_ns + 5e3)
        return replace(table, candidates=(*table.candidates, form), scores=(*table.scores, scores))

    alike = np.array(table.scores[1])
    alike[0] = alike[0][::-1]
    assert Confidence(with_form(alike), "time", 1).order == [0, 1, 2, 3]
    assert Confidence(with_form(table.scores[2]), "time", 1).order == [0, 1, 4, 2, 3]
    assert cascade.fit(with_form(alike), max_loss=0.01) == cascade.fit(table, max_loss=0.01)
    dear = replace(table, candidates=tuple(replace(each, model="one") for each in table.candidates))
    assert Confidence(dear, "time", 1).order[-1] == Confidence(dear, "time", 1).reference == 3


def test_one_candidate_is_nothing_to_choose_from(table: Table) -> None:
    alone = replace(table, candidates=table.candidates[:1], scores=table.scores[:1])
    for fit in (cascade.fit, deferral.fit, agreement.fit):
        with pytest.raises(InputError, match="two candidates"):
            fit(alone)


def test_rows_without_an_answer_are_handed_on_and_count_as_wrong(table: Table) -> None:
    broken = np.array(table.scores[0])
    broken[:700] = np.nan
    policy = cascade.fit(replace(table, scores=(broken, *table.scores[1:])))
    replayed = policy.replay(replace(table, scores=(broken, *table.scores[1:])))
    assert replayed.right.mean() >= table.right().mean(axis=0).max() - 1e-9
    everything = replace(table, scores=tuple(np.full_like(each, np.nan) for each in table.scores))
    assert np.isfinite(policy.replay(everything).confidence).all()
