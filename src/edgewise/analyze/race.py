"""A race as a table: who won and how surely, who went home when and why, what was not tried."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ..core.chart import Axis, Chart, Series
from ..core.chooser import Choosing
from ..core.plan import Plan
from ..core.race import Beside, Entry, Race
from ..core.types import Column, Finding, Machine, Measurement, Scalar, Section, Task
from . import trust
from ._figures import machine_label
from .evidence import Evidence, absent

COLUMNS = (
    Column("model"),
    Column("scenario"),
    Column("target"),
    Column("result"),
    Column("vs_best", "ratio"),
    Column("interval", "ratio_range"),
    Column("p50_in_turns", "ns", 3),
    Column("per_s", "rate", 6),
    Column("starts", "count", 4),
    Column("memory", "bytes", 2),
    Column("energy", "uj", 1),
    Column("error", "error", 4),
    Column("top1", "accuracy", 1),
    Column("difference", "points", 1),
    Column("difference_interval", "points_range", 5),
)
# What taking turns takes care of, or what a short turn cannot say.
_OF_ONE_SIDE = ("wide_interval", "drifting", "never_steady", "several_modes")
_WORDS = {
    "wrong": "wrong answers",
    "memory": "too much memory",
    "late": "too slow too often",
    "undecided": "percentile undecided",
    "inaccurate": "loses too much",
}


PLACE = 15
TITLE = "Race"
_MOST_CHARTS = 8


def run(evidence: Evidence) -> Section:
    """Every race there is evidence of, one below the other."""
    if not evidence.races:
        return absent(TITLE, "nobody raced for the best target", "edgewise tune MODEL --save lab.db")
    rows: list[tuple[object, ...]] = []
    findings: list[Finding] = []
    for race in evidence.races:
        section = raced(race)
        rows += [(machine_label(evidence, race.machine), *row) for row in section.rows]
        findings += section.findings
    charts = tuple(_chart(race) for race in evidence.races[:_MOST_CHARTS])
    return Section(TITLE, (Column("machine"), *COLUMNS), tuple(rows), tuple(findings), charts)


def _chart(race: Race) -> Chart:
    """From the race's own turns: what each costs over the winner."""
    told = [entry for entry in race.entries if entry.ratio]
    ratios = [entry.ratio for entry in told if entry.ratio]
    series = Series(
        "cost over the winner's",
        tuple(_name(entry) for entry in told),
        tuple(ratio[1] for ratio in ratios),
        tuple(ratio[0] for ratio in ratios),
        tuple(ratio[2] for ratio in ratios),
    )
    return Chart("bar", f"{race.label}: beside the winner", Axis("target"), Axis("times the cost", "ratio"), (series,))


def raced(race: Race, final: Sequence[Measurement] = ()) -> Section:
    """`final` are the measurements of the fresh processes, for what they have to say against themselves."""
    rows = tuple(_cells(entry, race.wanted.prefer) for entry in race.entries if entry.starts)
    findings = [*_headline(race), *_bounds(race), *_precision(race), *_notes(race)]
    findings += [found for m in final[:1] for found in trust.findings(m) if found.code not in _OF_ONE_SIDE]
    return Section(TITLE, COLUMNS, rows, tuple(findings))


def _cells(entry: Entry, prefer: str) -> tuple[object, ...]:
    ratio, loss = entry.ratio, entry.loss
    result = _WORDS.get(entry.status, entry.status)
    if entry.heat is not None and entry.status != "won":
        result += f", heat {entry.heat}"
    return (
        entry.label,
        str(entry.task.scenario),
        str(entry.task.placement),
        result,
        ratio[1] if ratio else None,
        (ratio[0], ratio[2]) if ratio and entry.status != "won" else None,
        entry.p50_ns,
        entry.per_s if prefer == "throughput" else None,
        entry.starts,
        entry.peak_bytes,
        entry.energy_uj,
        entry.error,
        loss.top1 if loss else None,
        loss.difference if loss else None,
        (loss.low, loss.high) if loss else None,
    )


def _headline(race: Race) -> Iterator[Finding]:
    winner = race.winner
    if winner is None:
        reasons = dict.fromkeys(_WORDS.get(entry.status, entry.status) for entry in race.entries)
        yield Finding("no_winner", "problem", race.label, (("reasons", ", ".join(reasons)),))
        return
    target = _name(winner)
    low, estimate, high = race.p50_ns or (None, winner.p50_ns, None)
    values: tuple[tuple[str, Scalar], ...] = (
        ("target", target),
        ("p50_ns", estimate),
        ("low_ns", low),
        ("high_ns", high),
        ("others", sum(entry.status not in ("won", "tied") for entry in race.entries)),
        ("error_rate", race.error_rate),
        ("gain", race.gain),
        ("prefer", race.wanted.prefer),
    )
    ties = [_name(entry) for entry in race.entries if entry.status == "tied"]
    if ties:
        yield Finding("race_tied", "note", target, (*values, ("ties", ", ".join(ties))))
    else:
        yield Finding("race_won", "note", target, values)
    by_role = {role: each for each in race.final for role in each.roles if each.ratio is not None}
    prefer = ("prefer", race.wanted.prefer)
    baseline, second = by_role.get("baseline"), by_role.get("runner-up")
    # Others are as they were asked for: --against.
    installed = ("installed", baseline is not None and baseline.task.placement.targets[0].engine == "ort")
    if baseline is not None and baseline.task == winner.task:
        yield Finding("race_no_better", "note", target, (("target", target), installed))
    elif baseline is not None:
        both = ("both", second is not None and second.task == baseline.task)
        yield Finding("race_baseline", "note", target, (*_ratio(baseline), prefer, both, installed))
    if second is not None and (baseline is None or second.task != baseline.task):
        yield Finding("race_runner_up", "note", target, (*_ratio(second), prefer))
    if race.overturned is not None:
        yield Finding("race_overturned", "caution", target, (("was", race.overturned), ("target", target)))


def _ratio(beside: Beside) -> tuple[tuple[str, Scalar], ...]:
    assert beside.ratio is not None
    low, estimate, high = beside.ratio
    return (("ratio", estimate), ("low", low), ("high", high), ("other", _placed(beside.task)))


def _bounds(race: Race) -> Iterator[Finding]:
    """What was asked of the winner, and whom that cost."""
    wanted, winner = race.wanted, race.winner
    out = {
        status: ("count", sum(entry.status == status for entry in race.entries))
        for status in ("memory", "late", "undecided", "inaccurate")
    }
    p, bound_ns = wanted.percentile or (None, None)
    percentile: tuple[tuple[str, Scalar], ...] = (("p", p), ("bound_ns", bound_ns))
    if out["memory"][1]:
        yield Finding("race_out_memory", "note", race.label, (out["memory"], ("bound_bytes", wanted.memory_bytes)))
    if out["late"][1]:
        yield Finding("race_out_late", "note", race.label, (out["late"], *percentile))
    if out["undecided"][1]:
        yield Finding("race_out_undecided", "note", race.label, (out["undecided"], *percentile))
    if out["inaccurate"][1]:
        yield Finding("race_out_inaccurate", "note", race.label, (out["inaccurate"], ("bound", wanted.loss)))
    if winner is not None and wanted.percentile is not None:
        yield Finding("race_certified", "note", _name(winner), percentile)
    if winner is not None and winner.energy_source == "estimate" and wanted.prefer == "energy":
        yield Finding("race_estimated", "caution", _name(winner))


def _precision(race: Race) -> Iterator[Finding]:
    """What a lower precision costs, or that nobody knows."""
    winner = race.winner
    if winner is None:
        return
    target = winner.task.placement.targets[0]
    loss = winner.loss
    if loss is not None:
        values: tuple[tuple[str, Scalar], ...] = (
            ("top1", loss.top1),
            ("images", loss.images),
            ("data", loss.data),
            ("than", loss.than),
            ("difference", loss.difference),
            ("low", loss.low),
            ("high", loss.high),
            ("same", loss.than == str(winner.task.placement)),
        )
        yield Finding("race_accuracy", "note", _name(winner), values)
    if target.precision in (None, "fp32"):
        return
    if loss is None:
        command = "measure it: --data FOLDER --max-loss 1, or stay exact: --precision fp32"
        yield Finding(
            "race_unmeasured", "caution", _name(winner), (("precision", target.precision), ("command", command))
        )
    # Where it is the baseline or the runner-up, that has been told.
    best = next((each for each in race.final if each.roles == ("best in fp32",)), None)
    if best is not None and best.ratio is not None and best.task != winner.task:
        yield Finding("race_fp32", "note", _name(winner), (*_ratio(best), ("prefer", race.wanted.prefer)))


def _notes(race: Race) -> Iterator[Finding]:
    first = sum(entry.starts == 1 and entry.status == "slower" for entry in race.entries)
    values = (("candidates", len(race.entries)), ("first", first), ("heats", race.heats), ("took_s", race.took_s))
    yield Finding("race_cost", "note", race.label, values)
    if race.not_tried:
        yield Finding("not_tried", "note", race.label, (("what", "; ".join(race.not_tried)),))


def _name(entry: Entry) -> str:
    return _placed(entry.task)


def _placed(task: Task) -> str:
    """With the load where it is more than one stream."""
    n = task.scenario.n
    return f"{task.placement}" + (f" × {n}" if n > 1 else "")


def changes(plan: Plan | Choosing, here: Machine, versions: Mapping[str, str | None]) -> list[Finding]:
    """What is not as it was when the plan was made; `versions` are those of its engines here."""
    found = []
    of = str(plan.placement) if isinstance(plan, Plan) else f"the {plan.policy} of {len(plan.members)} candidates"
    if here.id != plan.machine:
        values = (("made_on", plan.machine_label), ("here", here.label))
        found.append(Finding("other_machine", "caution", of, values))
    for engine, made_with in plan.versions:
        now = versions.get(engine)
        if now and made_with != now:
            about = (("engine", engine), ("made_with", made_with), ("here", now))
            found.append(Finding("other_versions", "caution", of, about))
    return found
