"""What a measurement has to say against itself."""

from __future__ import annotations

import math

from .. import format
from ._values import Sentences, Values, number


def _modes(v: Values) -> str:
    pairs = [piece.split(":") for piece in str(v["modes"]).split(", ")]
    shown = ", ".join(f"{format.time(float(at))} ({float(share):.0%})" for at, share in pairs)
    how = {
        "mixed": "changing from run to run",
        "phases": f"staying about {number(v['dwell']):.0f} runs in each",
        "alternating": "taking turns",
    }.get(str(v["alternation"]), "")
    return f"latency has {len(pairs)} modes: {shown}, {how}"


def _disagreement(v: Values) -> str:
    if math.isinf(number(v["error"])):
        return "outputs overflow where the reference's do not"
    return (
        f"outputs differ from the reference by {format.percent(number(v['error']))} (root mean square), more than "
        f"{v['precision']} explains ({format.percent(number(v['explained']))})"
    )


SENTENCES: Sentences = {
    "foreign_load": (
        lambda v: f"other processes took {format.percent(number(v['share']))} of the machine meanwhile",
        "close them and measure again",
    ),
    "stolen_time": (
        lambda v: f"the hypervisor took {format.percent(number(v['share']))} of the machine meanwhile",
        "measure on a machine of its own, or at another time",
    ),
    "never_steady": (
        lambda v: f"still changing after {v['runs']} warm-up runs",
        "allow more time: --scenario 'single(max_s=60)'",
    ),
    "drifting": (
        lambda v: (
            f"latency drifted by {format.percent(number(v['change']))} during the measurement, so it has no interval"
        ),
        "let the device cool down, or measure longer: --scenario 'single(max_s=60)'",
    ),
    "wide_interval": (
        lambda v: (
            f"the interval is {format.percent(number(v['width']))} wide, {format.percent(number(v['asked']))} "
            "were asked for"
        ),
        "allow more time: --scenario 'single(max_s=60)'",
    ),
    "several_modes": (_modes, None),
    "disagrees": (_disagreement, "measure accuracy before using it"),
    "same_answer": (
        lambda v: (
            f"{v['precision']} gives the same answer as the reference, "
            + (
                f"though the engine reports {v['reported']} operators in it"
                if v["reported"]
                else "so it may not be used"
            )
        ),
        None,
    ),
    "not_compared": (lambda v: "outputs were not compared: the reference cannot run this model", None),
    "nothing_computed": (lambda v: "the null engine computes nothing: this is not a model's latency", None),
    "fell_back": (lambda v: f"not all ran on the device asked for: {v['devices']}", None),
    "clock_dropped": (
        lambda v: (
            f"the clock fell from {format.frequency(number(v['before_hz']))} to "
            f"{format.frequency(number(v['after_hz']))}"
        ),
        "let the device cool down first: --scenario 'single(cooldown_s=30)'",
    ),
    "late_generator": (
        lambda v: (
            f"requests were sent up to {format.time(number(v['late_ns']))} late; their latency counts from when "
            "they were due"
        ),
        None,
    ),
    "emulated": (lambda v: f"{v['device']}: this shows that it works, not how fast such a device is", None),
    "contention": (lambda v: f"measured beside competing processes: {v['contention']}", None),
}
