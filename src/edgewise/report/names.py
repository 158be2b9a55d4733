"""Short names for people: targets without the options a machine adds by itself, machines without their facts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from ..core.chart import Chart
from ..core.types import Finding, Placement, Section
from .content import Drawn, Report

# What an engine needs on a machine to be right there at all, and so is given without being asked.
_ADDED = ("isa",)


def short(placement: Placement) -> str:
    parts = [
        replace(part, target=replace(part.target, options=tuple(o for o in part.target.options if o[0] not in _ADDED)))
        for part in placement.parts
    ]
    return str(replace(placement, parts=tuple(parts)))


def shortened(report: Report) -> tuple[Report, dict[str, str]]:
    """The report with short names, where that confuses no two of them, and what each stands for."""
    evidence = report.evidence
    placements = {m.task.placement for m in evidence.measurements} | {f.task.placement for f in evidence.failures}
    placements |= {p.task.placement for p in evidence.profiles}
    placements |= {e.placement for e in evidence.evaluations} | {s.placement for s in evidence.supports}
    wholes = {str(placement): short(placement) for placement in placements}
    wholes |= {machine.label: machine.label.partition(" (")[0] for machine in evidence.machines.values()}
    taken = Counter(wholes.values())
    changed = {whole: brief for whole, brief in wholes.items() if whole != brief and taken[brief] == 1}
    if not changed:
        return report, {}
    longest_first = sorted(changed, key=len, reverse=True)
    pattern = re.compile("|".join(map(re.escape, longest_first)))

    def brief(text: str) -> str:
        return pattern.sub(lambda found: changed[found[0]], text)

    drawn = tuple(Drawn(each.analysis, _section(each.section, brief)) for each in report.drawn)
    headlines = tuple(_finding(finding, brief) for finding in report.headlines)
    return replace(report, drawn=drawn, headlines=headlines), {changed[whole]: whole for whole in changed}


def _section(section: Section, brief: Callable[[str], str]) -> Section:
    return Section(
        brief(section.title),
        tuple(replace(column, name=brief(column.name)) for column in section.columns),
        tuple(tuple(brief(cell) if isinstance(cell, str) else cell for cell in row) for row in section.rows),
        tuple(_finding(finding, brief) for finding in section.findings),
        tuple(_chart(chart, brief) for chart in section.charts),
    )


def _finding(finding: Finding, brief: Callable[[str], str]) -> Finding:
    values = tuple((name, brief(value) if isinstance(value, str) else value) for name, value in finding.values)
    return replace(finding, about=brief(finding.about), values=values)


def _chart(chart: Chart, brief: Callable[[str], str]) -> Chart:
    series = tuple(
        replace(
            each,
            name=brief(each.name),
            x=tuple(brief(x) if isinstance(x, str) else x for x in each.x),
            labels=tuple(map(brief, each.labels)),
        )
        for each in chart.series
    )
    return replace(chart, title=brief(chart.title), series=series)
