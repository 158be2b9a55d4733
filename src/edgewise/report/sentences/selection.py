"""What is said about methods of choosing, and about the premodel."""

from __future__ import annotations

from ._values import Sentences, Values


def _poor(v: Values) -> str:
    are = "is" if v["count"] == 1 else "are"
    return (
        f"{v['methods']} {are} no better than drawing among single models at random so that the same {v['objective']} "
        "is spent"
    )


SENTENCES: Sentences = {
    "no_better_than_mixing": (_poor, None),
    "premodel_takes": (lambda v: f"of {v['of']} candidates the premodel takes {v['candidates']}", None),
    "features_matter_not": (
        lambda v: f"none of {v['features']} features costs accuracy when it is left out: they say nothing here",
        None,
    ),
}
