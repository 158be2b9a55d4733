"""What a race says: who won, how surely, what was left out; and what has changed since a plan was made."""

from __future__ import annotations

from .. import format
from ._values import Sentences, Values, number

_MOST_NAMES = 3
_COSTS = {"throughput": "the time per item", "memory": "the memory", "energy": "the energy"}
_WORSE = {"latency": "slower", "throughput": "slower", "memory": "larger", "energy": "hungrier"}


def _p50(v: Values) -> str:
    if v["low_ns"] is None:
        return format.time(number(v["p50_ns"]))
    return f"{format.time(number(v['p50_ns']))} {format.time_range(number(v['low_ns']), number(v['high_ns']))}"


def _times(v: Values) -> str:
    """The winner against another."""
    shown = f"{number(v['ratio']):.2f}× [{number(v['low']):.2f}, {number(v['high']):.2f}]"
    if v["prefer"] in _COSTS:
        return f"{v['other']} takes {shown} {_COSTS[str(v['prefer'])]} of it"
    return f"it is {shown} as fast as {v['other']}"


def _claim(v: Values) -> str:
    return f"p{number(v['p']) * 100:g} ≤ {format.time(number(v['bound_ns']))}"


def _apart(v: Values) -> str:
    """What an interval that reaches 1 comes to."""
    return ": no difference shown" if number(v["low"]) <= 1 <= number(v["high"]) else ""


def _ties(v: Values) -> str:
    """All by name while they are few."""
    ties = str(v["ties"]).split(", ")
    names = ", ".join(ties[:_MOST_NAMES])
    more = len(ties) - _MOST_NAMES
    return f"{names} and {more} more are" if more > 0 else f"{names} {'are' if len(ties) > 1 else 'is'}"


def _rest(v: Values) -> str:
    count, rate = int(number(v["others"])), format.percent(number(v["error_rate"]))
    which = "the other one is" if count == 1 else f"the other {count} are"
    return f"; {which} {_WORSE[str(v['prefer'])]} or out (error rate {rate})" if count else f" (error rate {rate})"


def _accuracy(v: Values) -> str:
    shown = f"top-1 is {format.cell(v['top1'], 'accuracy')} on {v['images']:,} images of {v['data']}"
    if v["same"]:
        return shown
    change = f"{format.points(number(v['difference']))} points {format.cell((v['low'], v['high']), 'points_range')}"
    return f"{shown}: {change} against {v['than']}"


SENTENCES: Sentences = {
    "race_won": (
        lambda v: (
            f"{v['target']} wins: p50 {_p50(v)} measured afresh{_rest(v)}"
            if v["others"]
            else f"{v['target']} was the only candidate: p50 {_p50(v)} measured afresh"
        ),
        None,
    ),
    "race_tied": (
        lambda v: (
            f"{v['target']} is chosen: p50 {_p50(v)} measured afresh; {_ties(v)} tied "
            f"with it and could save at most {format.percent(number(v['gain']))}{_rest(v)}"
        ),
        None,
    ),
    "race_baseline": (
        lambda v: (
            f"{_times(v)}{' as installed' if v['installed'] else ''}{', the runner-up' if v['both'] else ''}{_apart(v)}"
        ),
        None,
    ),
    "race_no_better": (
        lambda v: (
            f"{v['target']} is what {'comes installed' if v['installed'] else 'the winner was to be set beside'}: "
            "nothing was shown to be better"
        ),
        None,
    ),
    "race_runner_up": (lambda v: f"{_times(v)}, the runner-up{_apart(v)}", None),
    "race_overturned": (
        lambda v: f"{v['was']} won the race, and fresh processes showed {v['target']} to be better",
        None,
    ),
    "no_winner": (lambda v: f"no candidate runs, answers right and keeps every bound: {v['reasons']}", None),
    "race_out_memory": (
        lambda v: f"{v['count']} out for taking more than {format.size(number(v['bound_bytes']))}",
        None,
    ),
    "race_out_late": (lambda v: f"{v['count']} out for not keeping {_claim(v)}", None),
    "race_out_undecided": (lambda v: f"{v['count']} out since {_claim(v)} could be neither shown nor refuted", None),
    "race_out_inaccurate": (
        lambda v: f"{v['count']} out: a loss of top-1 above {number(v['bound']) * 100:g} points could not be ruled out",
        None,
    ),
    "race_certified": (lambda v: f"{_claim(v)} is certified at 99 % confidence", None),
    "race_estimated": (
        lambda v: "energy is the declared power times the time: an estimate, nothing was read",
        None,
    ),
    "race_accuracy": (_accuracy, None),
    "race_unmeasured": (lambda v: f"what {v['precision']} costs in accuracy was not measured", None),
    "race_fp32": (lambda v: f"{_times(v)}, the best seen in fp32{_apart(v)}", None),
    "race_cost": (
        lambda v: (
            f"{v['candidates']} candidates in {v['heats']} heats, {format.time(number(v['took_s']) * 1e9)} in all; "
            f"{v['first']} went home after one start"
        ),
        None,
    ),
    "not_tried": (lambda v: f"not tried: {v['what']}", None),
    "other_machine": (
        lambda v: f"the plan was made on {v['made_on']}, and this is {v['here']}: another target may be best here",
        "edgewise tune MODEL",
    ),
    "other_versions": (
        lambda v: f"the plan was made with {v['engine']} {v['made_with']}, and {v['here']} is installed",
        "edgewise tune MODEL",
    ),
}
