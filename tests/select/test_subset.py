"""Which candidates to choose from: the algorithm's listing, followed by hand."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from tables import COSTS, hidden, planted

from edgewise.select.subset import NOBODY, choose, most_accurate, optimal

# Ten images (rows) and four candidates, from cheap to dear.
RIGHT = np.array(
    [
        [1, 1, 1, 1],
        [0, 1, 1, 1],
        [0, 1, 1, 1],
        [0, 1, 1, 0],
        [0, 1, 0, 1],
        [0, 0, 1, 0],
        [0, 0, 1, 1],
        [0, 0, 1, 0],
        [1, 0, 0, 1],
        [0, 0, 0, 0],
    ],
    np.bool_,
)


def test_the_cheapest_that_is_right_is_optimal() -> None:
    assert optimal(RIGHT, [1, 2, 3, 4]).tolist() == [0, 1, 1, 1, 1, 2, 2, 2, 0, NOBODY]
    assert optimal(RIGHT, [4, 3, 2, 1]).tolist() == [3, 3, 3, 2, 3, 2, 3, 2, 3, NOBODY]
    assert optimal(RIGHT[:, :2], [1, 1]).tolist()[0] == 0


def test_a_planted_table_by_hand() -> None:
    # Candidate 1 is optimal for four images. It fails on 5 to 9, where 2 gets three, 3 two and 0 one: 2 is next. Then
    # 8 and 9 are left, 8 is right with 0 and 3: the cheaper is next. Nobody wins 9.
    steps = choose(RIGHT, [1, 2, 3, 4])
    assert [step.candidate for step in steps] == [1, 2, 0]
    assert [step.gain for step in steps] == pytest.approx([0.5, 0.3, 0.1])
    assert [step.accuracy for step in steps] == pytest.approx([0.5, 0.8, 0.9])
    assert steps[1].on_failures == pytest.approx((0.2, 0.0, 0.6, 0.4))
    assert steps[2].on_failures == pytest.approx((0.5, 0.0, 0.0, 0.5))


def test_it_ends_where_too_little_is_won() -> None:
    assert [step.candidate for step in choose(RIGHT, [1, 2, 3, 4], theta=0.15)] == [1, 2]
    assert [step.candidate for step in choose(RIGHT, [1, 2, 3, 4], theta=0.5)] == [1]


def test_a_count_takes_the_place_of_the_threshold() -> None:
    assert [len(choose(RIGHT, [1, 2, 3, 4], count=count)) for count in (1, 2, 3, 4, 9)] == [1, 2, 3, 4, 4]


def test_all_right_and_all_wrong() -> None:
    assert [step.candidate for step in choose(np.ones((5, 3), np.bool_), [3, 1, 2])] == [1]
    assert [step.gain for step in choose(np.zeros((5, 3), np.bool_), [3, 1, 2])] == [0]


def test_top_five_is_another_table() -> None:
    table = planted(RIGHT, [1, 2, 3, 4])
    assert (table.right(1) == RIGHT).all()
    # A wrong candidate has the label second, so the cheapest one is enough.
    assert [step.candidate for step in choose(table.right(5), [1, 2, 3, 4])] == [0]


def listing(right: NDArray[np.bool_], costs: tuple[float, ...], theta: float) -> list[int]:
    """Algorithm 1 as it stands, but for the last one, which its text leaves out."""
    best = [min((c for c in range(len(costs)) if row[c]), key=lambda c: costs[c], default=None) for row in right]
    chosen = [max(range(len(costs)), key=best.count)]

    def accuracy() -> float:
        return float(np.mean([any(row[c] for c in chosen) for row in right]))

    current, difference = accuracy(), 1.0
    while difference > theta and len(chosen) < len(costs):
        failed = [row for row in right if not any(row[c] for c in chosen)]
        others = [c for c in range(len(costs)) if c not in chosen]
        chosen.append(max(others, key=lambda c: sum(bool(row[c]) for row in failed)))
        difference, current = accuracy() - current, accuracy()
    return chosen if difference > theta else chosen[:-1]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("theta", [0.005, 0.03, 0.1])
def test_random_tables_as_the_listing_has_it(seed: int, theta: float) -> None:
    right, _ = hidden(300, seed)
    assert [step.candidate for step in choose(right, COSTS, theta=theta)] == listing(right, COSTS, theta)


def test_the_most_accurate_is_the_cheapest_of_those_alike() -> None:
    right = np.array([[1, 1, 0], [0, 1, 1], [0, 0, 1]], np.bool_)
    assert most_accurate(right, [1, 3, 2]) == 2
