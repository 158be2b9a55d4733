"""Recommendations on planted answers: the right one for each use, its margin, ties, and never wrong answers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from planted import evaluated, machine, measured, noise

from edgewise.analyze import recommend
from edgewise.analyze.evidence import Evidence
from edgewise.core.energy import Energy
from edgewise.core.evaluation import Evaluation
from edgewise.core.race import Entry, Race, Wanted
from edgewise.core.types import Agreement, Finding, Measurement, Model, Ran, Section
from edgewise.report import format
from edgewise.report.sentences import remedy, sentence

WRONG = Agreement(1.0, 1.0, 0.5, 1.0, 0, 10)
ROUGH = Agreement(0.1, 1.0, 0.1, 1.0, 0, 1000)
ROUGH_HALF = Agreement(0.01, 1.0, 0.01, 1.0, 0, 1000)
FIVE = ["real-time", "stability-critical", "batch", "battery", "little memory"]


def run(*measurements: Measurement, evaluations: tuple[Evaluation, ...] = ()) -> Section:
    return recommend.run(Evidence({"m": machine()}, measurements=measurements, evaluations=evaluations))


def rows(section: Section) -> dict[str, dict[str, Any]]:
    names = [column.name for column in section.columns]
    found = [dict(zip(names, row, strict=True)) for row in section.rows]
    return {row["use"]: row for row in found}


def said(section: Section, use: str) -> Finding:
    (found,) = [f for f in section.findings if f.code == "recommended" and f["use"] == use]
    return found


def jumpy(centre: float, n: int = 3000, seed: int = 0) -> NDArray[np.float64]:
    """One run in twenty takes three times as long."""
    return noise(centre, n, seed) * np.random.default_rng(seed).choice([1.0, 3.0], n, p=[0.95, 0.05])


def test_each_use_gets_its_own_answer() -> None:
    section = run(
        # The lowest median, and a tail that rules it out where time is short.
        measured("ort:cpu", jumpy(1e6), peak_bytes=4 << 26),
        measured("openvino:cpu", noise(1.5e6, 3000, seed=1), peak_bytes=8 << 26, cores=3.0),
        measured("ncnn:cpu", noise(4e6, 3000, seed=2, spread=0.002), peak_bytes=1 << 26),
        # Eight at a time in 4 ms: twice what one at a time reaches.
        measured("mnn:cpu", noise(4e6, 3000, seed=3), scenario="single(batch=8)"),
    )
    assert list(rows(section)) == FIVE
    assert {use: row["target"] for use, row in rows(section).items()} == {
        "real-time": "openvino:cpu",
        "stability-critical": "ncnn:cpu",
        "batch": "mnn:cpu",
        "battery": "ort:cpu",
        "little memory": "ncnn:cpu",
    }
    real = rows(section)["real-time"]
    assert (real["by"], real["next_best"], real["confidence"]) == ("p99", "ort:cpu", "clear")
    assert real["margin"] == pytest.approx(2.0, rel=0.06)
    assert format.cell(real["figure"], "figure") == format.time(real["figure"][0])
    batch = rows(section)["batch"]
    assert batch["figure"] == (pytest.approx(2000, rel=0.02), "rate") and batch["scenario"] == "single(batch=8)"
    assert batch["margin"] == pytest.approx(2000 / (1000 / 1.1), rel=0.03)
    assert "single(batch=8)" in sentence(said(section, "batch"))
    memory = rows(section)["little memory"]
    assert memory["figure"] == (1 << 26, "bytes") and memory["margin"] == pytest.approx(4)
    assert "no meter was read" in sentence(said(section, "battery"))
    (chart,) = section.charts
    assert [(series.name, series.labels) for series in chart.series] == [
        (
            "recommended",
            ("ort:cpu, battery", "openvino:cpu, real-time", "ncnn:cpu, stability-critical, little memory"),
        )
    ]
    for use in FIVE:
        text = sentence(said(section, use))
        assert rows(section)[use]["target"] in text and str(rows(section)[use]["next_best"]) in text


def test_wrong_answers_are_never_recommended_however_quick() -> None:
    overflow = Agreement(0.0, 1.0, 0.0, 1.0, 3, 10)
    section = run(
        measured("ort:cpu", noise(3e6)),
        measured("openvino:cpu", noise(1e6), agreement=WRONG, peak_bytes=1 << 20),
        measured("openvino:cpu:fp16", noise(0.5e6), agreement=overflow, peak_bytes=1 << 20),
    )
    assert {row["target"] for row in rows(section).values()} == {"ort:cpu"}
    assert {row["confidence"] for row in rows(section).values()} == {"alone"}
    (out,) = [f for f in section.findings if f.code == "left_out"]
    assert sentence(out) == "not recommended for wrong answers: openvino:cpu, openvino:cpu:fp16"


def test_an_error_that_the_precision_does_not_explain_needs_a_measured_accuracy() -> None:
    exact = measured("ort:cpu:fp32", noise(3e6))
    doubtful = measured("ort:cpu:int8@2", noise(1e6), agreement=WRONG)
    unproven = run(exact, doubtful)
    assert {row["target"] for row in rows(unproven).values()} == {"ort:cpu:fp32"}
    assert [f["why"] for f in unproven.findings if f.code == "left_out"] == ["unproven"]
    right = np.arange(2000) % 10 != 0
    proven = run(exact, doubtful, evaluations=(evaluated("ort:cpu:fp32@1", right), evaluated("ort:cpu:int8@1", right)))
    assert rows(proven)["real-time"]["target"] == "ort:cpu:int8@2"


def test_a_lower_precision_says_what_is_known_of_its_answers_and_names_the_best_in_full() -> None:
    exact, low = measured("ort:cpu:fp32", noise(3e6)), measured("ort:cpu:int8", noise(1e6), agreement=ROUGH)
    unknown = run(exact, low)
    found = said(unknown, "real-time")
    assert (found["known"], found["exact"]) == ("agreement", "ort:cpu:fp32")
    assert sentence(found).endswith("accuracy of int8 not measured")
    assert rows(unknown)["real-time"]["own_precision"] == "ort:cpu:fp32"
    assert rows(unknown)["real-time"]["own_figure"] == (pytest.approx(3e6, rel=0.05), "ns")
    assert remedy(found) == "edgewise accuracy net --data FOLDER --on ort:cpu:fp32 --on ort:cpu:int8"
    assert rows(unknown)["real-time"]["accuracy"] == "not measured"

    right = np.arange(2000) % 10 != 0
    slightly = right & (np.arange(2000) % 500 != 1)
    base = evaluated("openvino:cpu:fp32", right)
    known = run(exact, low, evaluations=(base, evaluated("ort:cpu:int8", slightly)))
    assert rows(known)["real-time"]["accuracy"] == "measured"
    assert "accuracy -0.20 points [" in sentence(said(known, "real-time"))
    assert rows(known)["real-time"]["accuracy_interval"] == (
        said(known, "real-time")["low"],
        pytest.approx(0, abs=0.01),
    )

    # Asked about other images than the original was: nothing to compare with.
    other = run(exact, low, evaluations=(evaluated("ort:cpu:fp32", right[:50]), evaluated("ort:cpu:int8", right)))
    assert said(other, "real-time")["known"] == "alone"


def test_what_demonstrably_loses_accuracy_is_left_out() -> None:
    exact, low = measured("ort:cpu:fp32", noise(3e6)), measured("ort:cpu:int8", noise(1e6), agreement=ROUGH)
    right = np.arange(2000) % 10 != 0
    pair = (evaluated("ort:cpu:fp32", right), evaluated("ort:cpu:int8", right & (np.arange(2000) % 8 != 1)))
    section = run(exact, low, evaluations=pair)
    assert {row["target"] for row in rows(section).values()} == {"ort:cpu:fp32"}
    (out,) = [f for f in section.findings if f.code == "left_out"]
    assert sentence(out) == "not recommended for -12.50 points of accuracy: ort:cpu:int8"
    evidence = Evidence({"m": machine()}, measurements=(exact, low), evaluations=pair)
    assert rows(recommend.run(evidence, max_loss=0.2))["real-time"]["target"] == "ort:cpu:int8"


def test_a_tie_is_told_with_how_to_break_it() -> None:
    section = run(measured("ort:cpu", noise(1e6, 2000)), measured("openvino:cpu", noise(1.0005e6, 2000, seed=1)))
    row, found = rows(section)["real-time"], said(section, "real-time")
    assert row["confidence"] == "tie with 1" and found["ties"] == 1
    assert "not told apart from" in sentence(found)
    assert str(remedy(found)).startswith("edgewise compare net --on ")
    assert rows(section)["little memory"]["confidence"] == "tie with 1"


def test_what_was_wrong_meanwhile_is_said_beside_the_figure() -> None:
    section = run(measured("ort:cpu", noise(1e6, 2000) * np.linspace(1, 1.3, 2000), foreign=0.5))
    found = said(section, "real-time")
    assert rows(section)["real-time"]["confidence"] == "alone, machine was busy, latency drifted"
    assert found.level == "caution" and "(machine was busy, latency drifted)" in sentence(found)
    assert said(section, "little memory").level == "note"
    assert rows(section)["little memory"]["confidence"] == "alone"


def test_of_equally_steady_ones_the_quicker_is_named() -> None:
    section = run(measured("ort:cpu", noise(3e6, 2000)), measured("openvino:cpu", noise(1e6, 2000, seed=1)))
    assert rows(section)["stability-critical"]["target"] == "openvino:cpu"


def test_a_race_breaks_a_tie_that_two_measurements_cannot() -> None:
    """Forty runs each, too few for a p90: the medians overlap, and the one with the higher won in turns."""
    quick = measured("ort:cpu", noise(1.00e6, 40, spread=0.2))
    winner = measured("openvino:cpu", noise(1.02e6, 40, seed=1, spread=0.2))
    evidence = Evidence({"m": machine()}, measurements=(quick, winner))
    alone = rows(recommend.run(evidence))["real-time"]
    assert "tie with 1" in alone["confidence"]
    entries = (Entry(winner.task, "net", "won"), Entry(quick.task, "net", "slower", 1))
    raced = replace(evidence, races=(Race("net", "m", Wanted(), entries),))
    found = rows(recommend.run(raced))["real-time"]
    assert found["target"] == "openvino:cpu" and "tie" not in found["confidence"]
    elsewhere = replace(evidence, races=(Race("net", "another", Wanted(), entries),))
    assert rows(recommend.run(elsewhere))["real-time"] == alone


def test_p90_decides_where_a_rival_has_too_few_runs_for_p99() -> None:
    quick, few = measured("ort:cpu", noise(1e6, 3000)), measured("openvino:cpu", noise(1.02e6, 200, seed=1))
    assert rows(run(quick, few))["real-time"]["by"] == "p90"
    # One that is slower in half of its runs than the other in 99 of 100 cannot win, whatever its tail is.
    slow = measured("openvino:cpu", noise(9e6, 200, seed=1))
    section = run(quick, slow)
    assert rows(section)["real-time"]["by"] == "p99" and rows(section)["real-time"]["confidence"] == "clear"
    assert "ahead of 1 other, slower though with too few runs for p99" in sentence(said(section, "real-time"))
    short = run(measured("ort:cpu", noise(1e6, 8)), measured("openvino:cpu", noise(2e6, 8)))
    assert rows(short)["real-time"]["by"] == "p50"
    assert "stability-critical" not in rows(short)


def test_what_was_measured_with_too_few_runs_is_not_said_to_be_missing() -> None:
    """In fp32 there are too few runs for a p99, and it is slower at any rate."""
    quick = measured("torch:cuda.0:fp16", noise(1e6, 3000), agreement=ROUGH_HALF)
    exact = measured("torch:cuda.0:fp32", noise(9e6, 200, seed=1))
    section = run(quick, exact)
    row, found = rows(section)["real-time"], said(section, "real-time")
    assert (row["by"], row["confidence"], row["own_precision"]) == ("p99", "clear", "torch:cuda.0:fp32")
    assert "nothing else" not in sentence(found)
    assert "--on torch:cuda.0:fp32 --on torch:cuda.0:fp16" in str(remedy(found))
    # Nobody knows how steady five runs are.
    few = run(quick, measured("torch:cuda.0:fp32", noise(9e6, 5, seed=1)))
    assert rows(few)["stability-critical"]["confidence"] == "alone, 1 not known"
    assert "not known of 1 other" in sentence(said(few, "stability-critical"))


def test_a_recommendation_is_short_enough_for_a_headline() -> None:
    section = run(
        measured("ort:cpu:int8@16", noise(1e6, 2000), agreement=ROUGH),
        *(measured(f"openvino:cpu@{i}", noise(1.0005e6, 2000, seed=i)) for i in range(1, 9)),
    )
    assert max(len(sentence(said(section, use))) for use in rows(section)) <= 120


def test_batteries_go_by_energy_where_it_was_read() -> None:
    def used(uj: int, source: str = "rapl") -> tuple[Energy, ...]:
        idle = None if source == "estimate" else 0
        return (Energy(source, "package 0", 0, 1000, 10**9, uj * 1000, uj * 10, idle, idle),)

    quick, slow = noise(1e6), noise(2e6, seed=1)
    section = run(measured("ort:cpu", quick, energies=used(900)), measured("openvino:cpu", slow, energies=used(500)))
    row = rows(section)["battery"]
    assert (row["target"], row["by"]) == ("openvino:cpu", "energy beyond idle")
    assert row["figure"] == (pytest.approx(2000), "per_joule") and row["margin"] == pytest.approx(1.8)
    assert "2,000/J by energy beyond idle (rapl)" in sentence(said(section, "battery"))
    declared = run(
        measured("ort:cpu", quick, energies=used(500, "estimate")),
        measured("openvino:cpu", slow, energies=used(900, "estimate")),
    )
    # A declared power would only repeat who is quickest.
    assert rows(declared)["battery"]["by"] == "CPU time"
    gpu = run(measured("torch:cuda.0", quick), measured("ort:cpu", slow))
    assert "battery" not in rows(gpu)


def test_a_server_and_a_disturbed_run_do_not_count_as_throughput() -> None:
    section = run(
        measured("ort:cpu", noise(2e6)),
        measured("openvino:cpu", noise(1e6), scenario="server(rate_hz=100)"),
        measured("ncnn:cpu", noise(1e6), scenario="single(contention=1*memory)"),
    )
    assert {row["target"] for row in rows(section).values()} == {"ort:cpu"}
    assert rows(section)["real-time"]["scenario"] == "single"


def test_models_and_machines_each_have_theirs() -> None:
    section = run(
        measured("ort:cpu", noise(1e6)),
        measured("ort:cpu", noise(1e6), label="other"),
        measured("openvino:cpu", noise(1e6), on="elsewhere"),
    )
    assert len(section.rows) == 15
    assert {f.about for f in section.findings} == {"net, machine m", "other, machine m", "net, elsewhere"}


def test_a_model_that_is_int8_itself_is_not_called_lowered() -> None:
    model = Model("digest of net", "net.onnx", (), (), precision="int8", label="net")
    evidence = Evidence(
        {"m": machine()}, {model.digest: model}, (measured("ort:cpu:int8", noise(1e6), agreement=ROUGH),)
    )
    section = recommend.run(evidence)
    assert said(section, "real-time")["known"] == "own"
    assert "net.onnx" in str(remedy(said(section, "batch")))


def test_nothing_to_recommend() -> None:
    nothing = replace(measured("ort:cpu", noise(1e6)), rounds=())
    for section in (run(), run(nothing)):
        assert section.rows == () and [f.code for f in section.findings] == ["absent"]
    null = run(measured("null", noise(1e6), ran=Ran(("CPU",), (), ("nothing was computed",))))
    assert null.rows == () and [f.code for f in null.findings] == ["absent", "left_out"]
    assert "nothing was computed" in sentence(null.findings[1])
