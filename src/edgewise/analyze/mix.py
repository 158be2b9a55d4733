"""Networks with deadlines under several schedulers: which share of the jobs was in time, and who is better at it.

Jobs of one block wait for each other, so two schedulers are compared by whole blocks with the same arrivals. The
intervals of single shares are as of independent jobs: of two rows they say less than the comparison does.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import fmean, stdev

from ..core import stats
from ..core.chart import Axis, Chart, Series
from ..core.mix import Block, Mix, Served
from ..core.stats.special import t_quantile
from ..core.types import Column, Finding, Section
from ..parallel.mix.bound import best_hits, load
from ._figures import machine_label
from .evidence import Evidence, absent

PLACE = 67
TITLE = "Deadlines"
ALL = "all"
# Of a network: below this share of jobs in time, and so much below what the scheduler does in all, it is given up.
_GIVEN_UP = 0.5
# Where a simulation is further off than this, what it leaves out matters: contention, and other programs.
_OFF = 0.05
_ERROR_RATE = 0.05
COLUMNS = (
    Column("machine"),
    Column("mix"),
    Column("scheduler"),
    Column("network"),
    Column("deadline", "ns"),
    Column("jobs", "count"),
    Column("hits", "accuracy"),
    Column("interval", "accuracy_range", 2),
    Column("predicted", "accuracy"),
    Column("dropped", "count"),
    Column("late", "count"),
    Column("p50", "ns"),
    Column("p95", "ns"),
    Column("busy", "share", 1),
)


def run(evidence: Evidence) -> Section:
    rows, findings, charts = list[tuple[object, ...]](), list[Finding](), list[Chart]()
    for mix in evidence.mixes:
        if mix.blocks:
            rows += _rows(machine_label(evidence, mix.machine), mix)
            findings += _findings(mix)
            charts.append(_chart(mix))
    if not rows:
        return absent(TITLE, "no networks with deadlines were run together", "edgewise parallel mix.toml")
    return Section(TITLE, COLUMNS, tuple(rows), tuple(findings), tuple(charts))


def share(served: Sequence[Served]) -> float:
    return sum(each.hit for each in served) / len(served) if served else 0.0


def _of(blocks: Sequence[Block], scheduler: str, network: int | None = None) -> list[Served]:
    return [
        each
        for block in blocks
        if block.scheduler == scheduler
        for each in block.served
        if network is None or each.job.network == network
    ]


def _rows(machine: str, mix: Mix) -> Iterator[tuple[object, ...]]:
    for scheduler in mix.schedulers:
        for network, about in enumerate(mix.networks):
            own, foretold = _of(mix.blocks, scheduler, network), _of(mix.predicted, scheduler, network)
            yield (machine, mix.name, scheduler, about.label, about.deadline_ns, *_figures(own, foretold), None)
        if len(mix.networks) > 1:
            own, foretold = _of(mix.blocks, scheduler), _of(mix.predicted, scheduler)
            yield (machine, mix.name, scheduler, ALL, None, *_figures(own, foretold), _busy(mix, scheduler))


def _figures(served: Sequence[Served], predicted: Sequence[Served]) -> tuple[object, ...]:
    """Jobs, hits with their interval, hits predicted, dropped, late, and how long those that were served took."""
    hits = sum(each.hit for each in served)
    took = [each.response_ns for each in served if each.response_ns is not None]
    dropped = sum(each.dropped for each in served)
    return (
        len(served),
        share(served) if served else None,
        stats.wilson(hits, len(served)) if served else None,
        share(predicted) if predicted else None,
        dropped,
        len(served) - hits - dropped,
        *(stats.quantile(took, p) if stats.carries(len(took), p) else None for p in (0.5, 0.95)),
    )


def _busy(mix: Mix, scheduler: str) -> float:
    own = [block for block in mix.blocks if block.scheduler == scheduler]
    elapsed = sum(block.elapsed_ns for block in own) * len(mix.targets)
    return sum(sum(block.busy_ns) for block in own) / elapsed if elapsed else 0.0


def difference(mix: Mix, first: str, second: str, comparisons: int = 1) -> tuple[float, float, float] | None:
    """How much larger the first's share of hits is, with its 95 % interval over blocks, made wider where there are
    several comparisons. None with fewer than two blocks."""
    shares = {(block.scheduler, block.number): share(block.served) for block in mix.blocks if block.served}
    each = [hits - shares[second, number] for (name, number), hits in shares.items() if name == first]
    if len(each) < 2:
        return None
    quantile = t_quantile(1 - _ERROR_RATE / comparisons / 2, len(each) - 1)
    half, centre = quantile * stdev(each) / math.sqrt(len(each)), fmean(each)
    return centre - half, centre, centre + half


def _findings(mix: Mix) -> Iterator[Finding]:
    for reason in mix.lost:
        yield Finding("mix_lost", "problem", mix.name, (("reason", reason),))
    yield from _compared(mix)
    yield from _bounds(mix)
    whole = {name: share(_of(mix.blocks, name)) for name in mix.schedulers}
    for name in mix.schedulers:
        for network, about in enumerate(mix.networks):
            hits = share(_of(mix.blocks, name, network))
            if hits < _GIVEN_UP * whole[name] and len(mix.networks) > 1:
                given = (("hits", hits), ("all", whole[name]), ("network", about.label))
                yield Finding("mix_given_up", "caution", f"{mix.name} under {name}", given)
        foretold = share(_of(mix.predicted, name))
        if mix.predicted and abs(foretold - whole[name]) > _OFF:
            both = (("hits", whole[name]), ("predicted", foretold))
            yield Finding("mix_unlike", "note", f"{mix.name} under {name}", both)
    for each in mix.services:
        if each.reason:
            why = (("target", str(mix.targets[each.device])), ("reason", each.reason))
            yield Finding("mix_elsewhere", "note", mix.networks[each.network].label, why)


def _compared(mix: Mix) -> Iterator[Finding]:
    order = sorted(mix.schedulers, key=lambda name: -share(_of(mix.blocks, name)))
    best, *others = order
    served = _of(mix.blocks, best)
    low, high = stats.wilson(sum(each.hit for each in served), len(served))
    about = (("scheduler", best), ("hits", share(served)), ("low", low), ("high", high), ("jobs", len(served)))
    if not others:
        yield Finding("mix_alone", "note", mix.name, about)
        return
    told = {name: difference(mix, best, name, len(others)) for name in others}
    if any(each is None for each in told.values()):
        yield Finding("mix_once", "caution", mix.name, about)
        return
    behind = {name: each for name, each in told.items() if each and each[0] > 0}
    level = [name for name in others if name not in behind]
    for name, (least, centre, most) in behind.items():
        values = (("other", name), ("difference", centre), ("least", least), ("most", most))
        yield Finding("mix_better", "note", mix.name, about + values)
    if level:
        yield Finding("mix_level", "note", mix.name, (*about, ("others", ", ".join(level))))


def _bounds(mix: Mix) -> Iterator[Finding]:
    services: list[list[float | None]] = [[None] * len(mix.targets) for _ in mix.networks]
    for each in mix.services:
        if each.samples_ns:
            services[each.network][each.device] = stats.quantile(each.samples_ns, 0.5)
    needed, most = load(mix.networks, services), best_hits(mix.networks, services)
    for network, about in enumerate(mix.networks):
        quickest = min(ns for ns in services[network] if ns is not None)
        if quickest > about.deadline_ns:
            values = (("quickest", quickest), ("deadline", about.deadline_ns))
            yield Finding("mix_hopeless", "caution", about.label, values)
    if needed is not None and needed > 1:
        yield Finding("mix_overload", "caution", mix.name, (("load", needed), ("most", most)))
    elif needed is not None:
        yield Finding("mix_load", "note", mix.name, (("load", needed),))


def _chart(mix: Mix) -> Chart:
    series = []
    for scheduler in mix.schedulers:
        found = [_of(mix.blocks, scheduler, network) for network in range(len(mix.networks))]
        ends = [stats.wilson(sum(each.hit for each in own), len(own)) for own in found]
        series.append(
            Series(
                scheduler,
                tuple(network.label for network in mix.networks),
                tuple(share(own) if own else None for own in found),
                tuple(low for low, _ in ends),
                tuple(high for _, high in ends),
            )
        )
    return Chart("bar", f"{mix.name}: jobs in time", Axis("network"), Axis("hits", "accuracy"), tuple(series))
