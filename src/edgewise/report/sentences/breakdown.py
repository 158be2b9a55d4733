"""Where the time of an inference goes."""

from __future__ import annotations

from .. import format
from ._values import Sentences, number

SENTENCES: Sentences = {
    "profiled": (
        lambda v: (
            f"operators add up to {format.time(number(v['sum_ns']))}, "
            f"{format.percent(number(v['sum_ns']) / number(v['plain_ns']))} of an inference "
            f"({format.time(number(v['plain_ns']))}); instrumented it takes "
            f"{format.time(number(v['instrumented_ns']))}, "
            f"{number(v['instrumented_ns']) / number(v['plain_ns']):.2f}× as long "
            f"(medians of {v['runs']} runs, taken in turns)"
        ),
        None,
    ),
}
