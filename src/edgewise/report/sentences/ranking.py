"""What a ranking says, and whether a claim holds."""

from __future__ import annotations

from .. import format
from ._values import Sentences, Values, number


def _claim(v: Values) -> str:
    return f"p{number(v['p']) * 100:g} ≤ {format.time(number(v['bound_ns']))}"


SENTENCES: Sentences = {
    "fastest": (lambda v: f"{v['target']} is fastest at {format.time(number(v['p50_ns']))}", None),
    "most": (lambda v: f"{v['target']} does the most: {format.figures(number(v['per_s']))}/s", None),
    "tie": (
        lambda v: f"{v['target']} ({format.time(number(v['p50_ns']))}) cannot be told apart from {v['ties']}",
        "compare them interleaved: edgewise compare MODEL --on A --on B",
    ),
    "certified": (lambda v: f"{_claim(v)} is certified at 99 % confidence", None),
    "refuted": (lambda v: f"{_claim(v)} is refuted: {format.percent(number(v['share']))} took longer", None),
    "undecided": (
        lambda v: (
            f"{_claim(v)} is not decided: {format.percent(number(v['share']))} took longer, and up to "
            f"{format.percent(number(v['upper']))} may"
        ),
        "measure longer: --scenario 'single(width=0, max_s=60)'",
    ),
}
