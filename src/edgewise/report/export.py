"""A report as a file, or as a folder of them: written beside and renamed, so that nobody finds half of one."""

from __future__ import annotations

import csv
import io
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from ..core.errors import InputError
from ..core.records import dumps
from ..core.types import Finding
from . import svg, tables
from .content import Report
from .names import shortened
from .page import page
from .page.parts import grouped, slug
from .sentences import remedy, sentence

FORMATS = ("html", "md", "json", "csv", "svg")
FOLDERS = ("csv", "svg")
_SUFFIXES = {".html": "html", ".htm": "html", ".md": "md", ".json": "json", ".csv": "csv", ".svg": "svg"}
_OURS = re.compile(r"\d\d-[a-z0-9-]+\.(csv|svg)")


def chosen(output: str | None, asked: str | None) -> str:
    """The format: as asked, or by the end of the file's name."""
    if asked is not None:
        if asked not in FORMATS:
            raise InputError(f"unknown format {asked!r}; known: {', '.join(FORMATS)}", "edgewise report --format html")
        return asked
    if output is None:
        return "html"
    found = _SUFFIXES.get(Path(output).suffix.lower())
    if found is None:
        raise InputError(
            f"{output} does not say what to write: expected a name that ends in {', '.join(_SUFFIXES)}, or --format",
            f"edgewise report -o {Path(output).stem or 'report'}.html",
        )
    return found


def text(report: Report, kind: str) -> str:
    match kind:
        case "html":
            return page(report)
        case "md":
            return markdown(report)
        case _:
            return as_json(report)


def write(report: Report, output: str, kind: str) -> list[str]:
    """The files that were written, all of them or none."""
    target = Path(output)
    try:
        if kind in FOLDERS:
            return _write_folder(target, dict(_files(report, kind)))
        content = text(report, kind)
        if target.is_dir():
            raise InputError(
                f"{output} is a folder; expected the name of a file", f"edgewise report -o {output}/r.html"
            )
        if target.exists() and not target.is_file():
            # A pipe or a terminal: a file put in its place would reach nobody.
            target.write_text(content, encoding="utf-8", newline="\n")
            return [str(target)]
        part = target.with_name(f".{target.name}.{os.getpid()}.part")
        try:
            part.write_text(content, encoding="utf-8", newline="\n")
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise InputError(f"{output} cannot be written: {error.strerror}", "name another file with -o") from None
    return [str(target)]


def _write_folder(target: Path, files: Mapping[str, str]) -> list[str]:
    """A folder of an earlier report is replaced; anything else in the way is left alone."""
    if target.exists() and not target.is_dir():
        raise InputError(f"{target} is a file; expected the name of a folder", f"edgewise report -o {target}-files")
    if target.is_dir():
        foreign = sorted(entry.name for entry in target.iterdir() if not _OURS.fullmatch(entry.name))
        if foreign:
            raise InputError(f"{target} has other files in it, such as {foreign[0]}", "name a new folder with -o")
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    old = target.with_name(f".{target.name}.{os.getpid()}.old")
    try:
        part.mkdir(parents=True)
        for name, content in files.items():
            (part / name).write_text(content, encoding="utf-8", newline="")
        if target.is_dir():
            target.rename(old)
        part.rename(target)
    except OSError:
        if old.is_dir() and not target.exists():
            old.rename(target)
        raise
    finally:
        shutil.rmtree(part, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)
    return [str(target / name) for name in files]


def _files(report: Report, kind: str) -> Iterator[tuple[str, str]]:
    """One for each table and chart, numbered in the order of the report. A drawing is for people, so its names are
    short; a table is for programs, and has them whole."""
    if kind == "svg":
        report, _ = shortened(report)
    for number, drawn in enumerate(report.drawn, 1):
        section = drawn.section
        stem = f"{number:02d}-{slug(section.title)}"
        if kind == "csv" and section.rows:
            yield f"{stem}.csv", _csv(tables.of_section(section))
        for place, chart in enumerate(section.charts, 1):
            name = f"{stem}-{place}-{slug(chart.title)}.{kind}"
            yield name, svg.draw(chart, alone=True) if kind == "svg" else _csv(tables.of_chart(chart))


def _csv(table: tables.Table) -> str:
    out = io.StringIO()
    heads, rows = table.flat()
    csv.writer(out).writerows([heads, *rows])
    return out.getvalue()


def as_json(report: Report) -> str:
    """Sections as they are: raw values, findings with their sentences beside them."""
    sections = []
    for drawn in report.drawn:
        section = drawn.section
        told = [{"finding": f, "sentence": sentence(f), "remedy": remedy(f)} for f in section.findings]
        raw = {"title": section.title, "columns": section.columns, "rows": section.rows, "charts": section.charts}
        sections.append({"analysis": drawn.analysis, **raw, "findings": told})
    return dumps(
        {
            "title": report.title,
            "created": report.created,
            "machines": tuple(report.evidence.machines.values()),
            "sections": sections,
            "missing": report.missing,
            "failures": report.evidence.failures,
        }
    )


def markdown(report: Report) -> str:
    report, _ = shortened(report)
    lines = [f"# {_plain(report.title)}", ""]
    lines += [f"{_plain(machine.label)}, {_plain(machine.system)}  " for machine in report.evidence.machines.values()]
    lines += [f"{report.created}", ""]
    for finding in report.headlines:
        lines.append(f"- {_plain(finding.about)}: {_plain(sentence(finding))}{_advice(finding)}")
    for drawn in report.drawn:
        section = drawn.section
        lines += ["", f"## {_plain(section.title)}", ""]
        for same in grouped(f for f in section.findings if f not in report.headlines):
            worst, more = same[0], f" (and {len(same) - 1} more)" if len(same) > 1 else ""
            said = f"{_plain(worst.about)}{more}: {_plain(sentence(worst))}{_advice(worst)}"
            lines.append(f"- **{worst.level}** {said}")
        shown = [tables.of_section(section)] if section.rows else [tables.of_chart(chart) for chart in section.charts]
        for table in shown:
            lines += ["", *_pipes(table)]
    if report.evidence.failures:
        lines += ["", "## Did not run", ""]
        for failure in report.evidence.failures:
            what = f"{_plain(failure.label)} on `{failure.task.placement}`, {failure.task.scenario}"
            lines.append(f"- {what}: {_plain(failure.message)} ({failure.stage})")
    if report.missing:
        lines += ["", "## Not in this report", ""]
        for each in report.missing:
            command = f": `{each.command}`" if each.command else ""
            lines.append(f"- {_plain(each.title)}: {_plain(each.reason)}{command}")
    return "\n".join(lines) + "\n"


def _advice(finding: Finding) -> str:
    advice = remedy(finding)
    return f" → {_plain(advice)}" if advice else ""


def _pipes(table: tables.Table) -> list[str]:
    same = tables.constants(table)
    shown = [i for i in range(len(table.columns)) if i not in same]
    heads = [_plain(table.columns[i].name.replace("_", " ")) for i in shown]
    rules = ["---" if table.columns[i].unit == "text" else "---:" for i in shown]
    rows = [[_plain(table.text(row, i)) for i in shown] for row in table.rows]
    fixed = [f"{_plain(table.columns[i].name)}: {_plain(value)}" for i, value in same.items() if value]
    lines = [f"{', '.join(fixed)}", ""] if fixed else []
    return lines + [f"| {' | '.join(cells)} |" for cells in (heads, rules, *rows)]


def _plain(value: str) -> str:
    """Text that stays text in Markdown, on one line."""
    return re.sub(r"([\\`*_<>|\[\]])", r"\\\1", " ".join(value.split()))
