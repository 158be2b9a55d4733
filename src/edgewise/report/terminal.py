"""Sections on a terminal: tables that show what varies, findings below them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Literal, TextIO

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from ..core.types import Failure, Finding, Section
from . import format
from .sentences import remedy, sentence

_MARKS = {"note": ("•", "cyan"), "caution": ("!", "yellow"), "problem": ("✗", "red")}
# Said about the whole table, not about one row of it.
_VERDICTS = (
    *("certified", "refuted", "undecided"),
    *("knee", "no_gain", "still_growing", "out_of_memory", "out_of_time", "size_exponent"),
    *("step_brought", "step_brought_nothing"),
    *("way_wins", "way_alone"),
)
_LEVELS = ("problem", "caution", "note")
_HEADLINES = (
    "fastest",
    "most",
    "tie",
    "faster",
    "no_difference",
    "too_few_starts",
    "accuracy_differs",
    "accuracy_alike",
    "no_winner",
    "race_won",
    "race_tied",
    "race_baseline",
    "race_no_better",
    "race_runner_up",
    "recommended",
    "ranked",
    "bound_by",
    "mix_better",
    "mix_level",
    "mix_alone",
    "mix_once",
    "chooser_cheaper",
    "chooser_alone",
    "method_cheapest",
    "method_none",
)
# Headlines that there is one of for each model, machine or load: they say which where there are several.
_OF_A_GROUP = ("fastest", "most", "tie", "recommended", "ranked", "bound_by")


def console(file: TextIO) -> Console:
    # A file or a pipe has no width: whoever reads it can scroll.
    return Console(file=file, highlight=False, width=None if file.isatty() else 1000)


def draw(section: Section, to: Console, keep: Sequence[str] = ()) -> None:
    """The table without columns that say the same in every row (but for `keep`), then what there is to say."""
    shown = [
        index
        for index, column in enumerate(section.columns)
        if (column.name in keep or column.unit != "text" or len({row[index] for row in section.rows}) > 1)
        and any(row[index] is not None for row in section.rows)
    ]
    table = _table(section, shown)
    while Measurement.get(to, to.options.update(width=10_000), table).maximum > to.width:
        spare = max(shown, key=lambda index: section.columns[index].spare)
        if not section.columns[spare].spare:
            break
        shown.remove(spare)
        table = _table(section, shown)
    if section.rows:
        to.print(table)
    draw_findings(section.findings, to)


def _table(section: Section, shown: Sequence[int]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for index in shown:
        column = section.columns[index]
        justify: Literal["left", "right"] = "left" if column.unit == "text" else "right"
        table.add_column(column.name.replace("_", " "), justify=justify, no_wrap=column.unit != "text")
    for row in section.rows:
        # As Text: what a library says may contain brackets, which are not ours to interpret.
        table.add_row(*(Text(format.cell(row[i], section.columns[i].unit)) for i in shown))
    return table


def draw_findings(findings: Sequence[Finding], to: Console) -> None:
    headlines = [f for f in findings if f.code in _HEADLINES]
    if headlines:
        to.print()
    groups = {finding.about for finding in headlines if finding.code in _OF_A_GROUP}
    for finding in headlines:
        to.print(_line(finding, f"{finding.about}: " if len(groups) > 1 else ""))
    # One line for each thing there is to say; the rest is in --json.
    grouped: dict[tuple[str, str, str], list[Finding]] = defaultdict(list)
    for finding in findings:
        if finding.code not in _HEADLINES:
            # A verdict is about its own result; everything else is told once, of the result it holds most for.
            own = finding.about if finding.code in _VERDICTS else ""
            grouped[finding.code, finding.level, own].append(finding)
    if grouped:
        to.print()
    for same in sorted(grouped.values(), key=lambda group: _LEVELS.index(group[0].level)):
        worst = max(same, key=_size)
        about = worst.about.partition(" on ")[2] or worst.about
        more = f" and {len(same) - 1} more" if len(same) > 1 else ""
        to.print(_line(worst, f"{about}{more}: "))


def _size(finding: Finding) -> float:
    """How much there is of what a finding tells, by its first number."""
    return next((abs(value) for _, value in finding.values if isinstance(value, (int, float))), 0.0)


def _line(finding: Finding, about: str) -> Text:
    mark, colour = _MARKS[finding.level]
    text = Text.assemble((f"{mark} ", f"bold {colour}"), about, sentence(finding))
    advice = remedy(finding)
    if advice:
        text.append(f" → {advice}", style="dim")
    return text


def draw_failures(failures: Sequence[Failure], to: Console) -> None:
    """One line per reason, with all the targets it stopped."""
    if not failures:
        return
    to.print("\n[bold]Did not run[/bold]")
    scenarios = {str(failure.task.scenario) for failure in failures}
    grouped: dict[tuple[str, ...], list[Failure]] = defaultdict(list)
    for failure in failures:
        scenario = f", {failure.task.scenario}" if len(scenarios) > 1 else ""
        grouped[failure.label, scenario, failure.stage, failure.message, failure.hint or ""].append(failure)
    for (label, scenario, stage, message, hint), same in grouped.items():
        targets = ", ".join(str(failure.task.placement) for failure in same)
        line = Text.assemble(("✗ ", "bold red"), (f"{label} on {targets}{scenario}", "bold"), f": {message} ({stage})")
        if hint:
            line.append(f" → {hint}", style="dim")
        to.print(line)
