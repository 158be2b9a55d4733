"""What choosing itself takes: deciding, and running where others ran before, are part of what a chain costs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from simulated import simulated

from edgewise.select.chain import Chain, prefix_costs, spent
from edgewise.select.course import followed, packed
from edgewise.select.deciding import deciding_ns, stages_ns
from edgewise.select.policies import agreement, cascade, deferral, single
from edgewise.select.table import Table

KINDS: dict[str, Callable[..., Any]] = {
    "agreement": agreement.fit,
    "cascade": cascade.fit,
    "deferral": deferral.fit,
}


@pytest.fixture(scope="module")
def table() -> Table:
    return simulated(800, seed=7)


def switching(table: Table, switch_ns: float) -> Table:
    return replace(table, candidates=tuple(replace(each, switch_ns=switch_ns) for each in table.candidates))


def test_every_kind_with_stages_says_what_one_takes(table: Table) -> None:
    found = stages_ns(table)
    assert found.keys() == KINDS.keys()
    assert all(value > 0 for value in found.values())
    assert stages_ns(replace(table, candidates=table.candidates[:2], scores=table.scores[:2])).keys() == KINDS.keys()


def test_a_stage_costs_what_it_takes_to_decide(table: Table) -> None:
    plain, with_time = (prefix_costs(table, (0, 1, 3), "time", each) for each in (0.0, 7e3))
    assert with_time == pytest.approx([cost + 7e3 * (stage + 1) for stage, cost in enumerate(plain)])
    assert prefix_costs(table, (3,), "time", 7e3) == prefix_costs(table, (3,), "time"), "nothing to decide"
    assert prefix_costs(table, (0, 1), "energy", 7e3) == prefix_costs(table, (0, 1), "energy")


@pytest.mark.parametrize("kind", KINDS)
def test_where_deciding_is_dear_the_best_alone_is_taken(kind: str, table: Table) -> None:
    fit = KINDS[kind]
    found: Chain = fit(replace(table, deciding_ns={kind: 1e3}), max_loss=0.02)
    assert len(found.chain) > 1
    assert fit(replace(table, deciding_ns={kind: 1e9}), max_loss=0.02).chain in {(place,) for place in range(4)}
    others = {name: 1e9 for name in KINDS if name != kind}
    assert fit(replace(table, deciding_ns=others), max_loss=0.02).chain == fit(table, max_loss=0.02).chain


def test_what_was_searched_with_is_what_is_spent(table: Table) -> None:
    """Charging an image that goes further for what the next one finds comes to the same on average."""
    own = switching(table, 30e3)
    policy = cascade.fit(own, max_loss=0.02)
    assert len(policy.chain) > 1
    ran = policy.replay(own).ran
    ends = np.array([int(row.sum()) - 1 for row in ran])
    staged = np.array(prefix_costs(own, policy.chain, "time"))[ends]
    assert spent(own, policy.chain, ran).mean() == pytest.approx(staged.mean())


def test_running_after_others_costs_more_and_running_on_does_not(table: Table) -> None:
    own = switching(table, 30e3)
    alone = single.Single(2).replay(own).ran
    assert np.array_equal(spent(own, (2,), alone), spent(table, (2,), alone))
    mixed = np.zeros((4, 4), np.bool_)
    mixed[:2, 0] = mixed[2:, 1] = True
    assert spent(own, (0, 1), mixed) == pytest.approx(spent(table, (0, 1), mixed) + 15e3), "every other time"
    both = np.zeros((4, 4), np.bool_)
    both[:, :2] = True
    assert spent(own, (0, 1), both) == pytest.approx(spent(table, (0, 1), both) + 60e3)
    for objective in ("energy", "memory"):
        assert np.array_equal(spent(own, (0, 1), both, objective), spent(table, (0, 1), both, objective))


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


def test_deciding_is_timed_without_what_stands_for_asking(table: Table) -> None:
    policy = cascade.fit(table, max_loss=0.02)
    # Reading other memory takes far longer than a decision: it must not be part of it.
    assert 0 < deciding_ns(policy, table, 20) < 2e6
