"""What choosing itself takes: deciding, and running where others ran before, are part of what a chain costs."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from simulated import simulated

from edgewise.core import registry
from edgewise.core.choice import Company
from edgewise.select.chain import Chain, prefix_costs, spent
from edgewise.select.course import followed, packed
from edgewise.select.deciding import decided, deciding_ns
from edgewise.select.policies import agreement, cascade, deferral, single
from edgewise.select.search import forms
from edgewise.select.table import Table
from edgewise.study.company import spread

KINDS: dict[str, Callable[..., Any]] = {
    "agreement": agreement.fit,
    "cascade": cascade.fit,
    "deferral": deferral.fit,
}


@pytest.fixture(scope="module")
def table() -> Table:
    return simulated(800, seed=7)


def with_company(table: Table, after_ns: float = 0.0, **deciding_ns: float) -> Table:
    """Every candidate takes so much longer after another one."""
    size = len(table.candidates)
    after = tuple(tuple(after_ns * (own != other) for other in range(size)) for own in range(size))
    return replace(table, company=Company(after, deciding_ns, 2.0))


def test_a_stage_costs_what_it_takes_to_decide(table: Table) -> None:
    own = with_company(table, cascade=7e3)
    plain = prefix_costs(table, (0, 1, 3), "time")
    assert prefix_costs(own, (0, 1, 3), "time") == plain
    found = prefix_costs(own, (0, 1, 3), "time", "cascade")
    assert found == pytest.approx([cost + 7e3 * (stage + 1) for stage, cost in enumerate(plain)])
    assert prefix_costs(own, (3,), "time", "cascade") == prefix_costs(table, (3,), "time"), "nothing to decide"
    assert prefix_costs(own, (0, 1), "energy", "cascade") == prefix_costs(table, (0, 1), "energy")


@pytest.mark.parametrize("kind", KINDS)
def test_where_deciding_is_dear_the_best_alone_is_taken(kind: str, table: Table) -> None:
    fit = KINDS[kind]
    plain: Chain = fit(table, max_loss=0.1)
    assert len(plain.chain) > 1
    assert fit(with_company(table, **{kind: 1e9}), max_loss=0.1).chain in {(place,) for place in range(4)}
    others = {name: 1e9 for name in KINDS if name != kind}
    assert fit(with_company(table, **others), max_loss=0.1).chain == plain.chain


def test_what_was_searched_with_is_what_is_spent(table: Table) -> None:
    """Charging an image with what the next one finds comes to the same on average."""
    after = np.random.default_rng(1).uniform(0, 50e3, (4, 4))
    np.fill_diagonal(after, 0)
    since = (0.0, 1e3, 2e3, 3e3)
    own = replace(table, company=Company(tuple(map(tuple, after.tolist())), {"cascade": 1e3}, 1.0, since))
    policy = cascade.fit(own, max_loss=0.02)
    assert len(policy.chain) > 1
    ran = policy.replay(own).ran
    ends = ran.sum(axis=1) - 1
    staged = np.array(prefix_costs(own, policy.chain, "time", "cascade"))[ends]
    assert spent(own, policy.chain, ran).mean() + deciding_ns(policy, own) == pytest.approx(staged.mean())


def test_running_after_others_costs_more_and_running_on_does_not(table: Table) -> None:
    own = with_company(table, 30e3)
    alone = single.Single(2).replay(own).ran
    assert np.array_equal(spent(own, (2,), alone), spent(table, (2,), alone))
    mixed = np.zeros((4, 4), np.bool_)
    mixed[:2, 0] = mixed[2:, 1] = True
    assert spent(own, (0, 1), mixed) == pytest.approx(spent(table, (0, 1), mixed) + 15e3), "every other time"
    both = np.zeros((4, 4), np.bool_)
    both[:, :2] = True
    assert spent(own, (0, 1), both) == pytest.approx(spent(table, (0, 1), both) + 30e3), "the second runs on, as a rule"
    both[:2, 1] = False
    assert spent(own, (0, 1), both) == pytest.approx(spent(table, (0, 1), both) + np.array([0, 0, 30e3, 30e3]))
    for objective in ("energy", "memory"):
        assert np.array_equal(spent(own, (0, 1), both, objective), spent(table, (0, 1), both, objective))


def test_one_that_refuses_everything_costs_nothing_to_run(table: Table) -> None:
    nobody = np.zeros((3, 4), np.bool_)
    assert spent(with_company(table, 30e3), (0, 1), nobody).tolist() == [0.0] * 3


def test_other_policies_are_timed_and_take_longer_after_models(table: Table) -> None:
    policy = single.Single(1)
    assert deciding_ns(policy, table, 20) > 0
    assert deciding_ns(policy, with_company(table, cascade=5.0), 20) > 0
    searched = cascade.fit(table, max_loss=0.02)
    stages = searched.replay(table).ran.sum(axis=1).mean()
    assert deciding_ns(searched, with_company(table, cascade=5e3)) == pytest.approx(stages * 5e3)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("candidates", [2, 5])
def test_a_specimen_of_every_kind_goes_through_its_stages(kind: str, candidates: int, table: Table) -> None:
    policy = registry.find("select.policies", kind).specimen(candidates, table.classes)
    said = [table.scores[place % 4][0] for place in range(candidates)]
    course, took_ns = decided(policy, said.__getitem__, candidates, table.classes)
    assert 2 <= len(course.ran) <= min(3, candidates) and took_ns > 0


def test_a_course_asks_whom_the_policy_says(table: Table) -> None:
    policy = cascade.fit(table, max_loss=0.02)
    replayed = policy.replay(table)
    courses = [followed(policy, None, lambda place, row=row: table.scores[place][row]) for row in range(50)]  # type: ignore[misc]
    outputs = packed(courses, 4, 10)
    assert np.array_equal(outputs["asked"], replayed.ran[:50])
    assert np.array_equal(outputs["scores"].argmax(axis=1), replayed.answers[:50])
    assert outputs["scores"].dtype == np.float32


def test_who_is_not_trusted_has_no_scores() -> None:
    from edgewise.select.course import Course
    from edgewise.select.policy import Decision

    row = np.array([-0.1, -2.0, -3.0], np.float32)
    outputs = packed([Course(Decision(None)), Course(Decision(None, row), [1])], 2, 3)
    assert np.array_equal(outputs["scores"][0], [-np.inf] * 3) and np.array_equal(outputs["scores"][1], row)
    assert outputs["asked"].tolist() == [[False, False], [False, True]]
    assert packed([Course(Decision(None))], 2, 3)["scores"].shape == (1, 3)


def test_deciding_is_timed_without_what_passes_in_asking(table: Table) -> None:
    policy = cascade.fit(table, max_loss=0.02)

    def slowly(place: int) -> Any:
        time.sleep(0.02)
        return table.scores[place][0]

    _, took_ns = decided(policy, slowly, 4, 10)
    assert 0 < took_ns < 15e6


def test_dearer_forms_that_answer_alike_are_stood_for() -> None:
    own = simulated(400, strengths=(1.2, 1.2, 3.0, 3.0), costs_us=(100.0, 150.0, 900.0, 700.0), shared=1.0)
    models = ["small", "small", "large", "large"]
    right = own.right()
    right[:, 1], right[:, 3] = right[:, 0], right[:, 2]
    assert forms(models, [100.0, 150.0, 900.0, 700.0], right) == {0: 0, 1: 0, 3: 3, 2: 3}
    better = right.copy()
    better[np.flatnonzero(~better[:, 1])[:9], 1] = True
    assert forms(models, [100.0, 150.0, 900.0, 700.0], better)[1] == 1, "more accurate, and so worth a try"
    luckier = right.copy()
    luckier[np.flatnonzero(~luckier[:, 2])[:1], 2] = True
    assert forms(models, [100.0, 150.0, 900.0, 700.0], luckier)[2] == 2, "others are measured against the most accurate"
    assert forms(["a", "b", "c", "d"], [4.0, 3.0, 2.0, 1.0], right) == {3: 3, 2: 2, 1: 1, 0: 0}


def test_two_forms_taken_for_one_are_not_free_of_each_other() -> None:
    found = Company(((0.0, 5.0), (3.0, 0.0)), {}, 1.0, (1.0, 2.0))
    known = spread(found, [0, 0, 1])
    assert known.after_ns == ((0, 5, 5), (5, 0, 5), (3, 3, 0))
    assert known.since_ns == (1, 1, 2)
