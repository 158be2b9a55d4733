"""What is said of recipes, on fronts whose answers are known."""

from dataclasses import replace
from io import StringIO

from edgewise.analyze import front as analysis
from edgewise.analyze.evidence import Evidence
from edgewise.core.front import AS_IT_IS, Answered, Front, Layer, Point
from edgewise.core.stats import Discordance
from edgewise.report import terminal
from edgewise.report.sentences import sentence


def answered(lost: int, won: int = 0, count: int = 2000, right: int = 1500) -> Answered:
    return Answered(right - lost + won, Discordance(lost, won, count))


def point(recipe: str, ratio: float, lost: int = 0, weights: int = 100, **more: object) -> Point:
    near = (ratio * 0.99, ratio, ratio * 1.01)
    return Point(recipe, recipe, weights, p50_ns=1e6 * ratio, ratio=near, decided=answered(lost), **more)  # type: ignore[arg-type]


AS_IS = point(AS_IT_IS, 1.0)
FUSED = point("fuse", 1.0)
SMALL = point("fuse | quantize", 0.25, 4, 25)
PRUNED = point("fuse | prune(cost=0.7) | quantize", 0.18, 8, 18)
WRECKED = point("fuse | prune(cost=0.3) | quantize", 0.10, 300, 9)


def planted(*points: Point, chosen: str | None = None, max_loss: float | None = 0.01) -> Front:
    return Front("m", "net", "here", "ort:cpu@1", points, chosen, "images", 8000, max_loss)


def codes(front: Front) -> dict[str, str]:
    return {finding.code: sentence(finding) for finding in analysis.run(Evidence(fronts=(front,))).findings}


def test_the_quickest_that_loses_no_more_than_allowed_is_best() -> None:
    front = planted(AS_IS, FUSED, SMALL, PRUNED, WRECKED)
    assert front.best == PRUNED
    assert not front.allowed(WRECKED)


def test_what_gains_nothing_is_not_chosen_over_the_model_as_it_is() -> None:
    barely = point("fuse | prune(cost=0.9)", 0.985)
    unsure = Point("reorder", "r", 100, p50_ns=0.9e6, ratio=(0.7, 0.9, 1.1), decided=answered(0))
    slower = point("fuse | quantize", 1.3, 2, 25)
    front = planted(AS_IS, FUSED, barely, unsure, slower, WRECKED)
    assert front.best == AS_IS
    assert [point.recipe for point in front.points if front.gains(point)] == [WRECKED.recipe]
    # Smaller and as quick is a gain; and so is anything, where the model as it is does not do what was asked.
    smaller = point("quantize", 1.005, 2, 25)
    assert planted(AS_IS, FUSED, smaller).best == smaller
    assert replace(planted(AS_IS, FUSED), max_p50_ns=0.5e6).best is None
    quick_enough = replace(FUSED, p50_ns=0.99e6)
    assert replace(planted(AS_IS, quick_enough), max_p50_ns=0.995e6).best == quick_enough


def test_what_takes_more_memory_than_it_may_is_not_chosen() -> None:
    lean, large = replace(SMALL, memory_bytes=90), replace(PRUNED, memory_bytes=110)
    front = replace(planted(AS_IS, lean, large, chosen=lean.recipe), max_memory_bytes=100)
    # As it is it was not asked how much it takes, which may be too much.
    assert front.best == lean and not front.allowed(AS_IS)
    rows = analysis.run(Evidence(fronts=(front,))).rows
    assert [row[-1] for row in rows] == ["too much memory", "written", "too much memory"]
    none = replace(planted(AS_IS, large), max_memory_bytes=100_000, max_weight_bytes=4_000_000, max_p50_ns=2e6)
    assert codes(replace(none, max_memory_bytes=100_000))["not_optimized"].endswith(
        "no more than 1 points within 3.81 MiB of weights, 97.7 KiB of memory, 2.00 ms"
    )


def test_of_those_as_quick_the_smaller_is_better() -> None:
    smaller = point("reorder | quantize", 0.181, 8, 12)
    assert planted(AS_IS, PRUNED, smaller).best == smaller


def test_the_front_has_nothing_that_another_beats_at_both() -> None:
    worse = point("prune(cost=0.9)", 0.9, 50)
    front = planted(AS_IS, SMALL, PRUNED, WRECKED, worse)
    assert front.pareto == (WRECKED, PRUNED, SMALL, AS_IS)


def test_says_what_was_written_and_what_each_step_brought() -> None:
    front = planted(AS_IS, FUSED, point("fuse | prune(cost=0.7)", 0.72, 6, 70), PRUNED, chosen=PRUNED.recipe)
    section = analysis.run(Evidence(fronts=(front,)))
    said = [sentence(finding) for finding in section.findings]
    assert "takes 0.18× [0.18×, 0.18×] of the time and 0.18× of the weights' bytes" in said[0]
    assert "loses 0.40 points" in said[0]
    assert any(text.startswith("fuse: 1.00× of the time") and "brings nothing here" in text for text in said)
    assert any(text.startswith("quantize: 0.25× of the time before it") for text in said)
    assert [row[-1] for row in section.rows] == ["on the front", "", "on the front", "written"]
    assert {chart.kind for chart in section.charts} == {"scatter"}


def test_a_step_that_only_wins_answers_back_brings_something() -> None:
    learned = point("prune(cost=0.7) | distill", 0.72, 2, 70)
    front = planted(AS_IS, point("prune(cost=0.7)", 0.72, 20, 70), learned, chosen=learned.recipe)
    (told,) = [text for text in map(sentence, analysis.run(Evidence(fronts=(front,))).findings) if "distill: " in text]
    assert told == "distill: 1.00× of the time before it, 1.00× of the bytes, 0.90 points gained"


def test_says_that_nothing_was_found_and_why_a_recipe_is_missing() -> None:
    refused = Point("fuse | lowrank(cost=0.2)", reason="no layer can be factored")
    found = codes(planted(AS_IS, WRECKED, refused))
    assert "none of 2 recipes" in found["not_optimized"]
    assert found["recipe_refused"] == "no layer can be factored"


def test_says_that_nothing_helps_or_only_what_loses_too_much() -> None:
    nothing = planted(AS_IS, FUSED, chosen=AS_IT_IS)
    found = codes(nothing)
    assert "nothing helps here: of 1 recipes none" in found["nothing_gains"] and "not_optimized" not in found
    assert [row[-1] for row in analysis.run(Evidence(fronts=(nothing,))).rows] == ["best here", ""]
    assert set(codes(planted(AS_IS, FUSED, WRECKED, chosen=AS_IT_IS))) == {"not_optimized"}
    # Somebody who asks for the recipe `none` is told nothing of a search.
    assert not codes(planted(AS_IS, chosen=AS_IT_IS, max_loss=None))


def test_a_terminal_shows_what_every_step_brought() -> None:
    front = planted(AS_IS, FUSED, point("fuse | prune(cost=0.7)", 0.72, 6, 70), PRUNED, chosen=PRUNED.recipe)
    shown = StringIO()
    terminal.draw(analysis.run(Evidence(fronts=(front,))), terminal.console(shown))
    lines = [line for line in shown.getvalue().splitlines() if ", step " in line]
    assert [line.partition("step ")[2].split(": ")[:2] for line in lines] == [
        ["1", "fuse"],
        ["2", "prune(cost=0.7)"],
        ["3", "quantize"],
    ]


def test_layers_that_mind_are_drawn() -> None:
    layers = (Layer("conv2", 0.01, 0.05), Layer("conv1", 0.1, 0.2))
    front = Front("m", "net", "here", "ort:cpu@1", (AS_IS,), layers=layers)
    (chart,) = [chart for chart in analysis.run(Evidence(fronts=(front,))).charts if chart.kind == "bar"]
    assert chart.series[0].x == ("conv1", "conv2")


def test_nothing_made_says_which_command_makes_it() -> None:
    (finding,) = analysis.run(Evidence()).findings
    assert finding.code == "absent"
