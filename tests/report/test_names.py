"""Short names: as short as tells apart what is there, and nothing of the machine a report was made on."""

from __future__ import annotations

from dataclasses import replace

import pytest
from gallery import SECTIONS, measured

from edgewise.analyze.evidence import Evidence
from edgewise.core.text import parse_placement, parse_scenario
from edgewise.core.types import Cluster, Failure, Finding, Machine, Section, Task
from edgewise.report.content import Drawn, Report, compose, pathless
from edgewise.report.names import loads, machines, shortened
from edgewise.report.page import page
from edgewise.report.page.parts import beside, findings, grouped


@pytest.mark.parametrize(
    ("texts", "names"),
    [
        (("single", "single(batch=8)"), ("single", "single(batch=8)")),
        (("single(max_s=2, width=0.1)", "single(batch=8, max_s=2, width=0.1)"), ("single", "single(batch=8)")),
        (("single", "single(batch=8, min_s=1, max_s=2)"), ("single", "single(batch=8, max_s=2)")),
        (("single(input=white, max_runs=100)",), ("single(input=white)",)),
    ],
)
def test_loads_are_called_by_what_they_are(texts: tuple[str, ...], names: tuple[str, ...]) -> None:
    scenarios = [parse_scenario(text) for text in texts]
    found = loads(scenarios)
    assert tuple(found[str(each)] for each in scenarios) == names


def test_loads_that_no_single_setting_tells_apart_keep_their_names() -> None:
    assert loads(map(parse_scenario, ("single", "single(max_s=20)", "single(width=0.1)"))) == {}


def test_machines_of_one_name_differ_by_their_first_fact() -> None:
    one, other = "A CPU (2 cores, AVX2, 8 GiB)", "A CPU (16 cores, AVX2, 64 GiB)"
    assert machines([one, "B (4 cores)"]) == {one: "A CPU", "B (4 cores)": "B"}
    assert machines([one, other]) == {one: "A CPU (2 cores)", other: "A CPU (16 cores)"}
    assert machines(["A (x)", "A (x, y)"]) == {}


def test_a_command_is_not_shortened() -> None:
    load = parse_scenario("single(max_s=2)")
    m = measured("ort:cpu", "net")
    values = (("scenario", str(load)), ("command", f"edgewise bench net --scenario '{load}'"))
    finding = Finding("fastest", "note", f"net, {load}", values)
    evidence = Evidence(measurements=(replace(m, task=replace(m.task, scenario=load)),))
    section = Section("s", (), (), (finding,))
    brief, wholes = shortened(Report("t", "now", evidence, (Drawn("ranking", section),), ()))
    assert wholes == {"single": str(load)}
    (told,) = brief.drawn[0].section.findings
    assert (told.about, dict(told.values)["scenario"]) == ("net, single", "single")
    assert dict(told.values)["command"] == f"edgewise bench net --scenario '{load}'"


@pytest.mark.parametrize(
    ("said", "left"),
    [
        ("cannot open /home/me/lib/x.so: no", "cannot open …/x.so: no"),
        ("'/data/a b/net.onnx' is damaged", "'…/net.onnx' is damaged"),
        (r"C:\Users\me\net.onnx", "…/net.onnx"),
        ("p90/p10, 12 inferences/s/W, n/a, either / or", "p90/p10, 12 inferences/s/W, n/a, either / or"),
        ("see https://onnx.ai/onnx/operators", "see https://onnx.ai/onnx/operators"),
    ],
)
def test_paths_lose_where_they_lead(said: str, left: str) -> None:
    assert pathless(said) == left


def test_no_path_of_the_machine_is_in_a_report() -> None:
    task = Task("d", parse_placement("ort:cpu"), parse_scenario("single"))
    failure = Failure(task, "m", "load", "Unsupported", "in /home/me/x.so", "see /home/me/y", "File /home/me/z", "net")
    machine = Machine("m", "machine m", "Linux", "a CPU", (), (Cluster("cpu", (0,)),))
    evidence = Evidence({"m": machine}, {}, (measured("ort:cpu", "net"),), (failure,))
    report = compose(evidence, None, ("/home/me/lab.db",))
    text = page(report)
    assert "/home/me" not in text and "from lab.db" in text and "in …/x.so" in text
    assert report.evidence.failures[0].stderr == ""


def test_what_is_only_begun_is_named_among_what_is_missing() -> None:
    names = tuple(f"net on ort:cpu@{n}, single" for n in range(1, 6))
    (told,) = [m for m in compose(Evidence(unfinished=names)).missing if "unfinished" in m.title]
    assert told.title == "5 unfinished" and "net on ort:cpu@1, single" in told.reason and "and 2 more" in told.reason


def test_a_long_row_of_findings_is_one_line() -> None:
    ranked = [Finding("ranked", "note", f"net{n}", ()) for n in range(20)]
    assert [len(same) for same in grouped(ranked[:5])] == [1] * 5
    assert [len(same) for same in grouped(ranked)] == [20]


def test_findings_stand_with_the_chart_that_names_them_and_no_other() -> None:
    chart = SECTIONS[0].charts[0]
    titles = ("Layers of net on ort:cpu", "net, single(batch=2): latency", "net_large: latency", "net, single: latency")
    charts = tuple(replace(chart, title=title) for title in titles)
    abouts = ("net on ort:cpu", "net, single", "net_large on mnn:cpu", "other", "net, single(batch=2)")
    section = Section("s", (), (), tuple(Finding("fastest", "note", about, ()) for about in abouts), charts)
    whole, own = beside(section)
    assert [f.about for f in whole] == ["other"]
    assert [[f.about for f in each] for each in own] == [[abouts[0]], [abouts[4]], [abouts[2]], [abouts[1]]]
    alone = replace(section, charts=charts[:2], findings=(Finding("fastest", "note", "net on mnn:cpu", ()),))
    assert [len(each) for each in beside(alone)[1]] == [0, 1]


def test_what_a_title_says_is_not_said_again_but_still_found() -> None:
    finding = Finding("foreign_load", "caution", "net on ort:cpu", (("share", 0.5),))
    text = findings([finding], "net, single: latency")
    assert "<b>ort:cpu</b>" in text and 'data-k="net on ort:cpu"' in text
    assert "<b>net on ort:cpu</b>" in findings([finding], "net_large: latency")
