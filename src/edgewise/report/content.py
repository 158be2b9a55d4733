"""What a report holds: every analysis that has something to draw, and what is missing for the others."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from ..analyze.evidence import Evidence
from ..core import registry
from ..core.errors import EdgewiseError
from ..core.types import Failure, Finding, Section
from .sentences import remedy, sentence

# From the root of a disk on, inside a folder. What follows a colon or a word is a unit, a fraction or an address.
_PATH = re.compile(r"(?<![\w.~/:…])(?:[A-Za-z]:)?[/\\](?:[\w.+@~ -]*[\w.+@~-][/\\])+([\w.+@~-]*)")
# Which findings of which analysis answer what a report is asked for; the first of these that has any.
_ANSWERS = {
    "recommend": ("recommended",),
    "ranking": ("ranked",),
    "summary": ("fastest", "most", "tie"),
}


@dataclass(frozen=True, slots=True)
class Drawn:
    """A section, and the analysis it comes from."""

    analysis: str
    section: Section


@dataclass(frozen=True, slots=True)
class Missing:
    """An analysis that is not in the report: why, and the command that adds it."""

    title: str
    reason: str
    command: str | None


@dataclass(frozen=True, slots=True)
class Report:
    title: str
    created: str
    evidence: Evidence
    drawn: tuple[Drawn, ...]
    missing: tuple[Missing, ...]
    headlines: tuple[Finding, ...] = field(default=())
    stores: tuple[str, ...] = field(default=())


def compose(evidence: Evidence, title: str | None = None, stores: Sequence[str] = ()) -> Report:
    """Ask every analysis that has a place. One that cannot answer is listed with its reason; its neighbours stay."""
    evidence = replace(evidence, failures=tuple(map(_told, evidence.failures)))
    drawn: list[Drawn] = []
    missing: list[Missing] = []
    found = [(name, registry.find("analyze", name, "analysis")) for name in registry.names("analyze")]
    placed = [(module.PLACE, name, module) for name, module in found if hasattr(module, "PLACE")]
    for _, name, module in sorted(placed, key=lambda each: each[:2]):
        try:
            section = module.run(evidence)
        except EdgewiseError as error:
            missing.append(Missing(name, f"could not be drawn: {error.message}", error.hint))
            continue
        absent = next((f for f in section.findings if f.code == "absent"), None)
        if absent and not section.rows and not section.charts:
            missing.append(Missing(section.title, sentence(absent), remedy(absent)))
        else:
            rows = tuple(tuple(pathless(v) if isinstance(v, str) else v for v in row) for row in section.rows)
            drawn.append(Drawn(name, replace(section, rows=rows, findings=tuple(map(_said, section.findings)))))
    if evidence.unfinished:
        missing.append(_unfinished(evidence.unfinished))
    created = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    headlines = answers(drawn)
    return Report(title or _title(evidence), created, evidence, tuple(drawn), tuple(missing), headlines, tuple(stores))


def pathless(text: str) -> str:
    """Without where files lay on the machine: a report goes to others. Of a path its last part is left."""
    return _PATH.sub(lambda found: f"…/{found[1]}" if found[1] else "…", text)


def _told(failure: Failure) -> Failure:
    """What a library printed is in the store; it is full of paths, and no part of a report."""
    hint = pathless(failure.hint) if failure.hint else failure.hint
    return replace(failure, message=pathless(failure.message), hint=hint, stderr="")


def _said(finding: Finding) -> Finding:
    values = tuple((name, pathless(value) if isinstance(value, str) else value) for name, value in finding.values)
    return replace(finding, values=values)


def _unfinished(names: Sequence[str]) -> Missing:
    """What was begun is no result yet: a third of the runs in one process of three is another measurement."""
    shown = "; ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    title = "1 unfinished" if len(names) == 1 else f"{len(names)} unfinished"
    why = f"a budget or an interruption ended it, or it is being measured: {shown}"
    return Missing(title, why, "the same command again: study goes on by itself, bench and scale with --resume")


def answers(drawn: Sequence[Drawn]) -> tuple[Finding, ...]:
    """What a reader wants to know first."""
    by_name = {each.analysis: each.section for each in drawn}
    for name, codes in _ANSWERS.items():
        chosen = [f for f in by_name[name].findings if f.code in codes] if name in by_name else []
        if chosen:
            return tuple(_first(chosen))
    return ()


def _first(findings: Sequence[Finding]) -> list[Finding]:
    """All of them where they are about one or two things; else the first about each."""
    subjects = dict.fromkeys(finding.about for finding in findings)
    if len(subjects) <= 2:
        return list(findings)
    return [next(f for f in findings if f.about == about) for about in subjects]


def _title(evidence: Evidence) -> str:
    labels = list(dict.fromkeys([m.label for m in evidence.measurements] + [e.label for e in evidence.evaluations]))
    machines = {m.machine for m in evidence.measurements} | {e.machine for e in evidence.evaluations}
    names = [evidence.machines[id].label for id in machines if id in evidence.machines]
    what = ", ".join(labels) if 0 < len(labels) <= 3 else f"{len(labels)} models" if labels else "Results"
    where = names[0].partition(" (")[0] if len(names) == 1 else f"{len(names)} machines" if names else ""
    return f"{what} on {where}" if where else what
