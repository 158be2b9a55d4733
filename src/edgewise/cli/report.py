"""`edgewise report`: everything stores hold, drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

if TYPE_CHECKING:
    from ..report.content import Report


# As many lines of answers fit on a terminal.
_MOST = 6


def run(
    stores: Annotated[tuple[str, ...], "stores, of one machine or several (default: your own)"] = (),
    *,
    output: Annotated[str | None, "the file to write, by its end .html, .md or .json; a folder for csv and svg"] = None,
    format: Annotated[str | None, "html, md, json, csv or svg (default: by the end of -o)"] = None,
    title: Annotated[str | None, "the title (default: what was measured and where)"] = None,
    json_: Annotated[bool, "the sections as JSON on stdout"] = False,
) -> None:
    """Draw what stores hold as one page that needs nothing else: findings, charts, tables, environment and method.

    md and json go to stdout without -o; csv and svg are folders, a file for each table or chart.
    """
    from ..report import export
    from ..report.content import compose
    from ..study import home
    from ..study.evidence import gather

    kind = "json" if json_ and output is None and format is None else export.chosen(output, format)
    paths = stores or (str(home.default_store()),)
    report = compose(gather(paths), title, paths)
    if json_:
        print(export.as_json(report))
        if output is None:
            return
    elif output is None and kind in ("md", "json"):
        print(export.text(report, kind), end="" if kind == "md" else "\n")
        return
    written = export.write(report, output or f"report{'-' if kind in export.FOLDERS else '.'}{kind}", kind)
    if not json_:
        _recommended(report)
        _said(written, len(report.drawn), sum(len(d.section.charts) for d in report.drawn), len(report.missing))


def _recommended(report: Report) -> None:
    """What most people open a report for: what stands at its top."""
    import sys

    from ..report import terminal
    from ..report.names import shortened

    out, told = terminal.console(sys.stdout), shortened(report)[0].headlines
    terminal.draw_findings(told[:_MOST], out)
    if len(told) > _MOST:
        out.print(f"… and {len(told) - _MOST} more in the report", style="dim")
    out.print()


def _said(written: list[str], sections: int, charts: int, missing: int) -> None:
    from pathlib import Path

    from ..report.format import size

    total = size(sum(Path(path).stat().st_size for path in written))
    where = written[0] if len(written) == 1 else f"{len(written)} files in {Path(written[0]).parent}"
    left_out = f"; {missing} left out for want of data: the report says which command adds them" if missing else ""
    print(f"Wrote {where} ({total}): {sections} sections, {charts} charts{left_out}")
