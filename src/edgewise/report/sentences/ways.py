"""What is said about ways over several processors."""

from __future__ import annotations

from .. import format
from ._values import Sentences, number

SENTENCES: Sentences = {
    "way_wins": (
        lambda v: (
            f"{v['placement']} is {format.cell(v['ratio'], 'ratio')} "
            f"[{format.cell(v['low'], 'ratio')}, {format.cell(v['high'], 'ratio')}] as fast as the best single target, "
            f"{v['than']}"
        ),
        None,
    ),
    "way_alone": (
        lambda v: f"one target is best, {v['placement']}: nothing over several was told to be faster",
        None,
    ),
    "way_refused": (lambda v: f"{v['reason']}", None),
    "foreground": (
        lambda v: (
            f"a foreground task misses {format.percent(number(v['idle']))} of its deadlines with nothing beside it, "
            f"and {format.percent(number(v['worst']))} beside {v['placement']}"
        ),
        "leave a core free for it: name cores, as in ort:cpu@1#0",
    ),
}
