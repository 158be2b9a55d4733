"""What an inference costs in energy."""

from __future__ import annotations

from .. import format
from ._values import Sentences, number

SENTENCES: Sentences = {
    "most_efficient": (
        lambda v: (
            f"{v['target']} uses least: {format.energy(number(v['uj']))} per inference, "
            f"{format.figures(number(v['per_joule']))} inferences per joule (read by {v['source']})"
        ),
        None,
    ),
    "efficiency_tie": (
        lambda v: (
            f"{v['target']} ({format.energy(number(v['uj']))} per inference, read by {v['source']}) "
            f"cannot be told apart in energy from {v['ties']}"
        ),
        "measure longer: --scenario 'single(min_s=30, max_s=60)'",
    ),
    "fastest_is_efficient": (lambda v: f"the fastest, {v['target']}, is also the most efficient", None),
    "faster_uses_more": (
        lambda v: (
            f"{v['fastest']} is {number(v['speed']):.2f}× as fast as {v['efficient']} "
            f"and uses {number(v['energy']):.2f}× the energy"
        ),
        None,
    ),
    "mostly_idle": (
        lambda v: f"{format.percent(number(v['share']))} of the energy would have been used without any work",
        "do more at a time: --batch 8, or --scenario 'concurrent(n=4)'",
    ),
    "like_idle": (
        lambda v: (
            "what an inference uses cannot be told from idling: between "
            f"{format.energy(number(v['low_uj']))} and {format.energy(number(v['high_uj']))}"
        ),
        "measure longer, with nothing else running: --scenario 'single(min_s=30, max_s=60)'",
    ),
    "energy_estimated": (
        lambda v: (
            f"an estimate: the declared {format.power(number(v['power_uw']))} times the time, "
            "nothing was read, so it has no rank and no interval"
        ),
        None,
    ),
    "no_energy": (lambda v: f"no energy: {v['reason']}", None),
}
