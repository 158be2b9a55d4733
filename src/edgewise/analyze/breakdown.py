"""Where the time of one inference goes: by type of operator, by layer, and what lies between and around them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from ..core.chart import Axis, Chart, Series
from ..core.profile import Profile
from ..core.types import Column, Finding, Section
from .accounting import Account, account
from .evidence import Evidence, absent
from .kinds import kind
from .trust import load

PLACE = 80
TITLE = "Breakdown"
_COMMAND = "edgewise profile MODEL --on ort:cpu@1"
# More would be a wall of charts; the table has them all.
_CHARTS = 8
_WHERE = (Column("machine"), Column("model"), Column("scenario"), Column("target"))
COLUMNS = (
    *_WHERE,
    Column("kind"),
    Column("operator"),
    Column("count", "count"),
    Column("time", "ns"),
    Column("share", "share"),
    Column("slowest", spare=2),
    Column("slowest_time", "ns", spare=1),
)
LAYER_COLUMNS = (
    *_WHERE,
    Column("position", "count"),
    Column("layer"),
    Column("operator"),
    Column("kind", spare=1),
    Column("time", "ns"),
    Column("share", "share"),
)


def run(evidence: Evidence) -> Section:
    """Rows by type of operator, largest first, then what is no operator's; they add up to the latency below them."""
    accounts = _accounts(evidence)
    if not accounts:
        return absent(TITLE, "no operator was timed", _COMMAND)
    rows, findings = [], []
    for profile, found in accounts:
        where = _where(evidence, profile)
        rows += [(*where, *row) for row in (*_types(profile, found), *_rest(found))]
        findings += list(_findings(profile, found))
    return Section(TITLE, COLUMNS, tuple(rows), tuple(findings), tuple(_charts(evidence, accounts)))


def layers(evidence: Evidence, *, most: int | None = 10) -> Section:
    """The slowest layers, or all (None) in the order they ran."""
    rows: list[tuple[object, ...]] = []
    for profile, found in _accounts(evidence):
        where = _where(evidence, profile)
        timed = [
            (*where, position, op.name, op.operator, kind(op.operator), ns, ns / found.plain_ns)
            for position, (op, ns) in enumerate(zip(profile.ops, found.times_ns, strict=True), 1)
            if op.samples_ns
        ]
        rows += timed if most is None else sorted(timed, key=lambda row: -row[-1])[:most]
    if not rows:
        return absent("Layers", "no operator was timed", _COMMAND)
    return Section("Layers", LAYER_COLUMNS, tuple(rows))


def _accounts(evidence: Evidence) -> list[tuple[Profile, Account]]:
    return [(p, account(p)) for p in evidence.profiles if p.plain_ns and any(op.samples_ns for op in p.ops)]


def _where(evidence: Evidence, profile: Profile) -> tuple[str, str, str, str]:
    machine = evidence.machines.get(profile.machine)
    task = profile.task
    return (machine.label if machine else profile.machine, profile.label, str(task.scenario), str(task.placement))


def _types(profile: Profile, found: Account) -> Iterator[tuple[object, ...]]:
    types: dict[str, list[tuple[float, str]]] = defaultdict(list)
    for op, ns in zip(profile.ops, found.times_ns, strict=True):
        if op.samples_ns:
            types[op.operator].append((ns, op.name))
    for name, ops in sorted(types.items(), key=lambda item: -sum(ns for ns, _ in item[1])):
        total, (longest, slowest) = sum(ns for ns, _ in ops), max(ops)
        yield kind(name), name, len(ops), total, total / found.plain_ns, slowest, longest


def _rest(found: Account) -> Iterator[tuple[object, ...]]:
    parts = [
        ("dispatch", found.dispatch_ns),
        ("copy", found.copy_ns),
        ("other", found.other_ns),
        ("looking", -found.looking_ns),
        ("latency", found.plain_ns),
    ]
    for name, ns in parts:
        yield f"({name})", "", None, ns, None if ns is None else ns / found.plain_ns, "", None


def _findings(profile: Profile, found: Account) -> Iterator[Finding]:
    about = f"{profile.label} on {profile.task.placement}{load(profile.task.scenario)}"
    low, high = found.sum_ratio_range or (None, None)
    sums = (
        ("sum_ratio", found.sum_ratio),
        ("low", low),
        ("high", high),
        ("plain_ns", found.plain_ns),
        ("looking_ns", found.looking_ns),
        ("events", found.events),
        ("runs", found.pairs),
    )
    yield Finding("profiled", "note", about, sums)
    _, operator, count, _, share, slowest, longest = next(_types(profile, found))
    if isinstance(count, int) and isinstance(share, float) and isinstance(longest, float):
        values = (
            ("share", share),
            ("operator", str(operator)),
            ("count", count),
            ("slowest", str(slowest)),
            ("slowest_share", longest / found.plain_ns),
        )
        yield Finding("time_goes_to", "note", about, values)
    if found.adds_up is None:
        yield Finding("sum_is_uncertain", "caution", about, (("wide", (high or 0) - (low or 0)),))
    elif not found.adds_up:
        residue = (
            ("residue", found.sum_ratio - 1),
            ("dispatch", _share(found.dispatch_ns, found)),
            ("copy", _share(found.copy_ns, found)),
            ("other", _share(found.other_ns, found)),
            ("looking", _share(found.looking_ns, found)),
        )
        yield Finding("does_not_add_up", "caution", about, residue)
    if profile.spans.averaged:
        yield Finding("times_are_means", "note", about, (("runs", found.pairs),))


def _share(ns: float | None, found: Account) -> float | None:
    return None if ns is None else ns / found.plain_ns


def _charts(evidence: Evidence, accounts: Sequence[tuple[Profile, Account]]) -> Iterator[Chart]:
    """One for each model, a bar for each target: kinds of operator, so that engines with other names compare."""
    drawn: dict[tuple[str, str, str], list[tuple[str, dict[str, float]]]] = defaultdict(list)
    for profile, found in accounts:
        machine, model, scenario, target = _where(evidence, profile)
        parts: dict[str, float] = defaultdict(float)
        for op, ns in zip(profile.ops, found.times_ns, strict=True):
            parts[kind(op.operator)] += ns
        rest = (("dispatch", found.dispatch_ns), ("copy", found.copy_ns), ("other", found.other_ns))
        for name, time_ns in rest:
            if time_ns:
                parts[f"({name})"] = time_ns
        drawn[machine, model, scenario].append((target, parts))
    several = _varying(drawn)
    for key, bars in list(drawn.items())[:_CHARTS]:
        about = ", ".join(part for part, varies in zip(key, several, strict=True) if varies) or key[1]
        series = tuple(
            Series(name, tuple(target for target, _ in bars), tuple(parts.get(name, 0.0) for _, parts in bars))
            for name in _by_size(parts for _, parts in bars)
        )
        title = f"Time by kind of operator, while instrumented: {about}"
        yield Chart("stack", title, Axis("target"), Axis("time", "ns"), series)


def _varying(keys: Iterable[tuple[str, ...]]) -> list[bool]:
    return [len(set(values)) > 1 for values in zip(*keys, strict=True)]


def _by_size(bars: Iterable[dict[str, float]]) -> list[str]:
    """The largest below; what is no operator's on top, in the order of the account."""
    total: dict[str, float] = defaultdict(float)
    for parts in bars:
        for name, ns in parts.items():
            total[name] += ns
    rest = [name for name in total if name.startswith("(")]
    return sorted((name for name in total if name not in rest), key=lambda name: -total[name]) + rest
