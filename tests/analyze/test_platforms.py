"""Two machines with known ratios, a network that changes sides of the front, and papers beside them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from planted import machine, measured, noise

from edgewise.analyze import platforms
from edgewise.analyze.evidence import Evidence
from edgewise.core.energy import Energy
from edgewise.core.types import Finding, Measurement, Section
from edgewise.report.sentences import remedy, sentence

TARGET = "ort:cpu:fp32@2"


def _net(label: str, ms: float, on: str, *, batch: int = 1, target: str = TARGET, uj: int = 0) -> Measurement:
    energies = (Energy("rapl", "package-0", 0, 300, 10**9, uj * 300, 0, 0, 0),) if uj else ()
    samples = noise(ms * 1e6, 300, seed=len(label), spread=0.001)
    return measured(target, samples, label=label, on=on, scenario=f"single(batch={batch})", energies=energies)


def _evidence(*measurements: Measurement, published: dict[str, float] | None = None, **clocks: int) -> Evidence:
    ids = dict.fromkeys(m.machine for m in measurements)
    found = {name: machine(name, max_hz=clocks.get(name)) for name in ids}
    return Evidence(machines=found, measurements=measurements, published=published or {})


def _one(section: Section, code: str) -> Finding:
    (found,) = [finding for finding in section.findings if finding.code == code]
    return found


def _rows(section: Section) -> list[dict[str, Any]]:
    names = [column.name for column in section.columns]
    return [dict(zip(names, row, strict=True)) for row in section.rows]


# 2 times, 8 times, 4 times as fast: 4 in the geometric mean.
PAIR = [
    _net("a", 1, "fast"),
    _net("b", 1, "fast"),
    _net("c", 1, "fast", batch=4),
    _net("a", 2, "slow"),
    _net("b", 8, "slow"),
    _net("c", 4, "slow", batch=4),
    _net("c", 9, "slow"),
]


def test_ratios_are_of_what_both_have_at_the_same_batch() -> None:
    section = platforms.run(_evidence(*PAIR))
    rows = _rows(section)
    assert [(row["model"], row["batch"]) for row in rows] == [("a", 1), ("b", 1), ("c", 4)]
    assert [row["ratio"] for row in rows] == [pytest.approx(ratio, rel=0.01) for ratio in (2, 8, 4)]
    assert rows[2]["per_s"] == pytest.approx(4000, rel=0.01) and rows[2]["beside_per_s"] == pytest.approx(
        1000, rel=0.01
    )
    found = _one(section, "machine_throughput")
    assert found["geomean"] == pytest.approx(4, rel=0.01)
    assert (found["least"], found["most"]) == (pytest.approx(2, rel=0.01), pytest.approx(8, rel=0.01))
    assert "machine fast has 4.00× the throughput of machine slow" in sentence(found)
    assert "from 2.00× (a, batch 1) to 8.00× (b, batch 1)" in sentence(found)
    (chart,) = section.charts
    assert chart.kind == "bar" and chart.series[0].x == ("a", "b") and chart.y.unit == "ratio"
    # Nobody read a meter, and no clock is known.
    assert all(row["per_joule"] is None and row["per_clock"] is None for row in rows)


def test_the_machine_named_first_is_set_beside_the_others() -> None:
    evidence = _evidence(*PAIR)
    turned = replace(evidence, machines=dict(reversed(evidence.machines.items())))
    rows = _rows(platforms.run(turned))
    assert [row["machine"] for row in rows] == ["machine slow"] * 3
    assert rows[0]["ratio"] == pytest.approx(0.5, rel=0.01)


def test_the_best_target_of_each_machine_counts() -> None:
    better = _net("a", 0.5, "slow", target="torch:cuda.0:fp32")
    rows = _rows(platforms.run(_evidence(*PAIR, better)))
    assert rows[0]["beside_target"] == "torch:cuda.0:fp32"
    assert rows[0]["ratio"] == pytest.approx(0.5, rel=0.01)


def test_speed_is_set_against_the_clock_where_it_is_known() -> None:
    section = platforms.run(_evidence(*PAIR, fast=4_000_000_000, slow=1_000_000_000))
    assert [row["per_clock"] for row in _rows(section)] == [pytest.approx(ratio, rel=0.01) for ratio in (0.5, 2, 1)]
    assert _one(section, "machine_per_clock")["geomean"] == pytest.approx(1, rel=0.01)
    # The clock read meanwhile is better than the one on the label; a GPU has neither.
    read = PAIR[0]
    read = replace(read, rounds=tuple(replace(r, clock_hz=2_000_000_000) for r in read.rounds))
    assert platforms.clock_hz(read, machine(max_hz=4_000_000_000)) == 2_000_000_000
    assert platforms.clock_hz(_net("a", 1, "m", target="torch:cuda.0:fp32"), machine(max_hz=1)) is None


def test_inferences_per_joule_are_compared_where_both_were_read() -> None:
    nets = [_net("a", 1, "fast", uj=1000), _net("b", 1, "fast", uj=1000), _net("a", 2, "slow", uj=250)]
    section = platforms.run(_evidence(*nets, _net("b", 2, "slow")))
    assert [row["per_joule"] for row in _rows(section)] == [pytest.approx(0.25), None]
    assert _one(section, "machine_efficiency")["count"] == 1
    assert section.charts[1].title.startswith("Inferences per joule")


def test_a_declared_power_is_compared_with_another_and_says_so() -> None:
    def declared(found: Measurement, watts: int) -> Measurement:
        window_ns = 300 * int(found.samples_ns[0])
        return replace(found, energies=(Energy("estimate", "declared", 0, 300, window_ns, watts * window_ns // 1000),))

    nets = [declared(_net("a", 1, "fast"), 8), declared(_net("a", 2, "slow"), 2)]
    (row,) = _rows(platforms.run(_evidence(*nets)))
    # 8 W for 1 ms against 2 W for 2 ms.
    assert row["per_joule"] == pytest.approx(0.5, rel=0.01)
    assert row["source"].endswith("energy from declared powers, not read")


def test_the_network_that_is_on_the_front_of_one_machine_only_is_named() -> None:
    published = {"shallow": 0.5, "odd": 0.6, "deep": 0.8}
    here = [_net("shallow", 1, "here"), _net("odd", 2, "here"), _net("deep", 9, "here")]
    there = [_net("shallow", 1, "there"), _net("odd", 12, "there"), _net("deep", 9, "there")]
    section = platforms.run(_evidence(*here, *there, published=published))
    found = _one(section, "other_front")
    assert (found["here"], found["there"], found["count"]) == ("odd", "", 3)
    assert "only on machine here: odd" in sentence(found) and "published" in sentence(found)
    same = platforms.run(_evidence(*here, *(replace(m, machine="there") for m in here), published=published))
    assert "the same of 3 networks" in sentence(_one(same, "same_front"))


def test_a_single_machine_is_set_beside_papers_and_told_apart_from_them() -> None:
    section = platforms.run(_evidence(_net("resnet50", 10, "m"), _net("mobilenet_v2", 1, "m")))
    rows = {(row["model"], row["beside"], row["beside_target"]): row for row in _rows(section)}
    # Wang et al., Table 1: ResNet50 at 2.8 images/s on the A73; Table 4 of the other: 0.64 ms on CPU_AND_NE.
    soc, m2 = rows["resnet50", "Kirin 970", "A73"], rows["mobilenet_v2", "Apple M2", "CPU_AND_NE"]
    assert soc["ratio"] == pytest.approx(100 / 2.8, rel=0.01)
    assert m2["ratio"] == pytest.approx(0.64, rel=0.01)
    assert all(row["source"].startswith("published: Wang") for row in rows.values())
    assert not section.charts
    found = _one(section, "beside_papers")
    assert found.level == "caution" and "published by others, under another protocol" in sentence(found)


def test_published_cpus_are_compared_by_clock_too() -> None:
    rows = _rows(platforms.run(_evidence(_net("resnet50", 10, "m"), m=2_360_000_000)))
    by_name = {row["beside_target"]: row["per_clock"] for row in rows}
    assert by_name["A73"] == pytest.approx(100 / 2.8, rel=0.01)
    assert by_name["G72"] is None


def test_machines_without_a_network_in_common_say_so() -> None:
    section = platforms.run(_evidence(_net("resnet50", 10, "m"), _net("other", 1, "n")))
    assert _one(section, "nothing_shared").level == "caution"


@pytest.mark.parametrize("measurements", [(), (_net("net", 1, "m"),)])
def test_nothing_to_draw_is_said_with_the_command(measurements: tuple[Measurement, ...]) -> None:
    section = platforms.run(_evidence(*measurements))
    assert not section.rows and not section.charts
    assert str(remedy(section.findings[0])).startswith("edgewise report")
