"""What is said about choosing a model for each input."""

from __future__ import annotations

from .. import format
from ._values import Sentences, Values, number

_WORDS = {"time": "time", "energy": "energy", "memory": "memory"}


def _points(value: object) -> str:
    return f"{100 * number(value):+.2f}"


def _well(v: Values) -> str:
    return (
        f"{v['method']} takes {format.cell(v['ratio'], 'ratio')} [{format.cell(v['low'], 'ratio')}, "
        f"{format.cell(v['high'], 'ratio')}] of the best single model's {_WORDS[str(v['objective'])]}, "
        f"{_points(v['difference'])} points of accuracy, at least {_points(v['difference_low'])} at 95 % "
        f"({v['images']} images, each held out once)"
    )


SENTENCES: Sentences = {
    "chosen_well": (_well, None),
    "no_better_than_mixing": (
        lambda v: (
            f"{v['method']} is no better than drawing among single models at random so that the same "
            f"{_WORDS[str(v['objective'])]} is spent"
        ),
        None,
    ),
    "images_skipped": (
        lambda v: f"{v['count']} images of {v['data']} could not be decoded and were left out",
        None,
    ),
    "live_agrees": (
        lambda v: (
            f"run live on {v['images']} images, one took {format.time(number(v['mean_ns']))} in the mean, "
            f"{format.time(number(v['replayed_ns']))} by the table: {100 * number(v['apart']):+.1f} %"
        ),
        None,
    ),
    "live_differs": (
        lambda v: (
            f"run live on {v['images']} images, one took {format.time(number(v['mean_ns']))} in the mean, and "
            f"{format.time(number(v['replayed_ns']))} by the table: {100 * number(v['apart']):+.1f} %, more than 5 %"
        ),
        "measure again on a quiet machine",
    ),
    "premodel_takes": (lambda v: f"of {v['of']} candidates the premodel takes {v['candidates']}", None),
    "features_matter_not": (
        lambda v: f"none of {v['features']} features costs accuracy when it is left out: they say nothing here",
        None,
    ),
}
