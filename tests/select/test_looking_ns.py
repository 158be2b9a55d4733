"""What looking at an image costs: that of what a policy looks at, wherever costs are compared."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from classifiers import pictures
from tables import pictured, simulated

from edgewise.select import risk
from edgewise.select.evaluate import evaluate
from edgewise.select.extracting import taken_ns
from edgewise.select.features import FAMILIES, NAMES, SHARED, THUMBNAIL, price_ns
from edgewise.select.looked import look
from edgewise.select.policies import premodel, single
from edgewise.select.policy import looking_ns
from edgewise.select.table import Table
from edgewise.study.select import Wish, outcome

PRICES = {SHARED: 1e3} | {family: 10.0 ** (4 + place) for place, family in enumerate(FAMILIES)}


@pytest.fixture(scope="module")
def table() -> Table:
    return replace(pictured(simulated(120)), looking_ns=PRICES)


@pytest.mark.parametrize(
    ("names", "families"),
    [
        (("n_keypoints",), ["keypoints"]),
        (("contrast", "avg_brightness"), ["brightness"]),
        (("edge_angle1", "edge_length7"), ["edges"]),
        (("hue1", "aspect_ratio", "area_by_perim"), ["hue", "object"]),
        ((THUMBNAIL,), ["thumbnail"]),
        (NAMES, ["keypoints", "brightness", "edges", "hue", "object"]),
    ],
)
def test_a_family_is_paid_for_once(names: tuple[str, ...], families: list[str]) -> None:
    assert price_ns(PRICES, names) == PRICES[SHARED] + sum(PRICES[family] for family in families)


def test_a_policy_pays_for_what_it_looks_at(table: Table) -> None:
    assert looking_ns(single.fit(table), table) == 0
    by_contrast = premodel.fit(table, features=["contrast"])
    assert looking_ns(by_contrast, table) == PRICES[SHARED] + PRICES["brightness"]
    by_network = premodel.fit(table, levels="cnn")
    assert looking_ns(by_network, table) == PRICES[SHARED] + PRICES["thumbnail"]


def test_every_comparison_counts_the_same(table: Table) -> None:
    def fit(fitting: Table) -> premodel.Premodel:
        return premodel.fit(fitting, features=["contrast"])

    own = PRICES[SHARED] + PRICES["brightness"]
    free = replace(table, looking_ns={})
    folds, other = (evaluate(given, {"it": fit}, count=2).methods[0] for given in (table, free))
    assert folds.cost.value == pytest.approx(other.cost.value + own) and folds.overhead_ns == own
    policy = fit(table)
    told, without = (outcome(policy, given, Wish("premodel")) for given in (table, free))
    assert told.deciding_ns > own > without.deciding_ns
    assert told.cost - told.deciding_ns == pytest.approx(without.cost - without.deciding_ns)
    # Dearer than the reference by looking alone, it is not taken.
    dear = replace(table, looking_ns=PRICES | {"brightness": 1e9})
    for given, expected in ((free, policy), (dear, single.Single(2))):
        found, _ = risk.controlled([policy], given, reference=2, epsilon=0.9, delta=0.5)
        assert found == expected


def test_more_features_cost_more_as_they_are_added(table: Table) -> None:
    found = look(replace(table, thumbnails=None), count=2)
    free = look(replace(table, thumbnails=None, looking_ns={}), count=2)
    extra = [one.cost - other.cost for one, other in zip(found.by_features, free.by_features, strict=True)]
    assert all(after > before - 1 for before, after in pairwise(extra))
    assert extra[0] < price_ns(PRICES, NAMES) == pytest.approx(extra[-1])


def test_what_families_take_is_measured(tmp_path: Path) -> None:
    shown = pictures(tmp_path / "shown", count=6, size=80)
    found = taken_ns(str(shown), None, range(6))
    assert found.keys() == {SHARED, *FAMILIES}
    assert found[SHARED] > 0 and all(value >= 0 for value in found.values())
    assert found["edges"] > 0
