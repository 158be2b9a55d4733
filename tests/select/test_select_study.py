"""From a table to a policy with what was asked for: options, promises, what it would come to."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from edgewise.core.choice import Candidate
from edgewise.core.errors import InputError
from edgewise.core.text import parse_target
from edgewise.select import drift
from edgewise.select.table import Table
from edgewise.study.select import Wish, check, evaluated, fit, uses_features

CLASSES = 10


def planted(images: int = 2000, seed: int = 0, energy_uj: float | None = None) -> Table:
    """A cheap candidate that knows when it is right, and a dear one that is right more often."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, CLASSES, images)
    easy = random.uniform(size=images) < 0.6
    scores = []
    for skill in (np.where(easy, 8.0, 0.5), np.where(easy, 7.0, 3.5)):
        logits = random.normal(size=(images, CLASSES))
        logits[np.arange(images), labels] += skill
        logs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        scores.append(logs.astype(np.float32))
    costs = ((1e5, 2e4), (1e6, 2e4))
    target = parse_target("ort:cpu:fp32@1")
    candidates = tuple(
        Candidate(name, name, target, "unit", *cost, memory_bytes=1 << 20, energy_uj=energy_uj)
        for name, cost in zip(("cheap", "dear"), costs, strict=True)
    )
    return Table(candidates, labels, tuple(scores))


def test_a_cascade_is_cheaper_and_says_by_how_much() -> None:
    table = planted()
    found = fit(table, Wish("cascade"))
    told = found.outcome
    assert found.guarantee is None
    assert told.best == 1 and told.best_accuracy == told.accuracies[1] == table.right().mean(axis=0)[1]
    assert told.accuracy >= told.best_accuracy
    assert told.cost < 0.8 * told.best_cost and told.best_cost == pytest.approx(1.02e6)
    # Alike in how they take an image, they share what preparing it takes.
    ran = found.policy.replay(table).ran
    asked = 2e4 + ran[:, 0].mean() * 1e5 + ran[:, 1].mean() * 1e6
    assert told.cost == pytest.approx(asked + told.deciding_ns) and told.deciding_ns > 0
    bolder = fit(table, Wish("cascade", max_loss=0.05)).outcome
    assert bolder.cost - bolder.deciding_ns < told.cost - told.deciding_ns


def test_a_promise_is_shown_on_other_images_and_watched() -> None:
    found = fit(planted(6000), Wish("cascade", max_loss=0.02, risk=0.1))
    assert found.guarantee is not None
    assert (found.guarantee["epsilon"], found.guarantee["delta"]) == (0.02, 0.1)
    assert found.guarantee["images"] == 3000
    assert found.outcome.cost < found.outcome.best_cost
    monitor = drift.load(found.guarantee["monitor"])
    seen = found.policy.replay(planted(3000, seed=1))
    for ran, sure in zip(seen.ran, seen.confidence, strict=True):
        monitor.see(drift.signal(int(ran.sum()), float(sure)))
    assert not monitor.alarmed, "these are drawn alike"
    for _ in range(500):
        monitor.see(drift.signal(2, 0.2))
    assert monitor.alarmed


def test_what_cannot_be_promised_is_refused() -> None:
    with pytest.raises(InputError, match="has no threshold"):
        fit(planted(), Wish("single", risk=0.05))
    with pytest.raises(InputError, match="no energy meter"):
        fit(planted(), Wish("single", objective="energy"))
    table = planted()
    table = dataclasses.replace(
        table, candidates=tuple(dataclasses.replace(each, memory_bytes=None) for each in table.candidates)
    )
    with pytest.raises(InputError, match="the memory of cheap on ort:cpu:fp32@1 is not known"):
        fit(table, Wish("single", objective="memory"))
    assert fit(planted(energy_uj=5.0), Wish("single", objective="energy")).outcome.cost == 5.0


@pytest.mark.parametrize(
    "wish",
    [
        Wish("magic"),
        Wish("single", objective="beauty"),
        Wish("single", max_loss=-0.1),
        Wish("single", risk=0.0),
        Wish("single", top=0),
    ],
)
def test_wishes_are_checked(wish: Wish) -> None:
    with pytest.raises(InputError):
        check(wish)


def test_memory_is_held_by_all_that_may_be_asked() -> None:
    table = planted()
    table = dataclasses.replace(
        table, candidates=(table.candidates[0], dataclasses.replace(table.candidates[1], memory_bytes=3 << 20))
    )
    found = fit(table, Wish("cascade", objective="memory"))
    held = [(1 << 20, 3 << 20)[place] for place in found.policy.candidates]
    assert found.outcome.cost == sum(held)


def test_every_method_is_evaluated_that_can_be() -> None:
    table = planted(300)
    found = evaluated(table, Wish("cascade"), folds=3)
    names = {method.name for method in found.methods}
    assert "cascade" in names and "single" not in names
    assert not any(uses_features(check(Wish(name.split(",")[0]))) for name in names), "there is nothing to look at"
    assert found.folds == 3 and found.images == 300
    assert {"cascade, greedy", "cascade, plain"} <= names and "cascade, promised" not in names
    assert found.max_loss == 0.0


def test_what_a_promise_leaves_is_evaluated_too() -> None:
    found = evaluated(planted(900), Wish("cascade", max_loss=0.05, risk=0.1), folds=3)
    by_name = {method.name: method for method in found.methods}
    assert found.max_loss == 0.05
    assert by_name["cascade, promised"].ratio.value < 1
