"""The pieces a page is made of: findings, tables, figures. Everything that is not ours is escaped."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from ...core.chart import Chart
from ...core.types import Finding, Section
from .. import svg, tables
from ..sentences import remedy, sentence
from ..svg.paper import escape

MARKS = {"problem": "✗", "caution": "!", "note": "•"}
# Beyond this a table of drawn values is cut short on the page; the download has all of them.
_MOST_ROWS = 400
# Longer text than this may be broken into lines.
_LONGEST_LINE = 56


# Each of these says something of its own, never the same thing of another; but nobody reads a long row of them.
_APART = ("recommended", "ranked")
_MOST_APART = 5


class Data:
    """The tables of a page, for the script that downloads them."""

    def __init__(self) -> None:
        self.tables: dict[str, Any] = {}

    def put(self, table: tables.Table) -> str:
        heads, rows = table.flat()
        name = f"t{len(self.tables) + 1}"
        self.tables[name] = {"name": slug(table.name), "columns": heads, "rows": rows}
        return name


def slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:60] or "table"


def grouped(findings: Iterable[Finding]) -> list[list[Finding]]:
    """The same thing said of many is said once, of the one it holds most for; what is worst comes first."""
    found = list(findings)
    often = Counter(finding.code for finding in found)
    apart = [code for code in _APART if often[code] <= _MOST_APART]
    groups: dict[tuple[str, str, int], list[Finding]] = defaultdict(list)
    for number, finding in enumerate(found):
        groups[finding.level, finding.code, number if finding.code in apart else 0].append(finding)
    for same in groups.values():
        same.sort(key=_weight, reverse=True)
    return sorted(groups.values(), key=lambda same: list(MARKS).index(same[0].level))


def _weight(finding: Finding) -> float:
    return next((abs(v) for _, v in finding.values if isinstance(v, (int, float))), 0.0)


def findings(found: Sequence[Finding], title: str = "") -> str:
    """`title`: of the figure they stand with, whose words are not said again."""
    if not found:
        return ""
    lines = []
    for same in grouped(found):
        first, rest = same[0], same[1:]
        more = ""
        if rest:
            others = "".join(f"<li>{said(each, title)}</li>" for each in rest)
            more = f"<details><summary>and {len(rest)} more</summary><ul>{others}</ul></details>"
        lines.append(_line(first, said(first, title), more))
    return f'<ul class="findings">{"".join(lines)}</ul>'


def _line(finding: Finding, text: str, more: str = "", *, advised: bool = True) -> str:
    mark = f'<span class="mark" title="{finding.level}">{MARKS[finding.level]}</span>'
    advice = remedy(finding) if advised else None
    told = f'<div class="remedy">→ {escape(advice)}</div>' if advice else ""
    # What it is about may stand in the title above it only, and the filter must find it all the same.
    key = escape(finding.about.lower())
    return f'<li class="{finding.level}" data-k="{key}">{mark}<div>{text}{told}{more}</div></li>'


def said(finding: Finding, title: str = "") -> str:
    """The sentence, and what it is about where neither it nor the title says so."""
    text, about = sentence(finding), finding.about
    model, on, target = about.partition(" on ")
    if on and names(title, model):
        about = target
    told = not about or about in text or names(title, about)
    return escape(text) if told else f"<b>{escape(about)}</b>: {escape(text)}"


def names(text: str, name: str) -> bool:
    """Whether a text has a name in it, and not only the beginning or the end of a longer one."""
    return bool(name) and re.search(rf"(?<![\w@.-]){re.escape(name)}(?![\w@(-])", text) is not None


def answers(found: Sequence[Finding], most: int) -> str:
    """The headlines of a page, by what they are about. Of more than two subjects it is the sentences alone: what to
    do about them is in their section, like the subjects beyond `most`."""
    groups: dict[str, list[Finding]] = defaultdict(list)
    for finding in found:
        groups[finding.about].append(finding)
    cards = []
    for about, same in list(groups.items())[:most]:
        lines = "".join(_line(each, escape(sentence(each)), advised=len(groups) <= 2) for each in same)
        cards.append(f'<div><h3>{escape(about)}</h3><ul class="findings">{lines}</ul></div>')
    rest = f'<p class="remedy">and {len(groups) - most} more below</p>' if len(groups) > most else ""
    return f'<div class="answers">{"".join(cards)}{rest}</div>' if cards else ""


def table(content: tables.Table, data: Data, kind: str = "") -> str:
    """What varies, in a table that sorts; what does not, above it in a line."""
    if not content.rows:
        return ""
    name = data.put(content)
    same = tables.constants(content)
    shown = [
        i
        for i in range(len(content.columns))
        if i not in same and (len(content.rows) == 1 or any(row[i] is not None for row in content.rows))
    ]
    fixed = " · ".join(f"{content.columns[i].name.replace('_', ' ')} {value}" for i, value in same.items() if value)
    head = "".join(_head(content, i) for i in shown)
    rows = content.rows[:_MOST_ROWS] if kind == "drawn" else content.rows
    body = "".join(f"<tr>{''.join(_cell(content, row, i) for i in shown)}</tr>" for row in rows)
    cut = "" if len(rows) == len(content.rows) else f"the first {len(rows)} of {len(content.rows)} rows"
    note = "".join(f"<span>{escape(text)}</span>" for text in (fixed, cut) if text)
    return (
        f'<div class="table {kind}"><div class="bar">{note}{_downloads(name)}</div>'
        f'<div class="scroll" tabindex="0"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div></div>"
    )


def _head(content: tables.Table, index: int) -> str:
    column = content.columns[index]
    kind = "" if column.unit == "text" else ' class="n"'
    return f"<th scope=col{kind}><button>{escape(column.name.replace('_', ' '))}</button></th>"


def _cell(content: tables.Table, row: Sequence[object], index: int) -> str:
    value, column = row[index], content.columns[index]
    text = escape(content.text(row, index))
    if column.unit == "text":
        long = ' class="long"' if len(text) > _LONGEST_LINE else ""
        return f"<td{long}>{text}</td>" if value is not None else '<td class="none">–</td>'
    low = value[0] if isinstance(value, tuple) and value else value
    if value is None or not isinstance(low, (int, float)):
        return f'<td class="n none">{text}</td>'
    return f'<td class="n" data-v="{low:.17g}">{text}</td>'


def _downloads(name: str) -> str:
    return (
        f'<span class="get"><button data-get="{name}" data-as="csv">CSV</button>'
        f'<button data-get="{name}" data-as="json">JSON</button></span>'
    )


def figure(chart: Chart, data: Data, number: int) -> str:
    """A drawing for wide and one for narrow places, and its values as a table."""
    wide = svg.draw(chart, name=f"c{number}")
    narrow = svg.draw(chart, wide=svg.NARROW, name=f"n{number}")
    values = table(tables.of_chart(chart), data, "drawn")
    below = f"<details><summary>As a table</summary>{values}</details>" if values else ""
    return (
        f"<figure><figcaption>{escape(chart.title)}</figcaption>"
        f'<div class="wide">{wide}</div><div class="narrow">{narrow}</div>{below}</figure>'
    )


def beside(section: Section) -> tuple[list[Finding], list[list[Finding]]]:
    """Findings of the whole section, and those of each of its charts: the chart that names most of what they are
    about, and no other target."""
    charts = section.charts
    own: list[list[Finding]] = [[] for _ in charts]
    whole: list[Finding] = []
    for finding in section.findings:
        fits = [_fit(chart.title, finding.about) for chart in charts]
        if len(charts) == 1 or max(fits, default=0):
            own[fits.index(max(fits))].append(finding)
        else:
            whole.append(finding)
    return whole, own


def _fit(title: str, about: str) -> int:
    """How many parts of what a finding is about the title of a chart names; none where it is of something else."""
    model, *parts = re.split(r" on |, (?![^(]*\))", about)
    target, other = about.partition(" on ")[2], title.partition(" on ")[2]
    elsewhere = target and ":" in other.partition(" ")[0] and not names(other, target)
    return 0 if elsewhere or not names(title, model) else 1 + sum(names(title, part) for part in parts)
