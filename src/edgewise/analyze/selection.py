"""Every way of choosing on images it was not fitted on, beside every candidate alone, and beside a perfect choice."""

from __future__ import annotations

from ..core.choice import Method, Selection
from ..core.types import Column, Finding, Section

_UNITS = {"time": "ns", "energy": "uj", "memory": "bytes"}


def run(found: Selection) -> Section:
    """Methods first, cheapest first; then what they must beat. `vs_best` is a cost over that of the best single one."""
    columns = (
        Column("method"),
        Column("accuracy", "accuracy"),
        Column("interval", "accuracy_range", 3),
        Column("difference", "points"),
        Column("p", "p", 4),
        Column("cost", _UNITS[found.objective]),
        Column("vs_best", "ratio"),
        Column("vs_best_range", "ratio_range", 1),
        Column("vs_mix", "ratio", 2),
        Column("gap_closed", "share", 2),
        Column("overhead", "ns", 4),
        Column("f1", "accuracy", 5),
        Column("refused", "share", 5),
    )
    methods = sorted(found.methods, key=lambda method: method.cost.value)
    rows = [_row(method) for method in (*methods, found.reference, *found.singles, found.oracle)]
    return Section("Methods", columns, tuple(rows), tuple(_findings(found)))


def _row(method: Method) -> tuple[object, ...]:
    return (
        method.name,
        method.accuracy.value,
        (method.accuracy.low, method.accuracy.high),
        method.difference.value,
        method.p,
        method.cost.value,
        method.ratio.value,
        (method.ratio.low, method.ratio.high),
        method.hull_ratio,
        method.gap_closed,
        method.overhead_ns or None,
        method.f1,
        method.refused or None,
    )


def _findings(found: Selection) -> list[Finding]:
    """The cheapest method that is no less accurate than the best single candidate, as far as these images can tell."""
    fitting = [method for method in found.methods if method.difference.high >= 0 and method.ratio.high < 1]
    if not fitting:
        return [Finding("method_none", "note", "methods", (("images", found.images), ("folds", found.folds)))]
    best = min(fitting, key=lambda method: method.cost.value)
    values = (
        ("method", best.name),
        ("ratio", 1 / best.ratio.value),
        ("low", 1 / best.ratio.high),
        ("high", 1 / best.ratio.low),
        ("objective", found.objective),
        ("difference", best.difference.value),
        ("difference_low", best.difference.low),
        ("difference_high", best.difference.high),
        ("images", found.images),
    )
    return [Finding("method_cheapest", "note", "methods", values)]
