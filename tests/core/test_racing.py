"""The rule by which candidates go home, on simulated races: how often the best is lost, and how soon losers are."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest

from edgewise.core.stats.racing import MARGIN, Seen, Standings, level, side

GROUP, STARTS, TURNS = 6, 5, 20


@dataclass
class Outcome:
    """What a simulated race came to."""

    chosen: int
    alive: set[int]
    starts: dict[int, int]


def race(random: np.random.Generator, truth: list[float], process: float, noise: float = 0.05) -> Outcome:
    """Heats as `study/race.py` runs them: `process` is the deviation of a process, `noise` that of a turn."""
    seen: list[Seen] = []
    looks, alive, best, heats = dict.fromkeys(range(len(truth)), 0), set(range(len(truth))), None, 0

    def heat(those: list[int]) -> None:
        own = {c: math.exp(truth[c] + random.normal(0, process)) for c in those}
        drift = np.exp(np.cumsum(random.normal(0, 0.02, TURNS)))
        costs = {c: list(own[c] * drift * np.exp(random.normal(0, noise, TURNS))) for c in those}
        seen.append(Seen(heats, those[0], 0.0))
        seen.extend(side(heats, c, costs[c], costs[those[0]]) for c in those[1:])

    def judge(those: list[int]) -> int:
        standings = Standings(seen)
        first = standings.first(alive)
        assert first is not None
        for c in those:
            gap = standings.gap(c, first)
            if c in alive and c != first and gap is not None:
                looks[c] += 1
                if gap.low(level(len(truth), looks[c])) > 0:
                    alive.discard(c)
        return first

    waiting = [int(c) for c in random.permutation(len(truth))]
    while waiting:
        count = GROUP - (best is not None)
        fresh, waiting = waiting[:count], waiting[count:]
        heats += 1
        heat(([best] if best is not None else []) + fresh)
        best = judge(fresh)
    assert best is not None
    best = judge(sorted(alive))
    while True:
        standings = Standings(seen)
        close = [
            c
            for c in sorted(alive - {best})
            if standings.starts(c) < STARTS
            and (gap := standings.gap(c, best)) is not None
            and gap.low(level(len(truth), max(looks[c], 1))) < math.log1p(-MARGIN)
        ]
        if not close:
            return Outcome(best, alive, {c: standings.starts(c) for c in range(len(truth))})
        heats += 1
        heat([best, *close[: GROUP - 1]])
        best = judge([best, *close[: GROUP - 1]])


NEAR = [0.0, 0.005, 0.01, 0.015, 0.02, 0.03, 0.04, 0.06, 0.1, 0.2, 0.5, 1.0]


@pytest.mark.parametrize("process", [0.005, 0.02, 0.035])
def test_the_best_is_seldom_sent_home_even_among_near_ties(process: float) -> None:
    random = np.random.default_rng(1)
    found = [race(random, NEAR, process) for _ in range(80)]
    assert sum(0 not in each.alive for each in found) <= 80 * 0.05
    # And what is chosen costs little more than the best, which is what matters.
    regret = np.array([NEAR[each.chosen] for each in found])
    assert regret.mean() <= max(0.01, process)


def test_equal_candidates_are_not_told_apart() -> None:
    random = np.random.default_rng(2)
    lost = sum(len(race(random, [0.0] * 8, 0.02).alive) < 8 for _ in range(50))
    assert lost <= 50 * 0.05


def test_large_factors_go_home_after_one_start() -> None:
    random = np.random.default_rng(3)
    truth = [0.0, *[math.log(factor) for factor in (1.4, 1.5, 1.7, 2, 2, 2.5, 3, 3, 4, 5, 8)]]
    found = [race(random, truth, 0.01) for _ in range(60)]
    assert all(each.chosen == 0 and each.alive == {0} for each in found)
    starts = [count for each in found for c, count in each.starts.items() if c]
    assert np.mean([count == 1 for count in starts]) > 0.9


def test_those_who_never_met_are_compared_by_way_of_others() -> None:
    seen = [Seen(1, 0, 0.0), Seen(1, 1, 0.5), Seen(2, 1, 0.0), Seen(2, 2, -0.2)]
    standings = Standings(seen)
    gap = standings.gap(2, 0)
    assert gap is not None
    assert gap.estimate == pytest.approx(0.3)
    direct = standings.gap(1, 0)
    assert direct is not None
    assert gap.error == pytest.approx(direct.error * math.sqrt(2), rel=1e-6)
    assert standings.first([0, 1, 2]) == 0


def test_strangers_have_no_gap() -> None:
    standings = Standings([Seen(1, 0, 0.0), Seen(1, 1, 0.1), Seen(2, 2, 0.0), Seen(2, 3, 0.1)])
    assert standings.gap(0, 2) is None
    assert standings.gap(2, 3) is not None
    assert standings.gap(0, 9) is None
    assert Standings(()).first([0]) is None


def test_a_machine_that_shows_more_spread_is_believed() -> None:
    def width(spread: float) -> float:
        random = np.random.default_rng(4)
        seen = [Seen(h, c, float(random.normal(0, spread))) for h in range(6) for c in range(4)]
        gap = Standings(seen).gap(1, 0)
        assert gap is not None
        return gap.error

    assert width(0.1) > 2 * width(0.01)


def test_an_erratic_candidate_does_not_keep_the_others_from_being_told_apart() -> None:
    random = np.random.default_rng(5)
    calm = [Seen(h, c, float(random.normal(0.2 * c, 0.01))) for h in range(4) for c in range(3)]
    wild = [Seen(h, 3, 3.0 + (-1) ** h) for h in range(4)]
    before, after = Standings(calm).gap(1, 0), Standings(calm + wild).gap(1, 0)
    assert before and after
    assert after.error < 1.3 * before.error
    assert after.estimate == pytest.approx(before.estimate, abs=0.01)
    erratic = Standings(calm + wild).gap(3, 0)
    assert erratic
    assert erratic.error > 5 * after.error


def test_the_error_rate_is_shared_out_over_others_and_looks() -> None:
    spent = sum((1 - level(11, look)) * 10 for look in range(1, 1000))
    assert 0.0499 < spent <= 0.05
    assert level(11, 1) < level(11, 2) < level(50, 2)


def test_turns_that_scatter_count_for_less() -> None:
    quiet = side(1, 1, [2.0, 2.02, 1.98, 2.0], [1.0] * 4)
    wild = side(1, 1, [2.0, 4.0, 1.0, 2.0], [1.0] * 4)
    assert quiet.value == wild.value == pytest.approx(math.log(2))
    assert wild.error > 10 * quiet.error
    assert side(1, 1, [2.0], [1.0]).error > 0
