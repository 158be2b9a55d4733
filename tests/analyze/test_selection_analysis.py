"""What is said about choosing a model for each input, on outcomes whose answers are known."""

from dataclasses import replace

from edgewise.analyze import premodel, selection
from edgewise.analyze.evidence import Evidence
from edgewise.core.choice import Estimate, Method, Selection, Spot
from edgewise.core.chooser import Live
from edgewise.core.selected import Looked, Round, Selected, Tried
from edgewise.report.sentences import remedy, sentence


def about(value: float, width: float = 0.01) -> Estimate:
    return Estimate(value - width, value, value + width)


def method(name: str, cost: float, accuracy: float, over: float = 0.0, **more: object) -> Method:
    found = Method(
        name=name,
        kind=name,
        accuracy=about(accuracy),
        cost=about(cost, 10.0),
        difference=about(accuracy - 0.8, 0.002),
        ratio=about(cost / 1000),
        p=0.5,
        gap_closed=0.0,
        hull_ratio=None,
        over_hull=over,
        precision=accuracy,
        recall=accuracy,
        f1=accuracy,
        asked=(1.0, 0.4),
        answered=(0.6, 0.4),
        refused=0.0,
        overhead_ns=0.0,
    )
    return replace(found, **more)  # type: ignore[arg-type]


SMALL, LARGE = method("small", 200, 0.7), method("large", 1000, 0.8)
CASCADE = method("cascade", 480, 0.8, over=0.05)
POOR = method("premodel", 900, 0.75, over=-0.02)
ORACLE = method("oracle", 300, 0.9, over=0.1)


def planted(*methods: Method, **more: object) -> Selected:
    corners = (Spot(200, 0.7), Spot(1000, 0.8))
    both = ("small", "large")
    found = Selection(both, "time", 1, 2000, 10, 0, (0, 10), LARGE, (SMALL, LARGE), methods, ORACLE, corners)
    return replace(Selected("two nets", "here", "scenes", found), **more)  # type: ignore[arg-type]


def said(selected: Selected) -> dict[str, str]:
    return {each.code: sentence(each) for each in selection.run(Evidence(selected=(selected,))).findings}


def test_the_cheapest_method_is_told_with_what_it_loses() -> None:
    bold = method("bold", 200, 0.79, over=0.02)
    text = said(planted(CASCADE, bold, POOR))["method_cheapest"]
    assert text.startswith("cascade is cheapest of those shown to lose at most 0.5 points: the best candidate alone")
    assert "takes 2.08× [2.04, 2.13] the time, prices taken as exact" in text
    assert "2,000 images held out" in text


def test_a_method_that_may_lose_much_is_not_called_as_accurate() -> None:
    """Four points less, and a wide interval that just reaches zero: nothing is shown by that."""
    vague = method("vague", 300, 0.76, over=0.02, difference=Estimate(-0.081, -0.04, 0.001))
    found = said(planted(vague))
    assert "method_cheapest" not in found
    assert found["method_none"].startswith("of no method do 2,000 images show that it is cheaper")
    assert "loses at most 0.5 points" in found["method_none"]
    whole = planted(vague)
    allowed = replace(whole, selection=replace(whole.selection, max_loss=0.1))
    assert "shown to lose at most 10 points" in said(allowed)["method_cheapest"]


def test_another_precision_or_allowance_is_another_question() -> None:
    whole = planted(CASCADE)
    others = (
        replace(whole.selection, candidates=("small on ort:cpu:int8", "large")),
        replace(whole.selection, max_loss=0.01),
        replace(whole.selection, objective="energy"),
    )
    assert len({whole.key, *(replace(whole, selection=each).key for each in others)}) == 4


def test_confidence_and_the_cost_of_mixing_have_columns() -> None:
    whole = planted(replace(CASCADE, hull_ratio=0.48))
    found = replace(whole, selection=replace(whole.selection, calibration=((0.1, 0.02), (0.05, 0.01))))
    section = selection.run(Evidence(selected=(found,)))
    names = [column.name for column in section.columns]
    rows = {row[1]: dict(zip(names, row, strict=True)) for row in section.rows}
    assert (rows["small"]["calibration_error"], rows["small"]["calibrated_error"]) == (0.1, 0.02)
    assert rows["cascade"]["calibration_error"] is None and rows["cascade"]["mix_ratio"] == 0.48


def test_energy_and_memory_stand_beside_time_where_they_are_known() -> None:
    section = selection.run(Evidence(selected=(planted(replace(CASCADE, energy_uj=30.0, memory_bytes=5e6)),)))
    names = [column.name for column in section.columns]
    rows = {row[1]: dict(zip(names, row, strict=True)) for row in section.rows}
    assert (rows["cascade"]["energy"], rows["cascade"]["memory"]) == (30.0, 5e6)
    assert rows["small"]["energy"] is None
    whole = planted(replace(CASCADE, energy_uj=30.0))
    saved = replace(whole, selection=replace(whole.selection, objective="energy"))
    (row,) = [row for row in selection.run(Evidence(selected=(saved,))).rows if row[1] == "cascade"]
    assert dict(zip(names, row, strict=True))["energy"] is None, "that is its cost"


def test_a_method_no_better_than_chance_among_models_is_called_that() -> None:
    found = said(planted(POOR))
    assert "premodel is no better than drawing among single models at random" in found["no_better_than_mixing"]
    assert "method_none" in found


def test_replayed_and_live_times_that_differ_are_a_caution() -> None:
    live = Live(2000, 500.0, 495.0, 480.0, 1.0, 0.8)
    assert "live_agrees" in said(planted(CASCADE, live=live))
    text = said(planted(CASCADE, live=replace(live, same=0.9, alike=0.95, distinct=120)))["live_agrees"]
    assert "2,000 images (120 different ones)" in text and "480 ns by what the plan says" in text
    assert "90 % were answered just as replayed, of 95 % the same candidates were asked" in text
    assert "1.25×" in said(planted(CASCADE, live=replace(live, replayed_ns=400.0)))["live_differs"]


def test_a_live_time_that_differs_has_two_causes_and_a_command_for_each() -> None:
    slower = planted(CASCADE, live=Live(2000, 500.0, 400.0, 400.0, 1.0, 0.8))
    (found,) = [each for each in selection.run(Evidence(selected=(slower,))).findings if each.code == "live_differs"]
    advice = remedy(found) or ""
    assert "other work ran beside it" in advice and "edgewise select evaluate PLAN" in advice
    assert "where it says so again" in advice and "edgewise bench PLAN" in advice


def test_rows_have_everybody_and_charts_the_mix() -> None:
    section = selection.run(Evidence(selected=(planted(CASCADE, POOR),)))
    assert [row[1] for row in section.rows] == ["large", "small", "large", "cascade", "premodel", "oracle"]
    plane, words, measures = section.charts
    assert [series.name for series in plane.series] == ["single models", "mixed at random", "methods", "oracle"]
    assert plane.series[1].y == (0.7, 0.8)
    assert [series.name for series in words.series] == ["small", "large"]
    assert measures.series[0].name == "precision"


def test_costs_are_drawn_in_the_unit_of_the_objective() -> None:
    whole = planted(CASCADE)
    joules = replace(whole, selection=replace(whole.selection, objective="energy"))
    section = selection.run(Evidence(selected=(joules,)))
    assert next(column.unit for column in section.columns if column.name == "cost") == "uj"
    assert section.charts[0].x.unit == "uj"
    looked = premodel.run(Evidence(selected=(replace(joules, looked=LOOKED),)))
    assert next(column.unit for column in looked.columns if column.name == "cost") == "uj"
    costs = [chart for chart in looked.charts if "energy of an image" in chart.title]
    assert [chart.y.unit for chart in costs] == ["uj", "uj"]


def test_nothing_evaluated_says_how_to() -> None:
    for analysis in (selection, premodel):
        assert [each.code for each in analysis.run(Evidence()).findings] == ["absent"]


LOOKED = Looked(
    (0.7, 0.1),
    (Round(0, (0.7, 0.8), 1000), Round(1, (0.0, 0.4), 300)),
    (("contrast", 0.01), ("hue1", -0.002)),
    (method("knn", 700, 0.76), method("tree", 710, 0.75)),
    (Tried(1, 0.7, 200, 190, 220), Tried(2, 0.76, 700, 200, 1100)),
    (Tried(1, 0.75, 690, 200, 1100), Tried(7, 0.76, 700, 200, 1100)),
)


def test_the_premodel_is_looked_into() -> None:
    section = premodel.run(Evidence(selected=(planted(POOR, looked=LOOKED),)))
    assert [row[1] for row in section.rows] == ["knn", "tree"]
    told = {each.code: sentence(each) for each in section.findings}
    assert told == {"premodel_takes": "of 2 candidates the premodel takes small, large"}
    titles = [chart.title for chart in section.charts]
    assert len(titles) == 7 and "accuracy the premodel loses without a feature" in titles[2]
    assert section.charts[2].series[0].x == ("contrast", "hue1")
    assert section.charts[1].series[1].name == "on what is wrong up to small"


def test_features_that_say_nothing_are_called_that() -> None:
    useless = replace(LOOKED, importance=(("contrast", 0.0), ("hue1", -0.01)))
    section = premodel.run(Evidence(selected=(planted(POOR, looked=useless),)))
    told = [sentence(each) for each in section.findings if each.code == "features_matter_not"]
    assert told == ["none of 2 features costs accuracy when it is left out: they say nothing here"]
