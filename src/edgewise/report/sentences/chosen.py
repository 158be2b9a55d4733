"""What is said about choosing a model for each image."""

from __future__ import annotations

from .. import format
from ._values import Sentences, Values, number

_COSTS = {"time": "the time", "energy": "the energy", "memory": "the memory"}


def _cheaper(v: Values) -> str:
    points = f"at {format.points(number(v['difference']))} points of accuracy"
    if v["ratio"] is None:
        return f"choosing between {v['candidates']} candidates costs nothing, {points}"
    return (
        f"{v['best']} alone would take {format.times(number(v['ratio']))}× {_COSTS[str(v['objective'])]} that choosing "
        f"between {v['candidates']} candidates takes, {points} against it"
    )


def _cheapest(v: Values) -> str:
    ratio = f"{number(v['ratio']):.2f}× [{number(v['low']):.2f}, {number(v['high']):.2f}]"
    span = format.cell((v["difference_low"], v["difference_high"]), "points_range")
    return (
        f"{v['method']} is cheapest of those shown to lose at most {number(v['allowed']) * 100:.2g} points: the best "
        f"candidate alone takes {ratio} {_COSTS[str(v['objective'])]}, prices taken as exact; accuracy differs by "
        f"{format.points(number(v['difference']))} points {span}, on {v['images']:,} images held out"
    )


def _skipped(v: Values) -> str:
    count = int(number(v["count"]))
    were = "image was" if count == 1 else "images were"
    return f"{count:,} of {v['images']:,} {were} passed over: {v['names']} ({v['reason']})"


def _lived(v: Values) -> str:
    ratio = number(v["live_ns"]) / number(v["replayed_ns"])
    distinct = v["images"] if v["distinct"] is None else v["distinct"]
    again = "" if distinct == v["images"] else f" ({distinct:,} different ones)"
    answers = ""
    if v["same"] != 1:
        asked = (
            "" if v["alike"] is None else f", of {format.percent(number(v['alike']))} the same candidates were asked"
        )
        answers = f"; {format.percent(number(v['same']))} were answered just as replayed{asked}"
    return (
        f"run live on {v['images']:,} images{again}, one takes {format.time(number(v['live_ns']))} on average, "
        f"{format.times(ratio)}× the {format.time(number(v['replayed_ns']))} of replaying "
        f"({format.time(number(v['planned_ns']))} by what the plan says of costs){answers}"
    )


SENTENCES: Sentences = {
    "chooser_cheaper": (_cheaper, None),
    "chooser_alone": (
        lambda v: f"no choice between candidates is cheaper at that accuracy: {v['name']} answers all images",
        "allow some loss: --max-loss 0.5; or add candidates",
    ),
    "chooser_refuses": (lambda v: f"{format.percent(number(v['share']))} of the images are answered by nobody", None),
    "chooser_promise": (
        lambda v: (
            f"with a probability of {format.percent(1 - number(v['delta']))}, it is right at most "
            f"{number(v['epsilon']) * 100:.2f} points less often than {v['reference']} alone, on images like the "
            f"{v['images']:,} this was shown on"
            if v["images"]
            else f"nothing cheaper than asking {v['reference']} about every image could be shown to lose so little"
        ),
        None,
    ),
    "chooser_drift": (
        lambda v: f"these {v['images']:,} images are not like those that the promise was shown on: it does not apply",
        "fit it again on images like these: edgewise select fit",
    ),
    "chooser_fitted": (
        lambda v: (
            f"these figures are of the {v['images']:,} images it was fitted on"
            if v["fitted"] == v["images"]
            else f"it was fitted on {v['fitted']:,} of these {v['images']:,} images"
        ),
        "on images it was not fitted on: edgewise select evaluate PLAN",
    ),
    "images_skipped": (_skipped, None),
    "priced_apart": (
        lambda v: (
            f"candidates could not be tried in one process: {v['reason']}; what they cost each other is not counted"
        ),
        None,
    ),
    "method_cheapest": (_cheapest, None),
    "method_none": (
        lambda v: (
            f"of no method do {v['images']:,} images show that it is cheaper than the best candidate alone and loses "
            f"at most {number(v['allowed']) * 100:.2g} points"
        ),
        "more images tell smaller differences; or fit with a larger --max-loss",
    ),
    "live_agrees": (_lived, None),
    "live_differs": (
        _lived,
        "where other work ran beside it, once more without: edgewise select evaluate PLAN; where it says so again, "
        "replaying leaves out something that this machine does: go by the live time, edgewise bench PLAN",
    ),
}
