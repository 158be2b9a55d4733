"""Short names for people: targets without the options a machine adds by itself, loads and machines without what they
all have in common."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import replace

from ..core.chart import Chart
from ..core.types import Finding, Placement, Scenario, Section
from .content import Drawn, Report

# What an engine needs on a machine to be right there at all, and so is given without being asked.
_ADDED = ("isa",)
# How long a load is measured, as against what the load is; what tells most comes first.
_LENGTHS = ("max_s", "max_runs", "min_s", "min_runs", "width", "warmup", "cooldown_s", "seed")


def short(placement: Placement) -> str:
    parts = [
        replace(part, target=replace(part.target, options=tuple(o for o in part.target.options if o[0] not in _ADDED)))
        for part in placement.parts
    ]
    return str(replace(placement, parts=tuple(parts)))


def loads(found: Iterable[Scenario]) -> dict[str, str]:
    """What to call each load: what it is, and of how long it is measured only what tells it from the others."""
    different = dict.fromkeys(found)
    lengths = {tuple(getattr(load, name) for name in _LENGTHS) for load in different}
    if len(lengths) < 2:
        return {str(load): str(_bare(load)) for load in different}
    for place, name in enumerate(_LENGTHS):
        if len({each[place] for each in lengths}) == len(lengths):
            return {str(load): _with(load, name) for load in different}
    return {}


def _bare(load: Scenario) -> Scenario:
    return Scenario(load.kind, load.batch, load.n, load.rate_hz, contention=load.contention, input=load.input)


def _with(load: Scenario, name: str) -> str:
    text, value = str(_bare(load)), getattr(load, name)
    if value == getattr(_bare(load), name):
        return text
    told = f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}"
    return f"{text[:-1]}, {told})" if text.endswith(")") else f"{text}({told})"


def machines(labels: Iterable[str]) -> dict[str, str]:
    """What to call each machine: its name, and where several share it the first fact that tells them apart."""
    found: dict[str, str] = {}
    alike: dict[str, list[str]] = defaultdict(list)
    for label in dict.fromkeys(labels):
        alike[label.partition(" (")[0]].append(label)
    for name, same in alike.items():
        facts = [label.partition(" (")[2].removesuffix(")").split(", ") for label in same]
        if len(same) == 1:
            found[same[0]] = name
            continue
        telling = (column for column in zip(*facts, strict=False) if len(set(column)) == len(same))
        for label, fact in zip(same, next(telling, ()), strict=False):
            found[label] = f"{name} ({fact})"
    return found


def shortened(report: Report) -> tuple[Report, dict[str, str]]:
    """The report with short names, where that confuses no two of them, and what each stands for."""
    evidence = report.evidence
    tasks = [m.task for m in evidence.measurements] + [f.task for f in evidence.failures]
    tasks += [p.task for p in evidence.profiles]
    placements = {task.placement for task in tasks}
    placements |= {e.placement for e in evidence.evaluations} | {s.placement for s in evidence.supports}
    wholes = {str(placement): short(placement) for placement in placements}
    wholes |= loads(task.scenario for task in tasks)
    wholes |= machines(machine.label for machine in evidence.machines.values())
    taken = Counter(wholes.values())
    changed = {
        whole: brief for whole, brief in wholes.items() if whole != brief and taken[brief] == 1 and brief not in wholes
    }
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
    """A command stays as it must be typed: a load by its short name would be another one."""
    values = tuple(
        (name, brief(value) if isinstance(value, str) and name != "command" else value)
        for name, value in finding.values
    )
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
