"""What `edgewise study` says: before it begins, and of what came of it."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..core.types import Machine, Model, Result, Scenario, Section
    from ..study.schedule import Course, Wanted
    from ..study.study import Study


def short(cells: Sequence[Wanted]) -> Callable[[Scenario], str]:
    """How loads are called in what is drawn: without what the protocol says of all of them."""
    from ..report.names import loads

    names = loads(cell.scenario for cell in cells)
    return lambda load: names.get(str(load), str(load))


def announce(asked: Study, cells: Sequence[Wanted], course: Course) -> None:
    """What is about to happen, and how long it may take."""
    from ..report.format import duration
    from ..study.schedule import outline

    models = len({cell.model.digest for cell in cells})
    todo = [cell for cell in cells if not cell.known]
    of = f"{len(cells)} cells of {models} {'model' if models == 1 else 'models'}"
    stored = f", {len(cells) - len(todo)} of them in the store already" if len(todo) < len(cells) else ""
    print(f"{asked.name}: {of} by the protocol {asked.protocol.name}{stored}", file=sys.stderr)
    if todo:
        least, most = course.all_s(cells)
        bounds = f"the protocol allows {duration(least)} to {duration(most)}"
        print(f"perhaps {duration(course.about_s(cells))}; {bounds}", file=sys.stderr)
    covered = course.within(cells)
    if course.budget_s is not None and covered < len(cells):
        left = outline(cells[covered:], models)
        print(f"a budget of {duration(course.budget_s)} may leave out: {left}", file=sys.stderr)


def dry_run(asked: Study, cells: Sequence[Wanted], course: Course, json_: bool) -> int:
    from ..core.records import dumps
    from ..core.types import Column, Section
    from ..report import terminal

    within, named = course.within(cells), short(cells)
    columns = [Column("model"), Column("scenario"), Column("target"), Column("state"), Column("about", "ns")]
    rows = []
    for number, cell in enumerate(cells):
        state = "in the store" if cell.known else "to measure" if number < within else "beyond the budget"
        about = None if cell.known else course.cell_s(cell) * 1e9
        rows.append((cell.model.label, named(cell.scenario), str(cell.placement), state, about))
    section = Section("Cells", tuple(columns), tuple(rows))
    if json_:
        least, most = course.all_s(cells)
        print(
            dumps(
                {"study": asked.name, "protocol": asked.protocol, "least_s": least, "most_s": most}
                | {"about_s": course.about_s(cells), "section": section}
            )
        )
    else:
        terminal.draw(section, terminal.console(sys.stdout), keep=("model", "target", "state"))
    return 0


def summary(asked: Study, machine: Machine, results: Sequence[Result]) -> Section:
    """The ranking, with the figure that the protocol reports among those shown."""
    from ..analyze import summary
    from ..analyze.evidence import Evidence
    from ..core.types import Measurement
    from ..study.protocol import REPORTS

    measured = tuple(result for result in results if isinstance(result, Measurement))
    found = summary.run(Evidence(machines={machine.id: machine}, measurements=measured))
    reported = REPORTS[asked.protocol.report]
    return replace(found, columns=tuple(replace(c, spare=0) if c.name == reported else c for c in found.columns))


def draw(
    asked: Study,
    machine: Machine,
    section: Section,
    results: Sequence[Result],
    models: Sequence[Model],
    named: Callable[[Scenario], str],
) -> None:
    from ..analyze.summary import brief
    from ..core.text import parse_scenario
    from ..core.types import Failure
    from ..report import terminal
    from ..study.protocol import REPORTS

    out = terminal.console(sys.stdout)
    out.print(f"{asked.name}: {', '.join(model.label for model in models)} on {machine.label}", markup=False)
    column = REPORTS[asked.protocol.report].replace("_", " ")
    out.print(
        f"The protocol {asked.protocol.name} reports the {asked.protocol.report}: column {column}\n", markup=False
    )
    names = {str(result.task.scenario): named(result.task.scenario) for result in results}
    rows = tuple(tuple(names.get(v, v) if isinstance(v, str) else v for v in row) for row in section.rows)
    findings = tuple(replace(f, about=_renamed(f.about, names)) for f in section.findings)
    terminal.draw(brief(replace(section, rows=rows, findings=findings)), out, keep=("target",))
    failures = [result for result in results if isinstance(result, Failure)]
    loads = {text: parse_scenario(name) for text, name in names.items()}
    terminal.draw_failures(
        [replace(f, task=replace(f.task, scenario=loads[str(f.task.scenario)])) for f in failures], out
    )


def _renamed(about: str, names: Mapping[str, str]) -> str:
    for text, name in names.items():
        about = about.replace(text, name)
    return about


def listed(cells: Sequence[Wanted]) -> list[dict[str, str]]:
    return [{"model": c.model.label, "target": str(c.placement), "scenario": str(c.scenario)} for c in cells]


def left_out(asked: Study, left: Sequence[Wanted], late: Sequence[str], cells: int, budget_s: float | None) -> str:
    from ..report.format import duration
    from ..study.schedule import outline

    said = [f"{len(left)} of {cells} cells: {outline(left, len(asked.models))}"] if left else []
    said += [", ".join(late) if len(late) < 3 else f"{late[0]} and {len(late) - 1} more findings"] if late else []
    spent = f"within {duration(budget_s)}" if budget_s else "in the end"
    return f"not finished {spent}: {'; '.join(said)} → {command()}"


def command() -> str:
    """What was typed, to be typed again: it goes on where it stopped."""
    return shlex.join(["edgewise", *(argument for argument in sys.argv[1:] if argument != "--again")])


def close(cautions: Sequence[str], results: int, known: int, path: str) -> None:
    from rich.markup import escape

    from ..report import terminal

    out = terminal.console(sys.stdout)
    if cautions:
        out.print()
    for caution in cautions:
        out.print(f"[bold yellow]![/bold yellow] {escape(caution)}")
    out.print(
        f"\n{results} {'result' if results == 1 else 'results'}, {known} of them from the store {path}",
        style="dim",
        markup=False,
    )
    if results:
        out.print(f"Next: edgewise report {shlex.quote(path)} -o report.html", markup=False)


def exit_code(results: Sequence[Result]) -> int:
    """That of the first failure where nothing else came of it: one cell that fails is a result like any other."""
    from ..core.errors import BY_NAME
    from ..core.types import Failure

    failures = [result for result in results if isinstance(result, Failure)]
    return BY_NAME[failures[0].error].exit_code if failures and len(failures) == len(results) else 0
