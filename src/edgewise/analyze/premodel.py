"""The premodel looked into: who takes part and why, which features matter, and what other forms of it do."""

from __future__ import annotations

from collections.abc import Iterator

from ..core.chart import Axis, Chart, Series
from ..core.selected import Looked, Selected, Tried
from ..core.types import Column, Finding, Section
from .evidence import Evidence, absent
from .selection import UNITS, costing

PLACE = 49
TITLE = "The premodel"
COLUMNS = (
    Column("models"),
    Column("technique"),
    Column("cost", "ns"),
    Column("accuracy", "accuracy"),
    Column("cost_ratio", "ratio"),
    Column("difference", "points"),
    Column("refused", "share"),
    Column("overhead", "ns"),
)


def run(evidence: Evidence) -> Section:
    found = [(each, each.looked) for each in evidence.selected if each.looked is not None]
    if not found:
        return absent(TITLE, "no premodel was looked into", "edgewise select evaluate PLAN --data FOLDER --premodel")
    rows = [row for selected, looked in found for row in _rows(selected, looked)]
    findings = [finding for selected, looked in found for finding in _findings(selected, looked)]
    charts = [chart for selected, looked in found for chart in _charts(selected, looked)]
    objectives = {selected.selection.objective for selected, _ in found}
    columns = costing(COLUMNS, objectives.pop()) if len(objectives) == 1 else COLUMNS
    return Section(TITLE, columns, tuple(rows), tuple(findings), tuple(charts))


def _rows(selected: Selected, looked: Looked) -> Iterator[tuple[object, ...]]:
    for each in looked.techniques:
        yield (
            selected.name,
            each.name,
            each.cost.value,
            each.accuracy.value,
            each.ratio.value,
            each.difference.value,
            each.refused,
            each.overhead_ns,
        )


def _findings(selected: Selected, looked: Looked) -> Iterator[Finding]:
    names = selected.selection.candidates
    taken = ", ".join(names[each.taken] for each in looked.rounds)
    yield Finding("premodel_takes", "note", selected.name, (("candidates", taken), ("of", len(names))))
    if looked.importance and max(loss for _, loss in looked.importance) <= 0:
        yield Finding("features_matter_not", "caution", selected.name, (("features", len(looked.importance)),))


def _charts(selected: Selected, looked: Looked) -> Iterator[Chart]:
    names, name, objective = selected.selection.candidates, selected.name, selected.selection.objective
    share = Axis("share of images", "share")
    optimal = Series("cheapest that is right", names, looked.optimal)
    yield Chart("bar", f"{name}: how often each is the cheapest that is right", Axis("candidate"), share, (optimal,))
    if looked.rounds:
        series = tuple(
            Series(_left(number, names[looked.rounds[number - 1].taken] if number else ""), names, each.right)
            for number, each in enumerate(looked.rounds)
        )
        title = f"{name}: how accurate each is on what those taken before get wrong"
        yield Chart("bar", title, Axis("candidate"), Axis("accuracy", "accuracy"), series)
    if looked.importance:
        ordered = sorted(looked.importance, key=lambda pair: -pair[1])
        lost = Series("points lost", tuple(each for each, _ in ordered), tuple(loss for _, loss in ordered))
        title = f"{name}: accuracy the premodel loses without a feature"
        yield Chart("bar", title, Axis("feature"), Axis("accuracy lost", "points"), (lost,))
    for what, tried in (("models", looked.by_candidates), ("features", looked.by_features)):
        if tried:
            yield _accuracy(f"{name}: accuracy by the number of {what}", what, tried)
            yield _cost(f"{name}: {objective} of an image by the number of {what}", what, objective, tried)


def _left(number: int, before: str) -> str:
    return "on all images" if not number else f"on what is wrong up to {before}"


def _accuracy(title: str, what: str, tried: tuple[Tried, ...]) -> Chart:
    counts = tuple(each.count for each in tried)
    series = Series("premodel", counts, tuple(each.accuracy for each in tried), stroke="line")
    return Chart("line", title, Axis(f"number of {what}", "count"), Axis("accuracy", "accuracy"), (series,))


def _cost(title: str, what: str, objective: str, tried: tuple[Tried, ...]) -> Chart:
    series = Series(
        "premodel",
        tuple(each.count for each in tried),
        tuple(each.cost for each in tried),
        tuple(each.least for each in tried),
        tuple(each.most for each in tried),
        stroke="line",
    )
    return Chart("line", title, Axis(f"number of {what}", "count"), Axis(objective, UNITS[objective]), (series,))
