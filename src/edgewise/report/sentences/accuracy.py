"""What is said about answers to labelled images."""

from __future__ import annotations

from .. import format
from ._values import Sentences, Values, number


def _p(v: Values) -> str:
    shown = format.p_value(number(v["p"]))
    several = f" (corrected for {v['comparisons']} comparisons)" if number(v["comparisons"]) > 1 else ""
    return (shown if shown.startswith("<") else f"= {shown}") + several


SENTENCES: Sentences = {
    "accuracy_differs": (
        lambda v: (
            f"{v['other']} is right {'more' if number(v['difference']) > 0 else 'less'} often than {v['baseline']}: "
            f"{format.points(number(v['difference']))} points "
            f"{format.cell((v['low'], v['high']), 'points_range')}, p {_p(v)}"
        ),
        None,
    ),
    "accuracy_alike": (
        lambda v: (
            f"no difference in accuracy detectable between {v['other']} and {v['baseline']}: "
            f"{format.points(number(v['difference']))} points "
            f"{format.cell((v['low'], v['high']), 'points_range')}, p {_p(v)}"
        ),
        None,
    ),
    "no_answer": (
        lambda v: f"no output was finite for {format.percent(number(v['share']))} of the images: they count as wrong",
        "compare the outputs: edgewise bench MODEL",
    ),
    "other_classes": (
        lambda v: f"the model has {v['outputs']} outputs and the data {v['classes']} classes",
        "if the first output is a background: --preprocess '…(label_offset=1)'; else name the classes: --labels",
    ),
}
