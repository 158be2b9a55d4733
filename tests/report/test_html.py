"""The page, in a real browser where there is one: it draws, it answers, it asks nobody."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import chromium
import pytest
from gallery import BAR, FASTEST, LOADED, MACHINE, ROWS, SECTIONS, TARGETS, measured, samples

from edgewise.analyze.evidence import Evidence
from edgewise.core.chart import Series
from edgewise.core.text import parse_placement, parse_scenario
from edgewise.core.types import Failure, Finding, Task
from edgewise.report import content
from edgewise.report.content import Drawn, Missing, Report
from edgewise.report.page import page

HOSTILE = '<script>alert("x")</script>\'"&'


def report(*drawn: Drawn, label: str = "resnet50", **more: Any) -> Report:
    tasks = [Task("d", parse_placement(target), parse_scenario("single")) for target in TARGETS]
    failure = Failure(tasks[2], "m", "load", "Unsupported", f"no operator {HOSTILE}", "try another", label=label)
    evidence = Evidence({"m": MACHINE}, {}, tuple(measured(t, label) for t in TARGETS), (failure,))
    missing = (Missing("Roofline", "no roofs were measured", "edgewise roofline resnet50"),)
    return Report("A title", "2026-01-01", evidence, drawn, missing, (FASTEST,), ("lab.db",), **more)


@pytest.fixture(scope="module")
def gallery() -> str:
    return page(report(*(Drawn("ranking", section) for section in SECTIONS)))


class _Scripts(HTMLParser):
    """The elements of a page that could run, load or lead somewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.scripts = 0
        self.outward: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.scripts += tag == "script"
        for name, value in attributes:
            leads = name in ("src", "href", "action", "data", "poster", "style") or name.startswith("on")
            if leads and not (value or "").startswith("#"):
                self.outward.append(f"{tag} {name}={value}")


def seen(text: str) -> _Scripts:
    parser = _Scripts()
    parser.feed(text)
    return parser


def test_the_page_leads_nowhere_and_forbids_it(gallery: str) -> None:
    assert seen(gallery).scripts == 2
    assert seen(gallery).outward == []
    assert "default-src 'none'" in gallery
    assert "unsafe-inline" not in gallery


def test_names_of_others_stay_text() -> None:
    section = replace(SECTIONS[0], title=HOSTILE, charts=(replace(BAR, title=HOSTILE),))
    rows = ((HOSTILE, HOSTILE, HOSTILE, 1.0, None), *ROWS)
    finding = Finding("fastest", "note", HOSTILE, (("target", HOSTILE), ("p50_ns", 1.0)))
    bad = replace(section, rows=rows, findings=(finding,))
    text = page(replace(report(Drawn("ranking", bad), label=HOSTILE), title=HOSTILE, headlines=(finding,)))
    assert seen(text).scripts == 2
    assert "alert(" in text and '<script>alert("x")' not in text


def test_targets_have_short_names_unless_two_would_read_the_same() -> None:
    plain, long = "openvino:cpu:int8@2", "openvino:cpu:int8@2{isa=avx2}"
    rows = (("net", "single", long, 1.0, None), ("net", "single", "ort:cpu{ep=xnnpack}", 2.0, None))
    made = report(Drawn("ranking", replace(SECTIONS[0], rows=rows, charts=(), findings=())))
    alone = replace(made, evidence=replace(made.evidence, measurements=(measured(long, "net"),), failures=()))
    text = page(alone)
    assert f"<td>{plain}</td><td" in text and f"<td>{long}</td></tr>" in text  # in the table of names
    assert "ort:cpu{ep=xnnpack}" in text
    both = replace(alone.evidence, measurements=(measured(long, "net"), measured(plain, "net")))
    assert f"<td>{long}</td><td" in page(replace(alone, evidence=both))


def test_recommendations_are_on_top_and_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    first = Finding("fastest", "caution", "resnet50", (("target", "a target"), ("p50_ns", 1e6)))
    monkeypatch.setattr(content, "_ANSWERS", {"recommend": ("fastest",)})
    drawn = (Drawn("recommend", replace(SECTIONS[0], charts=(), findings=(first, LOADED[0]))),)
    assert content.answers(drawn) == (first,)
    text = page(replace(report(*drawn), headlines=content.answers(drawn)))
    assert text.count("a target is fastest") == 1
    assert text.index("a target is fastest") < text.index("<h2>")
    assert text.index("other processes") > text.index("<h2>")


def test_what_is_not_there_is_said(gallery: str) -> None:
    for words in ("Did not run", "no operator", "Not in this report", "edgewise roofline resnet50", "Environment"):
        assert words in gallery
    assert "machine m" in gallery and "at least 64 runs and 2 s" in gallery


def test_columns_that_say_the_same_are_a_line_above_the_table() -> None:
    text = page(report(Drawn("ranking", replace(SECTIONS[0], charts=()))))
    assert "<button>scenario</button>" not in text
    assert "scenario single" in text
    one = page(report(Drawn("ranking", replace(SECTIONS[0], charts=(), rows=ROWS[:1]))))
    assert "<button>scenario</button>" in one


def test_many_samples_make_no_large_page() -> None:
    series = Series("ort:cpu", (), samples(1e6, 200_000))
    chart = replace(SECTIONS[0].charts[1], series=(series,))
    assert len(page(report(Drawn("summary", replace(SECTIONS[0], charts=(chart,)))))) < 100_000


def test_an_analysis_that_cannot_answer_is_listed_and_the_others_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    from types import ModuleType

    from edgewise.analyze.evidence import absent
    from edgewise.core.errors import InputError

    def module(place: int | None, answer: Any) -> ModuleType:
        made = ModuleType("analysis")
        if place is not None:
            made.PLACE = place  # type: ignore[attr-defined]
        made.run = answer  # type: ignore[attr-defined]
        return made

    def refuse(evidence: Evidence) -> None:
        raise InputError("too little", "edgewise bench")

    modules = {
        "late": module(2, lambda evidence: SECTIONS[1]),
        "early": module(1, lambda evidence: SECTIONS[0]),
        "refusing": module(3, refuse),
        "nothing": module(4, lambda evidence: absent("Energy", "no meter", "edgewise bench --energy")),
        "other": module(None, None),
    }
    monkeypatch.setattr(content.registry, "names", lambda package: tuple(modules))
    monkeypatch.setattr(content.registry, "find", lambda package, name, noun: modules[name])
    made = content.compose(Evidence())
    assert [drawn.analysis for drawn in made.drawn] == ["early", "late"]
    assert [(m.title, m.reason, m.command) for m in made.missing] == [
        ("refusing", "could not be drawn: too little", "edgewise bench"),
        ("Energy", "no meter", "edgewise bench --energy"),
    ]

    def broken(evidence: Evidence) -> None:
        raise ZeroDivisionError

    modules["broken"] = module(5, broken)
    with pytest.raises(ZeroDivisionError):
        content.compose(Evidence())


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[chromium.Browser]:
    if chromium.find() is None:
        pytest.skip("there is no Chromium on this machine")
    with chromium.Browser(tmp_path_factory.mktemp("chromium")) as found:
        yield found


@pytest.fixture
def opened(browser: chromium.Browser, gallery: str, tmp_path: Path) -> chromium.Browser:
    path = tmp_path / "report.html"
    path.write_text(gallery)
    browser.open(path)
    return browser


SHOWN = "[...document.querySelectorAll('figure .chart')].filter(c => c.getBoundingClientRect().height > 50).length"


def test_it_draws_without_complaint_and_asks_for_nothing(opened: chromium.Browser) -> None:
    assert opened.ask(SHOWN) == 6
    opened.ask("new Promise(done => setTimeout(done, 300))")
    assert opened.errors == []
    assert [url for url in opened.requests if not url.endswith("/report.html")] == []


def test_hostile_names_run_nothing(browser: chromium.Browser, tmp_path: Path) -> None:
    path = tmp_path / "hostile.html"
    section = replace(SECTIONS[0], title=HOSTILE, rows=((HOSTILE, "s", HOSTILE, 1.0, None), *ROWS))
    path.write_text(page(report(Drawn("ranking", section), label=HOSTILE)))
    browser.open(path)
    assert browser.errors == []
    assert HOSTILE in browser.ask("document.querySelector('main').textContent")


def test_hovering_a_mark_shows_all_its_values(opened: chromium.Browser) -> None:
    x, y = _centre(opened, "figure .wide [data-tip]")
    opened.move(x, y)
    tip = opened.ask("tip.hidden ? '' : tip.innerText")
    assert "ort:cpu:fp32@1" in tip and "5.20 ms" in tip and "[5.00, 5.50] ms" in tip
    opened.move(2, 2)
    assert opened.ask("tip.hidden")


def _centre(browser: chromium.Browser, what: str) -> tuple[float, float]:
    place = (
        f"(() => {{const e = document.querySelector('{what}'); e.scrollIntoView({{block: 'center'}});"
        "const b = e.getBoundingClientRect(); return [b.x + b.width / 2, b.y + b.height / 2]})()"
    )
    x, y = browser.ask(place)
    return x, y


VISIBLE = "[...document.querySelectorAll('{}')].filter(e => getComputedStyle(e).display !== 'none').length"


def test_a_legend_entry_hides_and_shows_its_series(opened: chromium.Browser) -> None:
    count = VISIBLE.format('.figures > :nth-child(1) .narrow .m[data-s="1"]')
    key = '.figures > :nth-child(1) .narrow .key[data-s="1"]'
    opened.ask("document.querySelectorAll('section')[0].remove(), document.querySelectorAll('section')[0].remove()")
    before = opened.ask(count)
    assert before == 3
    opened.click(*_centre(opened, key))
    assert opened.ask(count) == 0
    assert opened.ask(f"document.querySelector('{key}').getAttribute('aria-pressed')") == "false"
    opened.ask(f"document.querySelector('{key}').focus()")
    opened.key("Enter")
    assert opened.ask(count) == before


def test_the_filter_hides_rows_and_marks_at_once(opened: chromium.Browser) -> None:
    rows = VISIBLE.format("section:nth-of-type(1) > .table tbody tr")
    marks = VISIBLE.format("section:nth-of-type(1) .wide g.m")
    assert (opened.ask(rows), opened.ask(marks)) == (3, 5)
    fill = "filter.value = '{}', filter.dispatchEvent(new Event('input')), 0"
    opened.ask(fill.format("openvino resnet50"))
    assert (opened.ask(rows), opened.ask(marks)) == (1, 2)
    opened.ask(fill.format("-openvino"))
    assert (opened.ask(rows), opened.ask(marks)) == (1, 3)
    opened.ask(fill.format("no such thing"))
    assert opened.ask(VISIBLE.format("section:nth-of-type(1) figure")) == 0
    opened.ask(fill.format(""))
    assert (opened.ask(rows), opened.ask(marks)) == (3, 5)


def test_tables_sort_by_raw_values(opened: chromium.Browser) -> None:
    column = (
        "[...document.querySelectorAll('section:nth-of-type(1) > .table tbody tr')].map(r => r.cells[{}].innerText)"
    )
    click = "document.querySelectorAll('section:nth-of-type(1) > .table th button')[{}].click()"
    opened.ask(click.format(2))
    assert opened.ask(column.format(2)) == ["3.10 ms", "5.20 ms", "9.10 ms"]
    opened.ask(click.format(2))
    assert opened.ask(column.format(2)) == ["9.10 ms", "5.20 ms", "3.10 ms"]
    opened.ask(click.format(3))
    assert opened.ask(column.format(3))[-1] == "n/a"


def test_the_theme_can_be_turned(opened: chromium.Browser) -> None:
    paper = "getComputedStyle(document.body).backgroundColor"
    before = opened.ask(paper)
    opened.click(*_centre(opened, "#theme"))
    after = opened.ask(paper)
    opened.click(*_centre(opened, "#theme"))
    assert after != before == opened.ask(paper)


def test_the_data_can_be_taken_along(opened: chromium.Browser) -> None:
    caught = (
        "new Promise(done => (URL.createObjectURL = blob => (blob.text().then(done), '#'),"
        "document.querySelector('section:nth-of-type(1) > .table [data-as={}]').click()))"
    )
    lines = opened.ask(caught.format("csv")).split("\r\n")
    assert lines[0] == "model,scenario,target,p50_ns,interval_low_ns,interval_high_ns"
    assert lines[1] == f"resnet50,single,{TARGETS[0]},5200000,5000000,5500000"
    assert '"p50_ns": 3100000' in opened.ask(caught.format("json"))


@pytest.mark.parametrize("wide", [360, 768])
def test_nothing_sticks_out_on_a_small_screen(
    browser: chromium.Browser, gallery: str, tmp_path: Path, wide: int
) -> None:
    path = tmp_path / "report.html"
    path.write_text(gallery)
    browser.open(path, wide, 740)
    assert browser.ask("document.documentElement.scrollWidth") <= wide
    narrow = browser.ask(VISIBLE.format("figure .narrow"))
    assert narrow == (6 if wide == 360 else narrow)
    assert browser.errors == []


def test_every_heading_is_reached_from_the_contents(gallery: str) -> None:
    links = re.findall(r'<a href="#([^"]+)">', gallery)
    assert len(links) == len(SECTIONS) + 4
    assert all(f'id="{link}"' in gallery for link in links)
