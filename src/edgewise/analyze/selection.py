"""Choosing a model for each input: every method beside single models, their random mixes and the oracle."""

from __future__ import annotations

from collections.abc import Iterator

from ..core.chart import Axis, Chart, Series
from ..core.choice import Method, Selection
from ..core.choosing import Choosing
from ..core.types import Column, Finding, Scalar, Section
from .evidence import Evidence, absent

PLACE = 48
TITLE = "A model for each input"
COLUMNS = (
    Column("models"),
    Column("method"),
    Column("cost", "ns"),
    Column("cost_ratio", "ratio"),
    Column("interval", "ratio_range"),
    Column("accuracy", "accuracy"),
    Column("difference", "points"),
    Column("difference_interval", "points_range"),
    Column("oracle_gap_closed", "share"),
    Column("over_mix", "points"),
    Column("p", "p", 5),
    Column("precision", "accuracy", 4),
    Column("recall", "accuracy", 4),
    Column("f1", "accuracy", 4),
    Column("refused", "share", 6),
    Column("overhead", "ns", 3),
)
# Replayed and live times further apart than this do not tell the same story.
AGREES = 0.05
_UNITS = {"time": "ns", "energy": "uj", "memory": "bytes"}


def run(evidence: Evidence) -> Section:
    if not evidence.choosings:
        return absent(TITLE, "no policy was evaluated", "edgewise select evaluate PLAN --data FOLDER")
    columns = COLUMNS
    objectives = {each.selection.objective for each in evidence.choosings}
    if len(objectives) == 1:
        unit = _UNITS[objectives.pop()]
        columns = tuple(Column(c.name, unit, c.spare) if c.name == "cost" else c for c in COLUMNS)
    rows = [row for each in evidence.choosings for row in _rows(each)]
    findings = [finding for each in evidence.choosings for finding in _findings(each)]
    charts = [chart for each in evidence.choosings for chart in _charts(each)]
    return Section(TITLE, columns, tuple(rows), tuple(findings), tuple(charts))


def _rows(choosing: Choosing) -> Iterator[tuple[object, ...]]:
    found = choosing.selection
    for method in (found.reference, *found.singles, *found.methods, found.oracle):
        same = method is found.reference
        yield (
            choosing.name,
            method.name,
            method.cost.value,
            method.ratio.value,
            None if same else (method.ratio.low, method.ratio.high),
            method.accuracy.value,
            None if same else method.difference.value,
            None if same else (method.difference.low, method.difference.high),
            None if same else method.gap_closed,
            method.over_hull,
            None if same else method.p,
            method.precision,
            method.recall,
            method.f1,
            method.refused,
            method.overhead_ns or None,
        )


def best(selection: Selection, allowed: float = 0.0) -> Method | None:
    """The cheapest method whose accuracy is not shown to be lower by more than `allowed`."""
    fitting = [each for each in selection.methods if each.difference.low >= -allowed]
    return min(fitting, key=lambda each: each.ratio.value, default=None)


def _findings(choosing: Choosing) -> Iterator[Finding]:
    found, about = choosing.selection, choosing.name
    for method in found.methods:
        values: tuple[tuple[str, Scalar], ...] = (
            ("method", method.name),
            ("ratio", method.ratio.value),
            ("low", method.ratio.low),
            ("high", method.ratio.high),
            ("difference", method.difference.value),
            ("difference_low", method.difference.low),
            ("images", found.images),
            ("objective", found.objective),
        )
        if method.over_hull <= 0:
            yield Finding("no_better_than_mixing", "caution", f"{about}, {method.name}", values)
        elif method.ratio.high < 1:
            yield Finding("chosen_well", "note", f"{about}, {method.name}", values)
    if choosing.skipped:
        yield Finding("images_skipped", "caution", about, (("count", choosing.skipped), ("data", choosing.data)))
    if choosing.live is not None:
        live = choosing.live
        apart = live.mean_ns[1] / live.replayed_ns - 1
        told: tuple[tuple[str, Scalar], ...] = (
            ("images", live.images),
            ("apart", apart),
            ("mean_ns", live.mean_ns[1]),
            ("replayed_ns", live.replayed_ns),
        )
        agrees = abs(apart) <= AGREES
        yield Finding("live_agrees" if agrees else "live_differs", "note" if agrees else "caution", about, told)


def _charts(choosing: Choosing) -> Iterator[Chart]:
    found = choosing.selection
    cost = Axis("cost of an image" if found.objective != "time" else "time of an image", _UNITS[found.objective])
    series = [
        _points("single models", found.singles),
        Series(
            "mixed at random",
            tuple(spot.cost for spot in found.hull),
            tuple(spot.accuracy for spot in found.hull),
            stroke="dash",
        ),
        _points("methods", found.methods),
        _points("oracle", (found.oracle,)),
    ]
    title = f"{choosing.name}: what choosing costs and gains"
    yield Chart("scatter", title, cost, Axis("accuracy", "accuracy"), tuple(each for each in series if each.x))
    if found.methods:
        names = tuple(method.name for method in found.methods)
        shares = tuple(
            Series(candidate, names, tuple(method.answered[place] for method in found.methods))
            for place, candidate in enumerate(found.candidates)
            if any(method.answered[place] for method in found.methods)
        )
        refused = tuple(method.refused for method in found.methods)
        if any(refused):
            shares = (*shares, Series("refused", names, refused))
        title = f"{choosing.name}: who has the last word"
        yield Chart("stack", title, Axis("method"), Axis("share of images", "share"), shares)
    named = ("precision", "recall", "f1")
    everyone = (*found.singles, *found.methods)
    measures = tuple(
        Series(name, tuple(each.name for each in everyone), tuple(getattr(each, name) for each in everyone))
        for name in named
    )
    title = f"{choosing.name}: precision, recall and F1, means over classes"
    yield Chart("bar", title, Axis("method"), Axis("share", "share"), measures)


def _points(name: str, methods: tuple[Method, ...]) -> Series:
    return Series(
        name,
        tuple(each.cost.value for each in methods),
        tuple(each.accuracy.value for each in methods),
        tuple(each.accuracy.low for each in methods),
        tuple(each.accuracy.high for each in methods),
        labels=tuple(each.name for each in methods),
    )
