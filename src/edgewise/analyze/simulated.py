"""Streams that were simulated on described chips: who would do how much, what it gains, how far off predictions were.

Nothing here was measured. Where a figure for the same components together was published, it stands beside the
prediction; and since the model has a number that was fitted to such figures, so does the prediction made without it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean

from ..core.types import Column, Finding, Scalar, Section
from ..parallel.simulate.fit import Fitted
from ..parallel.simulate.forecast import Forecast, Terms

COLUMNS = (
    Column("component"),
    Column("processor", "text", 1),
    Column("frames", "count", 2),
    Column("share", "share"),
    Column("published_share", "share", 3),
    Column("alone", "rate"),
    Column("together", "rate"),
    Column("of_alone", "ratio"),
    Column("busy", "share"),
    Column("delay_p50", "ns", 4),
    Column("delay_p95", "ns"),
    Column("published", "rate"),
    Column("error", "percent_change"),
)
LEFT_OUT = (
    Column("components"),
    Column("per_s", "rate"),
    Column("difference", "percent_change"),
    Column("delay_p95", "ns"),
)
CASES = (
    Column("soc"),
    Column("network"),
    Column("components"),
    Column("added_up", "rate", 1),
    Column("predicted", "rate"),
    Column("published", "rate"),
    Column("error", "percent_change"),
    Column("error_without_it", "percent_change"),
    Column("fitted", "number", 4),
    Column("gain", "ratio"),
    Column("delay_p95", "ns", 2),
    Column("source", "text", 3),
)
# A component that adds less is of no use, and one that takes as much away does harm.
_MARGIN = 0.02
Values = tuple[tuple[str, Scalar], ...]


def run(
    whole: Forecast,
    without: Mapping[str, Forecast],
    fit: Fitted,
    terms: Terms,
    unchanged: Forecast | None = None,
) -> Section:
    """One stream: a row for each component, and one for all together. `unchanged` is the same stream without anybody
    slowing down or dying, where somebody does."""
    stream, said = whole.streamed, whole.published
    rows: list[tuple[object, ...]] = []
    for who, (component, alone) in enumerate(zip(whole.components, whole.per_s_alone, strict=True)):
        rate = stream.share(who) * stream.per_s
        rows.append(
            (
                component.name,
                component.label,
                stream.workers[who].frames,
                stream.share(who),
                said.shares.get(component.name) if said and said.shares else None,
                alone,
                rate,
                rate / alone,
                stream.busy(who),
                *(None,) * 4,
            )
        )
    alone = sum(whole.per_s_alone)
    together = ("together", "", stream.frames, 1.0, None, alone, stream.per_s, stream.per_s / alone, None)
    figure = (said.per_s if said else None, whole.error)
    rows.append((*together, stream.delay_ns(0.5), stream.delay_ns(0.95), *figure))
    gained = _together(whole) if unchanged is None else _changed(whole, unchanged, terms)
    findings = (*gained, *_each(whole, without), *_fitted(whole, fit))
    return Section("Simulated stream", COLUMNS, tuple(rows), findings)


def left_out(whole: Forecast, without: Mapping[str, Forecast]) -> Section:
    """The same stream with one component fewer."""
    rows: list[tuple[object, ...]] = [("all", whole.streamed.per_s, None, whole.streamed.delay_ns(0.95))]
    for name, rest in without.items():
        difference = rest.streamed.per_s / whole.streamed.per_s - 1
        rows.append((f"without {name}", rest.streamed.per_s, difference, rest.streamed.delay_ns(0.95)))
    return Section("Leaving one out", LEFT_OUT, tuple(rows))


def cases(forecasts: Sequence[Forecast], fits: Sequence[Fitted]) -> Section:
    """Predictions beside what was published, one row each; `fits` are those of the chips."""
    chips = dict.fromkeys(each.soc for each in forecasts)
    values = {chip: fit.value for chip, fit in zip(chips, fits, strict=True)}
    rows = tuple(
        (
            each.soc,
            each.network,
            "+".join(each.over),
            sum(each.per_s_alone),
            each.streamed.per_s,
            each.published.per_s if each.published else None,
            each.error,
            each.error_without,
            values[each.soc],
            each.streamed.per_s / max(each.per_s_alone),
            each.streamed.delay_ns(0.95),
            each.published.source if each.published else "",
        )
        for each in forecasts
    )
    # Of several chips the numbers stand in the table.
    fitted = _fitted(forecasts[0], fits[0]) if len(fits) == 1 else ()
    return Section("Predicted beside published", CASES, rows, (*_errors(forecasts), *fitted))


def _about(whole: Forecast) -> str:
    return f"{whole.network} on {whole.soc}"


def _together(whole: Forecast) -> Iterator[Finding]:
    stream, about = whole.streamed, _about(whole)
    if len(whole.components) > 1:
        best = max(range(len(whole.components)), key=lambda who: whole.per_s_alone[who])
        gain = stream.per_s / whole.per_s_alone[best]
        values: Values = (
            ("gain", gain),
            ("per_s", stream.per_s),
            ("best", whole.over[best]),
            ("efficiency", stream.per_s / sum(whole.per_s_alone)),
            ("makespan", stream.elapsed_ns / stream.bound_ns),
            ("frames", stream.frames),
        )
        if gain > 1 + _MARGIN:
            yield Finding("sim_helps", "note", about, values)
        else:
            yield Finding("sim_no_gain", "caution", about, values)
    if whole.published and whole.error is not None:
        yield Finding(
            "sim_published",
            "note",
            about,
            (
                ("error", whole.error),
                ("error_without", whole.error_without),
                ("published", whole.published.per_s),
                ("source", whole.published.source),
            ),
        )


def _changed(whole: Forecast, unchanged: Forecast, terms: Terms) -> Iterator[Finding]:
    per_s = (("left", whole.streamed.per_s / unchanged.streamed.per_s), ("per_s", whole.streamed.per_s))
    yield Finding("sim_changed", "note", _about(whole), (*per_s, ("unchanged_per_s", unchanged.streamed.per_s)))
    for change in terms.changes:
        dead = not whole.streamed.workers[whole.over.index(change.component)].alive
        moment = change.dies_ns if change.dies_ns is not None else change.slower_ns
        if moment is None:
            continue
        values: Values = (("at_ns", moment), ("component", change.component), ("frames", whole.streamed.frames))
        if moment >= whole.streamed.elapsed_ns:
            yield Finding(
                "sim_too_late", "caution", _about(whole), (*values, ("elapsed_ns", whole.streamed.elapsed_ns))
            )
        elif dead:
            yield Finding("sim_died", "note", _about(whole), values)
        else:
            yield Finding("sim_slowed", "note", _about(whole), (*values, ("slower", change.slower)))


def _each(whole: Forecast, without: Mapping[str, Forecast]) -> Iterator[Finding]:
    """Whom it would be better, or no worse, to leave out."""
    all_per_s = whole.streamed.per_s
    for name, rest in without.items():
        added = all_per_s / rest.streamed.per_s - 1
        values: Values = (
            ("added", added),
            ("component", name),
            ("per_s", rest.streamed.per_s),
            ("delay_ns", rest.streamed.delay_ns(0.95)),
            ("all_delay_ns", whole.streamed.delay_ns(0.95)),
        )
        if added < -_MARGIN:
            yield Finding("sim_harms", "caution", _about(whole), values)
        elif added < _MARGIN:
            yield Finding("sim_spare", "note", _about(whole), values)
    if without:
        best = max(without, key=lambda name: without[name].streamed.per_s)
        per_s = without[best].streamed.per_s
        values = (
            ("per_s", max(per_s, all_per_s)),
            ("components", ", ".join(whole.over if per_s <= all_per_s else without[best].over)),
            ("ways", 1 + len(without)),
            ("next", f"without {best}" if per_s <= all_per_s else "all"),
            ("next_per_s", min(per_s, all_per_s)),
        )
        yield Finding("sim_choice", "note", _about(whole), values)


def _fitted(whole: Forecast, fit: Fitted) -> Iterator[Finding]:
    if len(whole.components) > 1:
        yield Finding(
            "sim_contention",
            "note" if fit.own else "caution",
            whole.soc,
            (
                ("value", fit.value),
                ("model", fit.model.name),
                ("what", fit.model.value),
                ("cases", fit.cases),
                ("own", fit.own),
            ),
        )


def _errors(forecasts: Sequence[Forecast]) -> Iterator[Finding]:
    known = [each for each in forecasts if each.published]
    errors = [abs(each.error) for each in known if each.error is not None]
    without = [abs(each.error_without) for each in known if each.error_without is not None]
    plain = [abs(sum(each.per_s_alone) / each.published.per_s - 1) for each in known if each.published]
    shares = [
        abs(each.streamed.share(who) - each.published.shares[name])
        for each in known
        for who, name in enumerate(each.over)
        if each.published and each.published.shares and name in each.published.shares
    ]
    if errors and without:
        yield Finding(
            "sim_errors",
            "note",
            "all" if len({each.soc for each in known}) > 1 else known[0].soc,
            (
                ("cases", len(errors)),
                ("mean", fmean(errors)),
                ("most", max(errors)),
                ("mean_without", fmean(without)),
                ("most_without", max(without)),
                ("mean_added", fmean(plain)),
                ("most_added", max(plain)),
                ("share_points", fmean(shares) if shares else None),
            ),
        )
