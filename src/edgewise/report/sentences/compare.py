"""What an interleaved comparison says."""

from __future__ import annotations

from .. import format
from ._values import Sentences, number

SENTENCES: Sentences = {
    "faster": (
        lambda v: (
            f"{v['other']} is {number(v['ratio']):.2f}× [{number(v['low']):.2f}, {number(v['high']):.2f}] "
            f"as fast as {v['baseline']}"
        ),
        None,
    ),
    "no_difference": (
        lambda v: (
            f"no difference above {format.percent(number(v['detectable']))} detectable between {v['other']} "
            f"and {v['baseline']}"
        ),
        None,
    ),
    "too_few_starts": (lambda v: f"{v['other']} ran in one process only: no interval", "--starts 5"),
}
