"""The search over thresholds and the greedy construction find what trying everything finds."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from simulated import simulated

from edgewise.select.chain import prefix_costs
from edgewise.select.policies.cascade import MEASURES, Confidence, fit
from edgewise.select.search import greedy
from edgewise.select.thresholds import Staged, answered, answered_at, search


def random_chain(seed: int, stages: int, images: int) -> Staged:
    random = np.random.default_rng(seed)
    hard = random.random(images)
    sure = tuple(random.random(images).round(1) - hard for _ in range(stages - 1))
    right = tuple(random.random(images) * (1 + stage) > hard for stage in range(stages))
    return Staged(sure, right, tuple(float(cost) for cost in np.cumsum(random.integers(1, 9, stages))))


@pytest.mark.parametrize("stages", [2, 3])
@pytest.mark.parametrize("seed", range(12))
def test_thresholds_equal_brute_force_on_few_images(seed: int, stages: int) -> None:
    staged = random_chain(seed, stages, 14)
    options = [[-np.inf, *np.unique(sure), np.inf] for sure in staged.sure]
    for needed in range(15):
        every = []
        for thresholds in product(*options):
            ended = answered_at(staged, thresholds)
            right = int(answered(staged, thresholds).sum())
            if right >= needed:
                every.append((float(np.array(staged.costs)[ended].mean()), -right))
        found = search(staged, needed)
        if not every:
            assert found is None
            continue
        assert found is not None
        assert (found.cost, -found.right) == pytest.approx(min(every))
        assert answered(staged, found.thresholds).sum() == found.right


@pytest.mark.parametrize("stages", [2, 3, 4])
def test_what_is_found_is_what_its_thresholds_do(stages: int) -> None:
    staged = random_chain(5, stages, 3_000)
    needed = 0.97 * staged.right[-1].sum()
    found = search(staged, needed)
    assert found is not None and found.right >= needed
    assert answered(staged, found.thresholds).sum() == found.right
    cost = np.array(staged.costs)[answered_at(staged, found.thresholds)].mean()
    assert cost == pytest.approx(found.cost)
    assert found.cost < staged.costs[-1]


def greedy_by_hand(views: Confidence, measure: str) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """Every candidate and every threshold at every step."""
    table, left = views.table, list(range(len(views.table)))
    reference = views.right[:, views.reference]
    chain: tuple[int, ...] = ()
    thresholds: tuple[float, ...] = ()
    while left:
        best: tuple[float, int, float, list[int]] = (-1.0, 0, 0.0, [])
        for place in views.order:
            if place in chain:
                continue
            view = views.view((place,), pooled=True)
            before = prefix_costs(table, chain, "time")[-1] if chain else 0.0
            price = prefix_costs(table, (*chain, place), "time")[-1] - before
            for threshold in view.sure[measure][left]:
                done = [row for row in left if view.sure[measure][row] >= threshold]
                if sum(view.right[row] for row in done) < sum(reference[row] for row in done):
                    continue
                if len(done) / price > best[0]:
                    best = (len(done) / price, place, float(threshold), done)
        _, place, threshold, done = best
        left = [row for row in left if row not in done]
        chain, thresholds = (*chain, place), (*thresholds, threshold)
    return chain, thresholds[:-1]


@pytest.mark.parametrize("seed", range(6))
def test_greedy_equals_brute_force_on_few_images(seed: int) -> None:
    views = Confidence(simulated(60, seed=seed), "time", 1)
    found = greedy(views, max_loss=0.0, stages=4)
    by_hand = [greedy_by_hand(views, measure) for measure in MEASURES]
    assert (found.chain, found.thresholds) in by_hand


def test_search_is_cheaper_than_greedy() -> None:
    table = simulated(2_000, seed=9)
    views = Confidence(table, "time", 1)
    built = greedy(views, max_loss=0.0, stages=4)
    searched = fit(table, careful=0.0)
    ran = searched.replay(table).ran
    assert table.costs(ran).mean() <= built.cost
