"""What fewer bits buy."""

from __future__ import annotations

from .. import format
from ._values import Sentences, Values, number


def _ratio(v: Values) -> str:
    return f"{number(v['speed']):.2f}× [{number(v['low']):.2f}, {number(v['high']):.2f}]"


def _eaten(v: Values) -> str:
    if v["converting"] is None:
        return ""
    return f"; changing formats takes {format.percent(number(v['converting']))} of an inference"


SENTENCES: Sentences = {
    "precision_pays": (lambda v: f"{v['precision']} is {_ratio(v)} as fast as fp32{_eaten(v)}", None),
    "precision_unsure": (
        lambda v: (
            f"{v['precision']} was {number(v['speed']):.2f}× as fast as fp32, but one of the two drifted or has too "
            f"few runs for an interval{_eaten(v)}"
        ),
        "take turns: edgewise compare MODEL --on FP32 --on OTHER",
    ),
    "precision_even": (
        lambda v: f"{v['precision']} cannot be told apart from fp32 in speed ({_ratio(v)}){_eaten(v)}",
        None,
    ),
    "precision_costs": (
        lambda v: f"{v['precision']} is slower than fp32 here: {_ratio(v)} as fast{_eaten(v)}",
        "see where the time goes: edgewise profile MODEL --on TARGET",
    ),
}
