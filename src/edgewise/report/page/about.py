"""The end of a page: what did not run, what is not there, where and how it was measured."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from ...analyze.evidence import Evidence
from ...core.types import Column, Failure, Machine, Scenario
from .. import format, tables
from ..content import Missing
from ..svg.paper import escape
from .parts import Data, table

_METHOD = (
    "Each ran in a process of its own, so that one engine cannot disturb the next, until its minima were met and its "
    "interval was narrow enough, or to its maximum. No run is left out as an outlier: what is odd is said beside the "
    "figure. Intervals are of the median, at 95 % confidence, and allow for runs that depend on each other; a "
    "percentile is shown only where there are runs enough to carry it. Targets share a rank where their intervals "
    "overlap. Outputs are compared with those of ONNX Runtime on one thread with its optimizations turned off; a "
    "target that answers wrongly has no rank. Of several results of one target the newest counts, and one measured "
    "alone before one from a race."
)


def failures(found: Sequence[Failure], evidence: Evidence) -> str:
    """One line per reason, with all the targets it stopped."""
    groups: dict[tuple[str, ...], list[Failure]] = defaultdict(list)
    several = len({failure.machine for failure in found}) > 1
    for each in found:
        where = evidence.machines[each.machine].label if several and each.machine in evidence.machines else ""
        groups[each.label, where, each.stage, each.message, each.hint or ""].append(each)
    lines = []
    for (label, where, stage, message, hint), same in groups.items():
        targets = dict.fromkeys(f"{each.task.placement}, {each.task.scenario}" for each in same)
        names = "".join(f"<code>{escape(target)}</code> " for target in targets)
        advice = f'<div class="remedy">→ {escape(hint)}</div>' if hint else ""
        place = f" ({escape(where)})" if where else ""
        lines.append(
            f'<li class="problem"><span class="mark">✗</span><div><b>{escape(label)}</b>{place} on {names}<br>'
            f"{escape(message)} <i>({escape(stage)})</i>{advice}</div></li>"
        )
    return f'<ul class="findings failed">{"".join(lines)}</ul>'


def missing(found: Sequence[Missing]) -> str:
    lines = []
    for each in found:
        command = f'<div class="remedy"><code>{escape(each.command)}</code></div>' if each.command else ""
        lines.append(f"<li><b>{escape(each.title)}</b>: {escape(each.reason)}{command}</li>")
    return f'<ul class="missing">{"".join(lines)}</ul>'


def environment(evidence: Evidence, wholes: Mapping[str, str], data: Data) -> str:
    used = {m.machine for m in evidence.measurements} | {e.machine for e in evidence.evaluations}
    used |= {p.machine for p in evidence.profiles} | {s.machine for s in evidence.supports}
    machines = [machine for id, machine in evidence.machines.items() if id in used] or list(evidence.machines.values())
    cards = "".join(_machine(machine) for machine in machines)
    rows = sorted(
        {
            (_label(evidence, each.machine), name, version)
            for group in (evidence.measurements, evidence.evaluations, evidence.profiles, evidence.supports)
            for each in group
            for name, version in each.versions
        }
    )
    versions = tables.Table("versions", (Column("machine"), Column("library"), Column("version")), tuple(rows))
    meters = sorted(
        {(_label(evidence, m.machine), e.source, e.covers) for m in evidence.measurements for e in m.energies}
    )
    metered = tables.Table("meters", (Column("machine"), Column("meter"), Column("covers")), tuple(meters))
    energy = table(metered, data) or "<p>Energy: no meter was read.</p>"
    # A machine's card already says both.
    labels = {machine.label for machine in evidence.machines.values()}
    brief = tuple((name, whole) for name, whole in wholes.items() if whole not in labels)
    names = tables.Table("names", (Column("short"), Column("in full")), brief)
    named = f"<h3>Short names</h3>{table(names, data)}" if brief else ""
    libraries = f"<h3>Libraries</h3>{table(versions, data)}"
    return f'<div class="cards">{cards}</div>{libraries}<h3>Meters</h3>{energy}{named}'


def _label(evidence: Evidence, machine: str) -> str:
    return evidence.machines[machine].label if machine in evidence.machines else machine


def _machine(machine: Machine) -> str:
    caches = {(cache.level, cache.kind, cache.size_bytes) for cache in machine.caches}
    facts = {
        "processor": machine.cpu,
        "cores": ", ".join(_cluster(c.name, len(c.cores), c.max_hz) for c in machine.clusters),
        "instructions": " ".join(machine.isa),
        "caches": ", ".join(f"L{level} {kind} {format.size(size)}" for level, kind, size in sorted(caches)),
        "memory": format.cell(machine.memory_bytes, "bytes"),
        "accelerators": ", ".join(accelerator.label for accelerator in machine.accelerators),
        "system": machine.system + (" (virtual machine)" if machine.virtual else ""),
        "governor": machine.governor or format.MISSING,
    }
    lines = "".join(f"<dt>{name}</dt><dd>{escape(text)}</dd>" for name, text in facts.items() if text)
    return f'<div class="card"><h3>{escape(machine.label)}</h3><dl>{lines}</dl></div>'


def _cluster(name: str, cores: int, max_hz: int | None) -> str:
    return f"{cores} × {name}" + (f" up to {format.frequency(max_hz)}" if max_hz else "")


def method(evidence: Evidence) -> str:
    scenarios = dict.fromkeys(m.task.scenario for m in evidence.measurements)
    lines = "".join(f"<li><code>{escape(str(each))}</code>: {escape(_rules(each))}</li>" for each in scenarios)
    runs = sum(len(m.samples_ns) for m in evidence.measurements)
    counts = (
        f"{format.cell(len(evidence.measurements), 'count')} measurements, {format.cell(runs, 'count')} timed runs."
    )
    told = f"<h3>Scenarios</h3><ul>{lines}</ul>" if lines else ""
    return f"<p>{counts} {_METHOD}</p>{told}"


def _rules(scenario: Scenario) -> str:
    warm = "warm-up until steady" if scenario.warmup is None else f"{scenario.warmup} warm-up runs"
    most = f"{scenario.max_s:g} s" + (f" or {scenario.max_runs} runs" if scenario.max_runs else "")
    width = f", until the interval is {format.percent(scenario.width)} wide" if scenario.width else ""
    parts = [f"batch {scenario.batch}", warm]
    if scenario.n > 1:
        parts.append(f"{scenario.n} at once")
    if scenario.rate_hz:
        parts.append(f"{scenario.rate_hz:g} requests a second, timed from when each was due")
    parts.append(f"at least {scenario.min_runs} runs and {scenario.min_s:g} s, at most {most}{width}")
    if scenario.cooldown_s:
        parts.append(f"{scenario.cooldown_s:g} s to cool down before")
    if scenario.contention:
        parts.append(f"beside {scenario.contention}")
    return "; ".join(parts)
