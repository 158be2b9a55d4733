"""Fronts with known members: who is on them, who is beaten and by whom, and what may be compared at all."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from planted import machine, measured, noise

from edgewise.analyze import pareto
from edgewise.analyze.evidence import Costed, Evidence
from edgewise.core.energy import Energy
from edgewise.core.evaluation import Answers, Evaluation
from edgewise.core.text import parse_placement
from edgewise.core.types import Measurement, Ran, Section
from edgewise.model.cost import Cost, NodeCost
from edgewise.report.sentences import remedy, sentence

FP32, INT8 = "ort:cpu:fp32@2", "ort:cpu:int8@2"


def _cost(label: str, multiply_adds: int) -> Costed:
    node = NodeCost("conv", "Conv", (1,), 100, multiply_adds, 2 * multiply_adds, 0, 0, 0, 0)
    return Costed(f"digest of {label}", label, 1, Cost((node,), (), 17, 100, 400, 0))


def _net(label: str, ms: float, *, target: str = FP32, **more: Any) -> Measurement:
    return measured(target, noise(ms * 1e6, 300, seed=len(label)), label=label, **more)


def _answered(label: str, right: int, *, target: str = FP32, data: str = "scenes", images: int = 1000) -> Evaluation:
    ranked = ((0,),) * right + ((1,),) * (images - right)
    answers = Answers((0,) * images, ranked, (1.0,) * images, 0, 0, 0, images, 2)
    where = (parse_placement(target), "m", (), data, images, "", "", ("a", "b"))
    return Evaluation(f"digest of {label}", *where, (answers,), label, data)


def _evidence(*measurements: Measurement, **more: Any) -> Evidence:
    costs = {f"digest of {name}": _cost(name, size) for name, size in (("small", 10**6), ("large", 10**9))}
    return Evidence(machines={"m": machine()}, measurements=measurements, costs=costs, **more)


def _rows(section: Section) -> dict[str, dict[str, Any]]:
    names = [column.name for column in section.columns]
    rows = [dict(zip(names, row, strict=True)) for row in section.rows]
    return {str(row["model"]): row for row in rows}


PUBLISHED = {"small": 0.6, "middle": 0.7, "old": 0.65, "large": 0.8}


def test_members_of_the_front_and_who_beats_the_others() -> None:
    nets = [_net("small", 1), _net("middle", 5), _net("old", 20), _net("large", 50)]
    section = pareto.run(_evidence(*nets, published=PUBLISHED))
    rows = _rows(section)
    assert {name: row["latency_front"] for name, row in rows.items()} == {
        "small": "yes",
        "middle": "yes",
        "old": "no",
        "large": "yes",
    }
    assert rows["old"]["beaten_by"] == "middle" and rows["small"]["beaten_by"] is None
    front, beaten, published = section.findings
    assert front["members"] == "small, middle, large"
    assert beaten["slower"] == pytest.approx(4, rel=0.02)
    assert "beaten by middle" in sentence(beaten) and "5.00 points less accuracy (published)" in sentence(beaten)
    assert published.code == "published_accuracy" and "nobody asked the weights" in sentence(published)


def test_the_chart_has_sizes_colours_and_a_step_along_the_front() -> None:
    nets = [_net("small", 1), _net("old", 20), _net("large", 50)]
    section = pareto.run(_evidence(*nets, published={**PUBLISHED, "old": 0.5}))
    (chart,) = section.charts
    assert chart.x.log and chart.x.unit == "ns" and "published" in chart.y.name
    on, off, front = chart.series
    assert on.size == (10**6, 10**9) and on.colour == (100, 100)
    assert off.size == (None,) and off.labels[0].startswith("old")
    assert front.stroke == "step" and front.y == (0.6, 0.8)


def test_a_point_is_beaten_only_where_the_intervals_say_so() -> None:
    """1 % apart, with a spread of 20 %: it looks slower and less accurate, and nobody can know."""
    near = measured(FP32, noise(1.01e6, 100, spread=0.2), label="near")
    also = measured(FP32, noise(1e6, 100, seed=1, spread=0.2), label="also")
    answers = (_answered("near", 700), _answered("also", 705))
    rows = _rows(pareto.run(_evidence(near, also, evaluations=answers)))
    assert (rows["near"]["latency_front"], rows["also"]["latency_front"]) == ("tie", "yes")
    assert rows["near"]["beaten_by"] is None
    low, high = rows["near"]["top1_interval"]
    assert low < 0.7 < high


def test_a_latency_that_might_be_lower_is_not_beaten_by_accuracy_alone() -> None:
    shaky = measured(FP32, noise(2e6, 60, spread=1.0), label="small")
    rows = _rows(pareto.run(_evidence(shaky, _net("large", 1.9), published=PUBLISHED)))
    low, high = rows["small"]["interval"]
    assert low < 1.9e6 < high
    assert (rows["small"]["latency_front"], rows["large"]["latency_front"]) == ("tie", "yes")


def test_two_files_of_one_name_are_told_apart() -> None:
    one, other = _net("small", 1), _net("small", 9)
    other = replace(other, task=replace(other.task, subject="another"))
    rows = _rows(pareto.run(_evidence(one, other, published=PUBLISHED)))
    assert set(rows) == {"small (digest)", "small (anothe)"}
    assert rows["small (anothe)"]["beaten_by"] == "small (digest)"


def test_published_and_measured_accuracy_never_meet_in_one_front() -> None:
    # The measured one is quicker and looks more accurate; on other images that means nothing.
    nets = [_net("mine", 1), _net("middle", 5), _net("small", 2)]
    section = pareto.run(_evidence(*nets, evaluations=(_answered("mine", 990),), published=PUBLISHED))
    rows = _rows(section)
    assert rows["middle"]["latency_front"] == "yes" and rows["mine"]["latency_front"] == "yes"
    assert rows["mine"]["source"] == "measured on scenes" and rows["middle"]["source"] == "published"
    assert [chart.y.name for chart in section.charts] == ["top-1, published"]


def test_a_measured_accuracy_takes_the_place_of_a_published_one() -> None:
    section = pareto.run(_evidence(_net("small", 1), evaluations=(_answered("small", 500),), published=PUBLISHED))
    (row,) = _rows(section).values()
    assert row["top1"] == 0.5 and row["source"] == "measured on scenes"


def test_a_precision_is_a_point_where_its_accuracy_was_measured() -> None:
    nets = [_net("net", 4), _net("net", 2, target=INT8)]
    answers = (_answered("net", 800), _answered("net", 780, target=INT8))
    rows = _rows(pareto.run(_evidence(*nets, evaluations=answers)))
    assert {name: row["top1"] for name, row in rows.items()} == {"net fp32": 0.8, "net int8": 0.78}
    # A published accuracy is not that of int8.
    rows = _rows(pareto.run(_evidence(*nets, published={"net": 0.8})))
    assert [row["target"] for row in rows.values()] == [FP32]


def test_the_quickest_right_target_stands_for_its_model() -> None:
    lying = _net("small", 0.1, target="ncnn:cpu:fp32@2", ran=Ran(notes=("nothing was computed",)))
    nets = [_net("small", 3), _net("small", 2, target="mnn:cpu:fp32@2"), lying, _net("small", 1, scenario="offline")]
    (row,) = _rows(pareto.run(_evidence(*nets, published=PUBLISHED))).values()
    assert row["target"] == "mnn:cpu:fp32@2"
    assert row["p50"] == pytest.approx(2e6, rel=0.02)


def test_of_several_tries_of_one_target_the_luckiest_does_not_stand_for_it() -> None:
    luck = measured(FP32, noise(1e6, 100), label="small", scenario="single(max_s=1)")
    (row,) = _rows(pareto.run(_evidence(_net("small", 2), luck, published=PUBLISHED))).values()
    assert row["p50"] == pytest.approx(2e6, rel=0.02)


def test_energies_that_other_meters_read_are_not_compared() -> None:
    def read(uj: int, covers: str, idle_uw: int | None = 0, source: str = "rapl") -> tuple[Energy, ...]:
        return (Energy(source, covers, 0, 300, 10**9, uj * 300, 0, idle_uw, idle_uw),)

    nets = [
        _net("small", 1, energies=read(90, "package 0")),
        _net("middle", 5, energies=read(50, "package 0")),
        # In all, not beyond idle; and declared, not read.
        _net("old", 20, energies=read(10, "package 0", None)),
        _net("large", 50, energies=read(1, "device", source="estimate")),
    ]
    rows = _rows(pareto.run(_evidence(*nets, published=PUBLISHED)))
    fronts = {name: row["energy_front"] for name, row in rows.items()}
    assert fronts == {"small": "no", "middle": "yes", "old": None, "large": None}
    assert rows["small"]["energy_source"] == "rapl, beyond idle"


def test_energy_and_memory_have_fronts_of_their_own() -> None:
    def read(uj: int) -> tuple[Energy, ...]:
        return (Energy("rapl", "package-0", 0, 300, 10**9, uj * 300, 0, 0, 0),)

    nets = [
        _net("small", 1, energies=read(90), peak_bytes=10**6),
        _net("middle", 5, energies=read(50), peak_bytes=10**7),
        _net("large", 50, peak_bytes=10**8),
    ]
    rows = _rows(pareto.run(_evidence(*nets, published=PUBLISHED)))
    # Slower, but more accurate and with less energy: it beats the small one there, and there only.
    assert [rows[name]["energy_front"] for name in ("small", "middle", "large")] == ["no", "yes", None]
    assert [rows[name]["memory_front"] for name in ("small", "middle", "large")] == ["yes"] * 3
    assert rows["small"]["latency_front"] == "yes"
    assert rows["small"]["energy"] == pytest.approx(90)


@pytest.mark.parametrize("measurements", [(), (_net("unknown", 1),), (_net("small", 1, scenario="single(batch=8)"),)])
def test_nothing_to_draw_is_said_with_the_command(measurements: tuple[Measurement, ...]) -> None:
    section = pareto.run(_evidence(*measurements, published=PUBLISHED))
    assert not section.rows and not section.charts
    assert str(remedy(section.findings[0])).startswith("edgewise bench")
