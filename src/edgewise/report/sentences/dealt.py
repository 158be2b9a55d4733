"""What is said about streams that several targets work on."""

from __future__ import annotations

from .. import format
from ._values import Sentences, Values, number


def _together(v: Values) -> str:
    said = f"{format.cell(v['per_s'], 'rate')} together, {format.cell(v['gain'], 'ratio')} the best alone ({v['best']})"
    if v["efficiency"] is None:
        return said
    return f"{said} and {format.percent(number(v['efficiency']))} of what its targets deliver one at a time, added up"


SENTENCES: Sentences = {
    "deal_helps": (_together, None),
    "deal_equal": (lambda v: f"{_together(v)}: nothing gained", "use the best one alone"),
    "deal_harms": (lambda v: f"{_together(v)}: less than one alone", "use the best one alone"),
    "deal_rests": (lambda v: str(v["notes"]), None),
}
