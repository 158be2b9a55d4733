"""Selected a model for each input: every method beside single models, their random mixes and the oracle."""

from __future__ import annotations

from collections.abc import Iterator

from ..core.chart import Axis, Chart, Series
from ..core.choice import Method, Selection
from ..core.selected import Selected
from ..core.types import Column, Finding, Scalar, Section
from .chosen import lived
from .evidence import Evidence, absent

PLACE = 48
TITLE = "A model for each input"
COLUMNS = (
    Column("models"),
    Column("method"),
    Column("cost", "ns"),
    Column("cost_ratio", "ratio"),
    Column("interval", "ratio_range"),
    Column("energy", "uj", 1),
    Column("memory", "bytes", 5),
    Column("accuracy", "accuracy"),
    Column("difference", "points"),
    Column("difference_interval", "points_range"),
    Column("oracle_gap_closed", "share"),
    Column("over_mix", "points"),
    Column("mix_ratio", "ratio", 2),
    Column("p", "p", 5),
    Column("precision", "accuracy", 4),
    Column("recall", "accuracy", 4),
    Column("f1", "accuracy", 4),
    Column("refused", "share", 6),
    Column("overhead", "ns", 3),
    Column("calibration_error", "share", 7),
    Column("calibrated_error", "share", 7),
)
UNITS = {"time": "ns", "energy": "uj", "memory": "bytes"}
# What a method may lose and still be called as accurate: with nothing allowed, no number of images would show it.
_NEXT_TO_NOTHING = 0.005


def run(evidence: Evidence) -> Section:
    if not evidence.selected:
        return absent(TITLE, "no policy was evaluated", "edgewise select evaluate PLAN --data FOLDER")
    columns: tuple[Column, ...] = COLUMNS
    objectives = {each.selection.objective for each in evidence.selected}
    if len(objectives) == 1:
        columns = costing(columns, objectives.pop())
    rows = [row for each in evidence.selected for row in _rows(each)]
    findings = [finding for each in evidence.selected for finding in _findings(each)]
    charts = [chart for each in evidence.selected for chart in _charts(each)]
    return Section(TITLE, columns, tuple(rows), tuple(findings), tuple(charts))


def costing(columns: tuple[Column, ...], objective: str) -> tuple[Column, ...]:
    """With the cost in the unit of the objective."""
    return tuple(Column(c.name, UNITS[objective], c.spare) if c.name == "cost" else c for c in columns)


def _rows(selected: Selected) -> Iterator[tuple[object, ...]]:
    found = selected.selection
    off = dict(zip(found.candidates, found.calibration, strict=False))
    for method in (found.reference, *found.singles, *found.methods, found.oracle):
        same = method is found.reference
        yield (
            selected.name,
            method.name,
            method.cost.value,
            method.ratio.value,
            None if same else (method.ratio.low, method.ratio.high),
            None if found.objective == "energy" else method.energy_uj,
            None if found.objective == "memory" else method.memory_bytes,
            method.accuracy.value,
            None if same else method.difference.value,
            None if same else (method.difference.low, method.difference.high),
            None if same else method.gap_closed,
            method.over_hull,
            method.hull_ratio,
            None if same else method.p,
            method.precision,
            method.recall,
            method.f1,
            method.refused,
            method.overhead_ns or None,
            *off.get(method.name, (None, None)),
        )


def allowed(selection: Selection) -> float:
    """The share of images that a method may lose."""
    return max(selection.max_loss, _NEXT_TO_NOTHING)


def cheapest(selection: Selection) -> Method | None:
    """The cheapest method of which these images show that it loses no more beside the best single candidate than it
    may, and is cheaper."""
    may = allowed(selection)
    fitting = [each for each in selection.methods if each.difference.low >= -may and each.ratio.high < 1]
    return min(fitting, key=lambda each: each.cost.value, default=None)


def _findings(selected: Selected) -> Iterator[Finding]:
    found, about = selected.selection, selected.name
    best = cheapest(found)
    if best is None:
        yield Finding("method_none", "note", about, (("images", found.images), ("allowed", allowed(found))))
    else:
        values: tuple[tuple[str, Scalar], ...] = (
            ("method", best.name),
            ("ratio", 1 / best.ratio.value),
            ("low", 1 / best.ratio.high),
            ("high", 1 / best.ratio.low),
            ("objective", found.objective),
            ("difference", best.difference.value),
            ("difference_low", best.difference.low),
            ("difference_high", best.difference.high),
            ("images", found.images),
            ("allowed", allowed(found)),
        )
        yield Finding("method_cheapest", "note", about, values)
    poor = [each.name for each in found.methods if each.over_hull <= 0]
    if poor:
        told = (("methods", ", ".join(poor)), ("count", len(poor)), ("objective", found.objective))
        yield Finding("no_better_than_mixing", "caution", about, told)
    if selected.live is not None:
        yield lived(selected.live)


def _charts(selected: Selected) -> Iterator[Chart]:
    found = selected.selection
    cost = Axis("cost of an image" if found.objective != "time" else "time of an image", UNITS[found.objective])
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
    title = f"{selected.name}: what choosing costs and gains"
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
        title = f"{selected.name}: who has the last word"
        yield Chart("stack", title, Axis("method"), Axis("share of images", "share"), shares)
    named = ("precision", "recall", "f1")
    everyone = (*found.singles, *found.methods)
    measures = tuple(
        Series(name, tuple(each.name for each in everyone), tuple(getattr(each, name) for each in everyone))
        for name in named
    )
    title = f"{selected.name}: precision, recall and F1, means over classes"
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
