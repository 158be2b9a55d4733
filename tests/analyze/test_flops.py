"""Time that follows work, time that does not, and the line through both."""

from __future__ import annotations

import numpy as np
import pytest
from planted import machine, measured, noise

from edgewise.analyze import flops
from edgewise.analyze.evidence import Costed, Evidence
from edgewise.core.stats.powerlaw import power_law, rank_correlation
from edgewise.core.types import Measurement, Section
from edgewise.model.cost import Cost, NodeCost
from edgewise.report.sentences import remedy, sentence

TARGET = "ort:cpu:fp32@2"
WORK = {"a": 10**8, "b": 3 * 10**8, "c": 10**9, "d": 4 * 10**9}


def _cost(label: str, batch: int = 1) -> Costed:
    work = WORK[label] * batch
    node = NodeCost("conv", "Conv", (1,), 1, work, 2 * work, 0, 0, 0, 0)
    return Costed(f"digest of {label}", label, batch, Cost((node,), (), 17, 1, 4, 0))


def _net(label: str, ns: float, *, batch: int = 1, n: int = 300) -> Measurement:
    samples = noise(ns, n, seed=ord(label) + batch)
    return measured(TARGET, samples, label=label, scenario=f"single(batch={batch})")


def _evidence(*measurements: Measurement, batch: int = 1) -> Evidence:
    costs = {f"digest of {label}": _cost(label, batch) for label in WORK}
    return Evidence(machines={"m": machine()}, measurements=measurements, costs=costs)


def _column(section: Section, name: str) -> list[object]:
    index = [column.name for column in section.columns].index(name)
    return [row[index] for row in section.rows]


def test_time_that_follows_work_is_said_to() -> None:
    # 1e8 multiply-adds in 1 ms: 2e11 FLOP/s, at every size and batch.
    nets = [_net(label, work * batch / 100, batch=batch) for label, work in WORK.items() for batch in (1, 4)]
    section = flops.run(_evidence(*nets))
    (found,) = section.findings
    assert found.code == "flops_predict"
    assert found["exponent"] == pytest.approx(1, abs=0.01) and found["r2"] == pytest.approx(1, abs=0.001)
    assert found["rank"] == pytest.approx(1) and found["networks"] == 4 and found["points"] == 8
    assert "explain 100 %" in sentence(found) and "GFLOP/s" in sentence(found)
    assert _column(section, "reached") == [pytest.approx(2e11, rel=0.02)] * 8
    assert _column(section, "multiply_adds") == sorted(work * batch for work in WORK.values() for batch in (1, 4))
    (chart,) = section.charts
    points, line = chart.series
    assert chart.x.log and chart.y.log and len(points.x) == 8 and line.stroke == "dash"


def test_a_network_with_less_work_that_is_slower_is_named() -> None:
    times = {"a": 1e6, "b": 30e6, "c": 10e6, "d": 40e6}
    section = flops.run(_evidence(*(_net(label, ns) for label, ns in times.items())))
    found = next(finding for finding in section.findings if finding.code == "flops_mislead")
    assert (found["less"], found["more"], found["count"], found["pairs"]) == ("b", "c", 1, 6)
    assert found["slower"] == pytest.approx(3, rel=0.02) and found["work"] == pytest.approx(10 / 3)
    said = sentence(found)
    assert "b has 3.33× less work than c" in said and "1 of 6 pairs" in said
    # Of all four it lies the farthest above the line.
    over = [ratio for ratio in _column(section, "than_the_line") if isinstance(ratio, float)]
    assert max(over) == over[1] > 2


def test_what_the_intervals_leave_open_is_not_called_slower() -> None:
    near = measured(TARGET, noise(1.01e6, 100, spread=0.3), label="a")
    also = measured(TARGET, noise(1e6, 100, seed=1, spread=0.3), label="b")
    assert flops.run(_evidence(near, also)).findings == ()


def test_a_cost_counted_at_another_batch_is_brought_to_this_one() -> None:
    section = flops.run(_evidence(_net("a", 1e6), _net("b", 3e6), batch=8))
    assert _column(section, "multiply_adds") == [10**8, 3 * 10**8]


def test_of_two_measurements_of_the_same_the_longer_one_counts() -> None:
    again = measured(TARGET, noise(9e6, 50), label="a", scenario="single(max_s=1, min_s=0.5)")
    section = flops.run(_evidence(_net("a", 1e6), again, _net("b", 3e6)))
    assert _column(section, "p50") == [pytest.approx(1e6, rel=0.02), pytest.approx(3e6, rel=0.02)]


@pytest.mark.parametrize("measurements", [(), (_net("a", 1e6), _net("a", 4e6, batch=4))])
def test_nothing_to_draw_is_said_with_the_command(measurements: tuple[Measurement, ...]) -> None:
    section = flops.run(_evidence(*measurements))
    assert not section.rows and not section.charts
    assert str(remedy(section.findings[0])).startswith("edgewise bench")


def test_without_counted_costs_there_is_nothing_to_set_time_against() -> None:
    evidence = Evidence(machines={"m": machine()}, measurements=(_net("a", 1e6), _net("b", 3e6)))
    assert [finding.code for finding in flops.run(evidence).findings] == ["absent"]


def test_the_line_through_logarithms_against_numpy() -> None:
    random = np.random.default_rng(0)
    x = np.exp(random.normal(10, 2, 50))
    y = 3 * x**1.4 * np.exp(random.normal(0, 0.1, 50))
    law = power_law(list(x), list(y))
    assert law is not None and law.low is not None and law.high is not None
    slope, offset = np.polyfit(np.log(x), np.log(y), 1)
    assert (law.exponent, law.factor) == (pytest.approx(slope), pytest.approx(np.exp(offset)))
    assert law.r2 == pytest.approx(np.corrcoef(np.log(x), np.log(y))[0, 1] ** 2)
    assert law.low < 1.4 < law.high and law.high - law.low < 0.1
    assert law.at(x[0]) == pytest.approx(np.exp(offset + slope * np.log(x[0])))
    assert power_law([1, 1], [2, 3]) is None
    assert power_law([1, 2], [2, 4]) is not None


def test_rank_correlation_shares_ranks_among_equals() -> None:
    assert rank_correlation([1, 2, 3, 4], [10, 20, 30, 40]) == pytest.approx(1)
    assert rank_correlation([1, 2, 3, 4], [4, 3, 2, 1]) == pytest.approx(-1)
    # By hand: ranks 1, 2.5, 2.5, 4 against 1, 2, 3, 4.
    assert rank_correlation([1, 2, 2, 4], [1, 2, 3, 4]) == pytest.approx(4.5 / (4.5 * 5) ** 0.5)
    assert rank_correlation([1, 1], [1, 2]) is None
