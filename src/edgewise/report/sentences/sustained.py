"""Whether speed lasts."""

from __future__ import annotations

from .. import format
from ._values import Sentences, Values, number


def _change(v: Values) -> str:
    change = number(v["change"])
    return f"{format.percent(abs(change))} {'slower' if change < 0 else 'faster'}"


def _beside(v: Values) -> str:
    """What else changed, as far as it was read."""
    parts = []
    if v["before_hz"] is not None:
        before, after = format.frequency(number(v["before_hz"])), format.frequency(number(v["after_hz"]))
        parts.append(
            f"the clock fell from {before} to {after}" if v["clock_fell"] else f"the clock did not fall ({after})"
        )
    if v["before_mc"] is not None:
        before, after = format.cell(v["before_mc"], "mc"), format.cell(v["after_mc"], "mc")
        parts.append(f"the temperature was {before} before and {after} after")
    if v["before_foreign"] is not None:
        before, after = format.percent(number(v["before_foreign"])), format.percent(number(v["after_foreign"]))
        parts.append(f"others took {after} of the machine instead of {before}")
    if not parts:
        return "; neither clock nor temperature can be read here"
    return "; " + ", ".join(parts)


def _step(v: Values) -> str:
    return f"{_change(v)} from {format.time(number(v['at_ns']))} on{_beside(v)}"


_COOL = "cool the device, or plan with the speed of the last minute"

SENTENCES: Sentences = {
    "speed_held": (
        lambda v: (
            f"the speed held for {format.time(number(v['lasted_ns']))}: nine tenths of the windows lie within "
            f"{format.percent(number(v['spread']))}"
        ),
        None,
    ),
    "speed_varied": (
        lambda v: (
            f"no change of speed lasts in {format.time(number(v['lasted_ns']))}, but its windows differ by "
            f"{format.percent(number(v['spread']))}"
        ),
        "see what else ran, and measure again",
    ),
    "speed_drifted": (
        lambda v: f"slowly became {_change(v)} over {format.time(number(v['lasted_ns']))}{_beside(v)}",
        None,
    ),
    "throttled": (lambda v: f"throttled: {_step(v)}", _COOL),
    "speed_fell": (_step, "see what else ran, and measure again"),
    "speed_rose": (_step, None),
    "order_turned": (
        lambda v: (
            f"the order of the first minute does not last: {v['ahead']} was {number(v['first_ratio']):.2f}× as fast as "
            f"{v['behind']}, which at the end is {number(v['last_ratio']):.2f}× as fast as {v['ahead']}"
        ),
        None,
    ),
    "order_blurred": (
        lambda v: (
            f"{v['ahead']} was {number(v['first_ratio']):.2f}× as fast as {v['behind']} in the first minute; "
            "at the end they cannot be told apart"
        ),
        None,
    ),
    "order_held": (lambda v: f"the order of the first minute still holds at the end ({v['targets']} targets)", None),
}
