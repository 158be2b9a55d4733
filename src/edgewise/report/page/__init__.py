"""The report as one page: no file beside it, no request leaves it."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

from ...core.types import Machine
from .. import format, tables
from ..content import Drawn, Report
from ..names import shortened
from ..svg import colours
from ..svg.paper import escape
from . import about
from .parts import Data, answers, beside, figure, findings, slug, table

# The most models whose answers stand at the top; all of them are in their section.
_SUBJECTS = 6
# So many figures stand two in a row.
_MANY = 3


def page(report: Report) -> str:
    report, wholes = shortened(report)
    data = Data()
    style, script = _style(), _asset("page.js")
    body = _body(report, wholes, data)
    # `<` in a name must not end the script element it stands in.
    inline = json.dumps({"names": _names(report, wholes), "tables": data.tables}, allow_nan=False, ensure_ascii=False)
    inline = inline.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    policy = (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark"><meta name="generator" content="edgewise">\n'
        f"<title>{escape(report.title)}</title>\n<style>{style}</style></head>\n{body}\n"
        f'<script type="application/json" id="data">{inline}</script>\n<script>{script}</script>\n</html>\n'
    )


def _asset(name: str) -> str:
    return (files(__package__) / name).read_text(encoding="utf-8")


def _style() -> str:
    light, dark = colours.variables(False), colours.variables(True)
    themes = (
        f":root{{{light}}}:root[data-theme=dark]{{{dark}}}"
        f"@media screen and (prefers-color-scheme:dark){{:root:not([data-theme=light]){{{dark}}}}}"
        f"@media print{{:root,:root[data-theme=dark]{{{light}}}}}"
    )
    return themes + colours.rules() + _asset("page.css")


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _names(report: Report, wholes: Mapping[str, str]) -> list[str]:
    """What the filter can tell apart: models, targets and machines."""
    evidence = report.evidence
    names = [machine.label for machine in evidence.machines.values()]
    names += [text for m in evidence.measurements for text in (m.label, str(m.task.placement))]
    names += [text for f in evidence.failures for text in (f.label, str(f.task.placement))]
    names += [text for p in evidence.profiles for text in (p.label, str(p.task.placement))]
    names += [text for e in evidence.evaluations for text in (e.label, str(e.placement))]
    names += [text for s in evidence.supports for text in (s.label, str(s.placement))]
    return sorted({name.lower() for name in (*names, *wholes) if name})


def _body(report: Report, wholes: Mapping[str, str], data: Data) -> str:
    evidence = report.evidence
    chapters: list[tuple[str, str]] = []
    charts = 0
    for drawn in report.drawn:
        text = _section(drawn, report, data, charts)
        charts += len(drawn.section.charts)
        if text:
            chapters.append((drawn.section.title, text))
    if evidence.failures:
        chapters.append(("Did not run", about.failures(evidence.failures, evidence)))
    if report.missing:
        chapters.append(("Not in this report", about.missing(report.missing)))
    chapters.append(("Environment", about.environment(evidence, wholes, data)))
    chapters.append(("Method", about.method(evidence)))
    ids = [f"{slug(title)}-{number}" for number, (title, _) in enumerate(chapters)]
    links = "".join(
        f'<li><a href="#{id}">{escape(title)}</a></li>' for id, (title, _) in zip(ids, chapters, strict=True)
    )
    sections = "".join(
        f'<section id="{id}"><h2>{escape(title)}</h2>{text}</section>'
        for id, (title, text) in zip(ids, chapters, strict=True)
    )
    return (
        '<body><header class="top"><a class="brand" href="#top">edgewise</a>'
        '<input type="search" id="filter" placeholder="Filter: model or target" aria-label="Show only what matches" '
        'autocomplete="off" spellcheck="false"><output id="matches" for="filter"></output>'
        '<button id="theme" aria-label="Light or dark">◐</button></header>'
        f'<div class="page" id="top"><nav><details open><summary>Contents</summary><ol>{links}</ol></details></nav>'
        f"<main>{_summary(report)}{sections}<footer>{escape(_made(report))}</footer></main></div>"
        '<div id="tip" role="status" hidden></div></body>'
    )


def _made(report: Report) -> str:
    from ... import __version__

    # Names alone: where they lay on somebody's disk is nobody's business.
    stores = f" from {', '.join(Path(store).name for store in report.stores)}" if report.stores else ""
    return f"Made by edgewise {__version__}{stores}, {report.created}. This page is complete: it loads nothing."


def _summary(report: Report) -> str:
    evidence = report.evidence
    measured = evidence.measurements
    labels = {m.label for m in measured} | {e.label for e in evidence.evaluations}
    targets = {str(m.task.placement) for m in measured} | {str(e.placement) for e in evidence.evaluations}
    used = {m.machine for m in measured} | {e.machine for e in evidence.evaluations}
    machines = [machine for id, machine in evidence.machines.items() if id in used]
    counts = {
        ("machine", "machines"): len(machines),
        ("model", "models"): len(labels),
        ("target", "targets"): len(targets),
        ("measurement", "measurements"): len(measured),
        ("timed run", "timed runs"): sum(len(m.samples_ns) for m in measured),
        ("did not run", "did not run"): len(evidence.failures),
    }
    facts = "".join(
        f"<div><dt>{one if count == 1 else many}</dt><dd>{format.cell(count, 'count')}</dd></div>"
        for (one, many), count in counts.items()
        if count
    )
    where = "".join(f"<li>{escape(_where(machine))}</li>" for machine in machines)
    return (
        f'<div class="hero"><h1>{escape(report.title)}</h1><ul class="machines">{where}</ul>'
        f'<dl class="facts">{facts}</dl>{answers(report.headlines, _SUBJECTS)}</div>'
    )


def _where(machine: Machine) -> str:
    return f"{machine.label} · {machine.system}"


def _section(drawn: Drawn, report: Report, data: Data, number: int) -> str:
    """Figures with what is said of them beside them, or below where there are many, then the table. What is a headline
    is not said twice."""
    section = drawn.section
    few = len({finding.about for finding in report.headlines}) <= 2
    said_above = report.headlines if drawn.analysis == "recommend" and few else ()
    left = tuple(finding for finding in section.findings if finding not in said_above)
    whole, own = beside(replace(section, findings=left))
    parts = [findings(whole)]
    alone: list[str] = []
    for index, (chart, said) in enumerate(zip(section.charts, own, strict=True)):
        drawing, text = figure(chart, data, number + index), findings(said, chart.title)
        if said and len(section.charts) < _MANY:
            parts.append(f'<div class="beside">{drawing}<aside>{text}</aside></div>')
        else:
            alone.append(f"<div>{drawing}{text}</div>")
    if alone:
        parts.append(f'<div class="figures">{"".join(alone)}</div>')
    parts.append(table(tables.of_section(section), data))
    return "".join(parts)
