"""Evaluations in the store: nothing lost, gone on with, found by what they depend on."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from edgewise.core.errors import EngineFailure
from edgewise.core.evaluation import Answers, Evaluation
from edgewise.core.text import parse_placement
from edgewise.core.types import Failure, Machine, Scenario, Task
from edgewise.store.db import Store
from edgewise.store.evaluations import Evaluations
from edgewise.store.migrations import APPLICATION_ID, MIGRATIONS

MACHINE = Machine("here", "a machine", "Linux", "cpu", (), ())
EMPTY = Evaluation(
    "model", parse_placement("ort:cpu@2"), "here", (("ort", "1"),), "data", 3, "made", "unit", ("a",), (), "m", "set"
)
PART = Answers((0, 1), ((0, 5, -1), (2, 1, 0)), (0.25, 1 / 3), 1, 2, 3, 16, 10)
LAST = Answers((7,), ((7, 5, 6),), (1.0,), 4, 5, 6, 1, 10)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    opened = Store(tmp_path / "lab.db")
    opened.save_machine(MACHINE)
    return opened


def test_answers_come_back_as_they_were(store: Store) -> None:
    kept = Evaluations(store)
    number = kept.begin(EMPTY)
    kept.add(number, PART)
    kept.add(number, LAST)
    kept.finish(number)
    assert kept.find(EMPTY) == (number, replace(EMPTY, answers=(PART, LAST)))
    assert [(status, record) for _, _, status, record in kept.all()] == [
        ("complete", replace(EMPTY, answers=(PART, LAST)))
    ]


def test_other_images_preprocessing_or_versions_are_another_evaluation(store: Store) -> None:
    kept = Evaluations(store)
    kept.begin(EMPTY)
    for other in (
        replace(EMPTY, data="other"),
        replace(EMPTY, preprocess="raw"),
        replace(EMPTY, versions=(("ort", "2"),)),
        replace(EMPTY, prepared="other"),
    ):
        assert kept.find(other) is None


def test_one_whose_writer_is_gone_is_gone_on_with(store: Store) -> None:
    kept = Evaluations(store)
    number = kept.begin(EMPTY)
    kept.add(number, PART)
    assert not kept.claim(number)
    store.connection.execute("UPDATE evaluations SET owner = '1:0.00'")
    assert [status for _, _, status, _ in kept.all()] == ["interrupted"]
    assert kept.claim(number)


def test_a_failure_is_kept_and_not_found_as_an_evaluation(store: Store) -> None:
    kept = Evaluations(store)
    failure = Failure.of(EngineFailure("it broke"), Task("model", EMPTY.placement, Scenario()), "here", "load", "m")
    kept.finish(kept.begin(EMPTY), failure)
    assert kept.find(EMPTY) is None
    assert [record for _, _, _, record in kept.all()] == [failure]


def test_a_store_from_before_evaluations_is_brought_up_to_date(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    old = sqlite3.connect(path)
    old.executescript(MIGRATIONS[0])
    old.execute("INSERT INTO machines VALUES ('here', 'a machine', '{}')")
    old.execute("PRAGMA user_version = 1")
    old.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    old.commit()
    old.close()
    with Store(path) as store:
        kept = Evaluations(store)
        kept.add(kept.begin(EMPTY), PART)
        assert store.connection.execute("SELECT label FROM machines").fetchone()[0] == "a machine"
