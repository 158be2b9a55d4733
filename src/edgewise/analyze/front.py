"""What recipes make of a model: the front of latency and answers, what each step brings, and which layers mind."""

from __future__ import annotations

import math
from collections.abc import Iterator

from ..core.chart import Axis, Chart, Series
from ..core.front import AS_IT_IS, SAME, Front, Point
from ..core.text import parse_recipe
from ..core.types import Column, Finding, Recipe, Scalar, Section
from .evidence import Evidence, absent

PLACE = 47
TITLE = "Optimized models"
COLUMNS = (
    Column("model"),
    Column("target"),
    Column("recipe"),
    Column("latency", "ns"),
    Column("latency_ratio", "ratio"),
    Column("interval", "ratio_range"),
    Column("weights", "bytes"),
    Column("weights_ratio", "ratio"),
    Column("memory", "bytes", 4),
    Column("multiply_adds", "count", 5),
    Column("top1", "accuracy"),
    Column("difference", "points"),
    Column("difference_interval", "points_range"),
    Column("images", "count", 3),
    Column("off", "error", 6),
    Column("verdict"),
)
_MOST_LAYERS = 40
# Standard errors to either side of a 95 % interval.
_NORMAL = 1.96
# A step that gains this share of the answers, and more than a standard error, brings something, however long it takes.
_GAINED = 0.001


def run(evidence: Evidence) -> Section:
    if not evidence.fronts:
        return absent(TITLE, "nothing was made of a model", "edgewise optimize MODEL --data FOLDER")
    rows = [row for front in evidence.fronts for row in _rows(front)]
    findings = [finding for front in evidence.fronts for finding in _findings(front)]
    charts = [chart for front in evidence.fronts for chart in _charts(front)]
    return Section(TITLE, COLUMNS, tuple(rows), tuple(findings), tuple(charts))


def _rows(front: Front) -> Iterator[tuple[object, ...]]:
    whole = next((point.weight_bytes for point in front.points if point.recipe == AS_IT_IS), None)
    kept = front.pareto
    for point in front.points:
        answered = point.reported or point.decided
        yield (
            front.label,
            front.target,
            point.recipe,
            point.p50_ns,
            point.ratio[1] if point.ratio else None,
            (point.ratio[0], point.ratio[2]) if point.ratio and point.recipe != AS_IT_IS else None,
            point.weight_bytes,
            point.weight_bytes / whole if point.weight_bytes and whole else None,
            point.memory_bytes,
            point.multiply_adds,
            answered.top1 if answered else None,
            -answered.loss if answered and point.recipe != AS_IT_IS else None,
            _negative(answered.interval) if answered and point.recipe != AS_IT_IS else None,
            answered.pair.count if answered else None,
            point.error,
            _verdict(front, point, point in kept),
        )


def _negative(interval: tuple[float, float]) -> tuple[float, float]:
    return -interval[1], -interval[0]


def _verdict(front: Front, point: Point, kept: bool) -> str:
    if point.reason:
        return "not made"
    if point.recipe == front.chosen:
        return "written" if point.recipe != AS_IT_IS or front.max_loss is None else "best here"
    if front.max_loss is not None and not front.allowed(point):
        return _missed(front, point)
    return "on the front" if kept else ""


def _missed(front: Front, point: Point) -> str:
    """What of all that was asked a point does not do."""
    if point.decided is None or point.ratio is None:
        return "not known"
    if not front.accurate(point):
        return "loses too much"
    if not front.small(point):
        return "too large"
    return "too slow" if front.lean(point) else "too much memory"


def _findings(front: Front) -> Iterator[Finding]:
    about = f"{front.label} on {front.target}"
    points = {point.recipe: point for point in front.points}
    chosen = points.get(front.chosen or "")
    if chosen is not None and chosen.ratio is not None and chosen.recipe != AS_IT_IS:
        whole = points[AS_IT_IS].weight_bytes
        answered = chosen.reported or chosen.decided
        values: tuple[tuple[str, Scalar], ...] = (
            ("recipe", chosen.recipe),
            ("ratio", chosen.ratio[1]),
            ("low", chosen.ratio[0]),
            ("high", chosen.ratio[2]),
            ("weights", chosen.weight_bytes / whole if chosen.weight_bytes and whole else None),
            ("loss", answered.loss if answered else None),
            ("loss_high", answered.interval[1] if answered else None),
            ("images", answered.pair.count if answered else None),
            ("held", chosen.reported is not None),
        )
        yield Finding("optimized", "note", about, values)
        yield from _steps(about, chosen, points)
    elif front.max_loss is not None:
        yield _nothing(front, about)
    for point in front.points:
        if point.reason:
            refused = (("reason", point.reason), ("command", point.hint))
            yield Finding("recipe_refused", "note", f"{front.label} | {point.recipe}", refused)
    if front.noise:
        yield Finding("calibrated_on_noise", "caution", about)
    if front.unseen:
        yield Finding("layers_unseen", "note", about, (("reason", front.unseen), ("command", front.hint)))
    if front.note:
        yield Finding("search_ended", "caution", about, (("reason", front.note),))


def _nothing(front: Front, about: str) -> Finding:
    """Why a search ends with the model as it is, or without any."""
    tried = sum(point.recipe != AS_IT_IS for point in front.points)
    if front.chosen == AS_IT_IS and not any(map(front.gains, front.points)):
        return Finding("nothing_gains", "note", about, (("tried", tried),))
    values: tuple[tuple[str, Scalar], ...] = (
        ("max_loss", front.max_loss),
        ("tried", tried),
        ("max_weight_bytes", front.max_weight_bytes),
        ("max_memory_bytes", front.max_memory_bytes),
        ("max_p50_ns", front.max_p50_ns),
    )
    return Finding("not_optimized", "caution", about, values)


def _steps(about: str, chosen: Point, points: dict[str, Point]) -> Iterator[Finding]:
    """What each step of the chosen recipe brought beyond the one before."""
    steps = parse_recipe(chosen.recipe).steps
    before = points[AS_IT_IS]
    for count in range(1, len(steps) + 1):
        point = points.get(str(Recipe(steps[:count])))
        if point is None or point.ratio is None or before.ratio is None:
            return
        quicker = point.ratio[1] / before.ratio[1]
        smaller = point.weight_bytes / before.weight_bytes if point.weight_bytes and before.weight_bytes else None
        loss = point.loss - before.loss if point.decided else None
        values = (
            ("step", str(Recipe(steps[count - 1 : count]))),
            ("ratio", quicker),
            ("weights", smaller),
            ("loss", loss),
        )
        slow, large = quicker > 1 - SAME, smaller is None or smaller > 1 - SAME
        if slow and large and (loss is None or -loss < max(_GAINED, _error(point, before))):
            yield Finding("step_brought_nothing", "note", f"{about}, step {count}", values)
        else:
            yield Finding("step_brought", "note", f"{about}, step {count}", values)
        before = point


def _error(one: Point, other: Point) -> float:
    """The standard error of the difference of what they lose, as if they erred on different images."""
    both = [point.reported or point.decided for point in (one, other)]
    return math.hypot(*((each.interval[1] - each.interval[0]) / 2 / _NORMAL for each in both if each))


def _charts(front: Front) -> Iterator[Chart]:
    points = [point for point in front.points if point.ratio is not None]
    if any(point.decided for point in points):
        kept = front.pareto
        groups = (
            ("on the front", [point for point in points if point in kept]),
            ("others", [point for point in points if point not in kept]),
        )
        series = tuple(
            Series(
                name,
                tuple(point.ratio[1] for point in those if point.ratio),
                tuple(found.top1 if (found := point.reported or point.decided) else None for point in those),
                labels=tuple(point.recipe for point in those),
            )
            for name, those in groups
            if those
        )
        title = f"{front.label} on {front.target}: what recipes make of it"
        yield Chart("scatter", title, Axis("latency_ratio", "ratio"), Axis("top1", "accuracy"), series)
    if front.layers:
        by_kl = all(layer.kl is not None for layer in front.layers)
        values = {layer.name: (layer.kl if by_kl else layer.mse) or 0.0 for layer in front.layers}
        worst = sorted(values, key=lambda name: -values[name])[:_MOST_LAYERS]
        title = f"{front.label}: what quantizing one layer alone does to the answers"
        alone = Series("one layer in int8", tuple(worst), tuple(values[name] for name in worst))
        yield Chart("bar", title, Axis("layer"), Axis("divergence" if by_kl else "squared error", "number"), (alone,))
