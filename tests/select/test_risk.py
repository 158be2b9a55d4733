"""Guarantees hold as often as promised: bounds against known distributions, and the walk over fresh draws of images."""

from __future__ import annotations

import math

import numpy as np
import pytest
from simulated import simulated

from edgewise.core.errors import InputError
from edgewise.select.bounds import BOUNDS, at_most, p_exact, share_limits, shown
from edgewise.select.folds import folds, halves, outside
from edgewise.select.policies import cascade, single
from edgewise.select.risk import controlled, family, losses

# (harm, luck) of which the mean loss is the first less the second.
WORLDS = ((0.03, 0.01), (0.05, 0.05), (0.02, 0.0), (0.4, 0.35), (0.004, 0.0))


def draws(harm: float, luck: float, images: int, times: int, seed: int = 0) -> list[np.ndarray]:
    random = np.random.default_rng(seed)
    counts = random.multinomial(images, (harm, luck, 1 - harm - luck), size=times)
    return [random.permutation(np.repeat([1, -1, 0], each)) for each in counts]


@pytest.mark.parametrize(("harm", "luck"), [(0.1, 0.05), (0.02, 0.0), (0.0, 0.3), (0.5, 0.5)])
def test_the_chance_of_a_sum_is_exact(harm: float, luck: float) -> None:
    count, masses = 12, np.zeros(25)
    for plus in range(count + 1):
        for minus in range(count + 1 - plus):
            rest = 1 - harm - luck
            ways = math.factorial(count) / math.factorial(plus) / math.factorial(minus)
            ways /= math.factorial(count - plus - minus)
            masses[plus - minus + count] += ways * harm**plus * luck**minus * rest ** (count - plus - minus)
    for total in range(-count, count + 1):
        assert at_most(total, count, harm, luck) == pytest.approx(masses[: total + count + 1].sum(), abs=1e-9)


def test_the_interval_of_a_share_is_clopper_and_pearsons() -> None:
    from scipy.stats import binomtest

    for hits, count in ((0, 20), (3, 50), (50, 50), (7, 1000)):
        wanted = binomtest(hits, count).proportion_ci(0.95, method="exact")
        assert share_limits(hits, count, 0.05) == pytest.approx((wanted.low, wanted.high), abs=1e-6)


@pytest.mark.parametrize("method", BOUNDS)
@pytest.mark.parametrize(("harm", "luck"), WORLDS)
def test_bounds_are_exceeded_as_seldom_as_promised(method: str, harm: float, luck: float) -> None:
    times, delta = 400, 0.1
    missed = [shown(each, harm - luck - 1e-9, delta, method) for each in draws(harm, luck, 400, times)]
    assert np.mean(missed) <= delta + 2 * math.sqrt(delta * (1 - delta) / times)


@pytest.mark.parametrize(("harm", "luck"), WORLDS[:3])
def test_the_exact_bound_is_the_tightest_on_average(harm: float, luck: float) -> None:
    drawn = draws(harm, luck, 400, 60)
    means = {method: np.mean([bound(each, 0.1) for each in drawn]) for method, bound in BOUNDS.items()}
    # Without any luck a bound of harm alone has less to allow for.
    others = {"betting", "bernstein", "hoeffding"} | ({"harm"} if luck else set())
    assert means["exact"] < min(means[method] for method in others)


@pytest.mark.parametrize("count", [9, 30, 61])
def test_no_share_of_differing_answers_makes_a_small_sum_likelier_than_the_grid_says(count: int) -> None:
    """Near one sums are all even or all odd, and the chance is not largest at the end."""
    random = np.random.default_rng(count)
    for differing in (count, count - 1, count - 3, count // 2, count // 6):
        for _ in range(4):
            plus = int(random.integers(0, differing // 2 + 1))
            lost = np.repeat([1, -1, 0], [plus, differing - plus, count - differing])
            for epsilon in (0.0, 0.1):
                found = p_exact(lost, epsilon, 0.1)
                most = share_limits(differing, count, 0.02)[1]
                closely = max(
                    at_most(int(lost.sum()), count, (share + epsilon) / 2, (share - epsilon) / 2)
                    for share in np.linspace(min(epsilon, most), most, 1_000)
                )
                assert found >= min(1.0, closely + 0.01) - 2e-4


def test_what_is_shown_is_what_the_bound_says() -> None:
    for each in draws(0.03, 0.02, 500, 8):
        bound = BOUNDS["exact"](each, 0.05)
        assert shown(each, bound + 1e-4, 0.05, "exact") and not shown(each, bound - 1e-4, 0.05, "exact")
        assert p_exact(each, bound, 0.05) == pytest.approx(0.05, abs=1e-3)


# Answers taken together do harm that luck sets off: a bound of harm alone can only show more.
@pytest.mark.parametrize(("method", "epsilon"), [("exact", 0.02), ("harm", 0.09)])
def test_violations_over_resplits_stay_within_delta(method: str, epsilon: float) -> None:
    """100 draws of 500 images from a large table on which the truth is known; thresholds were fitted on others, too
    boldly, so that only the control stands between them and the loss."""
    population = simulated(10_000, seed=11)
    fitting = simulated(1_500, seed=12)
    policy = cascade.fit(fitting, max_loss=0.04)
    reference = single.fit(population).candidate
    assert reference in policy.candidates, "no threshold makes up for one who is never asked"
    delta, times = 0.1, 100
    tried = family(policy, fitting, reference=reference, epsilon=epsilon, delta=delta, method=method)
    lost = [losses(each, population, reference) for each in tried]
    random = np.random.default_rng(13)
    violations, moved = 0, 0
    for _ in range(times):
        rows = random.integers(0, len(population), 500)
        accepted = -1
        while accepted + 1 < len(lost) and shown(lost[accepted + 1][rows], epsilon, delta, method):
            accepted += 1
        # Any that was passed may be taken, so none may lose more.
        violations += any(each.mean() > epsilon for each in lost[: accepted + 1])
        moved += accepted > 0
    assert violations / times <= delta + 2 * math.sqrt(delta * (1 - delta) / times)
    assert moved > times / 2


def test_the_walk_stops_at_the_first_that_cannot_be_shown() -> None:
    table, fresh = simulated(1_500, seed=1), simulated(2_000, seed=2)
    policy = cascade.fit(table)
    reference = single.fit(table).candidate
    tried = family(policy, table, reference=reference, epsilon=0.02, delta=0.05)
    chosen, promise = controlled(tried, fresh, reference=reference, epsilon=0.02, delta=0.05)
    passed = [shown(losses(each, fresh, reference), 0.02, 0.05, "exact") for each in tried]
    walked = tried[: passed.index(False)] if False in passed else tried
    costs = {each: fresh.costs(each.replay(fresh).ran).mean() for each in walked}
    assert costs[chosen] == min(costs.values())
    assert promise.images == 2_000
    assert (promise.epsilon, promise.delta, promise.method) == (0.02, 0.05, "exact")
    stricter, _ = controlled(tried, fresh, reference=reference, epsilon=0.005, delta=0.05)
    bolder, _ = controlled(tried, fresh, reference=reference, epsilon=0.05, delta=0.05)
    careful, middle, bold = (fresh.costs(each.replay(fresh).ran).mean() for each in (stricter, chosen, bolder))
    assert bold <= middle <= careful <= fresh.costs(single.Single(reference).replay(fresh).ran).mean()


def test_the_order_is_by_what_the_images_of_fitting_can_show_and_nobody_is_dearer() -> None:
    table = simulated(1_500, seed=1)
    reference = single.fit(table).candidate
    tried = family(cascade.fit(table), table, reference=reference, epsilon=0.0, delta=0.05)
    doubts = [p_exact(losses(each, table, reference), 0.0, 0.05) for each in tried]
    assert np.round(doubts, 8).tolist() == sorted(np.round(doubts, 8).tolist())
    alone = table.costs(single.Single(reference).replay(table).ran).mean()
    assert all(table.costs(each.replay(table).ran).mean() < alone for each in tried)


def test_nothing_may_be_lost_and_something_is_saved_where_a_cheap_candidate_is_as_good() -> None:
    """Together they are better than either: that is what can be shown, and not by the most careful. Of draws in which
    the dear one is the reference: where the cheap one looks better there is nothing to save."""
    cheaper, draws = 0, 0
    for seed in range(12):
        table, fresh = (
            simulated(1_500, strengths=(2.4, 2.4), costs_us=(100.0, 1500.0), shared=0.5, seed=2 * seed + part)
            for part in (0, 1)
        )
        if single.fit(table).candidate == 0:
            continue
        tried = family(cascade.fit(table), table, reference=1, epsilon=0.0, delta=0.05)
        chosen, promise = controlled(tried, fresh, reference=1, epsilon=0.0, delta=0.05)
        draws += 1
        cost = fresh.costs(chosen.replay(fresh).ran).mean()
        cheaper += promise.images > 0 and cost < fresh.costs(single.Single(1).replay(fresh).ran).mean()
    assert draws >= 3 and cheaper > 0.7 * draws


def test_the_reference_is_left_where_nothing_can_be_shown() -> None:
    table = simulated(40, seed=2)
    policy = cascade.fit(simulated(500, seed=1), max_loss=0.2)
    tried = family(policy, table, reference=3, epsilon=0.0, delta=0.01)
    chosen, promise = controlled(tried, table, reference=3, epsilon=0.0, delta=0.01, method="hoeffding")
    assert chosen == single.Single(3)
    assert promise.images == 0


def test_bad_options_are_refused() -> None:
    table = simulated(50)
    for options in ({"epsilon": -0.1}, {"delta": 0.0}, {"delta": 1.0}, {"method": "hope"}):
        given = {"epsilon": 0.01, "delta": 0.1, "reference": 3} | options
        with pytest.raises(InputError):
            controlled((), table, **given)  # type: ignore[arg-type]
    with pytest.raises(InputError):
        controlled((), table.rows([]), reference=3, epsilon=0.01, delta=0.1)


def test_parts_are_stratified_seeded_and_complete() -> None:
    labels = np.random.default_rng(0).integers(0, 7, 501)
    parts = folds(labels, 5, seed=1)
    assert sorted(np.concatenate(parts).tolist()) == list(range(501))
    assert {len(part) for part in parts} <= {100, 101}
    for each in range(7):
        inside = [int((labels[part] == each).sum()) for part in parts]
        assert max(inside) - min(inside) <= 1
    assert all(np.array_equal(a, b) for a, b in zip(parts, folds(labels, 5, seed=1), strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(parts, folds(labels, 5, seed=2), strict=True))
    first, second = halves(labels, 0.7)
    assert sorted([*first, *second]) == list(range(501)) and len(first) == pytest.approx(0.7 * 501, abs=1)
    assert set(outside(parts[0], 501)) == set(range(501)) - set(parts[0].tolist())
    for bad in (1, 502):
        with pytest.raises(InputError):
            folds(labels, bad)
    with pytest.raises(InputError):
        halves(labels, 1.0)
