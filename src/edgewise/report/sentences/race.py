"""What a race says: who won, how surely, what was left out; and what has changed since a plan was made."""

from __future__ import annotations

from .. import format
from ._values import Sentences, Values, number

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
    return f"{shown} as fast as {v['other']}"


def _out(v: Values) -> str:
    which = {
        "memory": lambda: f"take more than {format.size(number(v['bound']))}",
        "late": lambda: f"do not keep p{number(v['p']) * 100:g} ≤ {format.time(number(v['bound']))}",
        "undecided": lambda: (
            f"could not be shown to keep p{number(v['p']) * 100:g} ≤ {format.time(number(v['bound']))}"
        ),
        "inaccurate": lambda: f"may lose more than {number(v['bound']) * 100:g} points of top-1, or lost them",
    }
    return f"{v['count']} out: they {which[str(v['status'])]()}"


def _accuracy(v: Values) -> str:
    shown = f"top-1 is {format.cell(v['top1'], 'accuracy')} on {v['images']:,} images of {v['data']}"
    if v["same"]:
        return shown
    change = f"{format.points(number(v['difference']))} points {format.cell((v['low'], v['high']), 'points_range')}"
    return f"{shown}: {change} against {v['than']}"


SENTENCES: Sentences = {
    "race_won": (
        lambda v: (
            f"{v['target']} wins at {_p50(v)}: all {int(number(v['candidates'])) - 1} others are "
            f"{_WORSE[str(v['prefer'])]} or out (error rate {format.percent(number(v['error_rate']))})"
        ),
        None,
    ),
    "race_tied": (
        lambda v: (
            f"{v['target']} is chosen at {_p50(v)}; {v['ties']} cannot be told from it, and may cost up to "
            f"{format.percent(number(v['gain']))} less; all others of {v['candidates']} are "
            f"{_WORSE[str(v['prefer'])]} or out (error rate {format.percent(number(v['error_rate']))})"
        ),
        None,
    ),
    "race_baseline": (lambda v: f"measured afresh in turns: {_times(v)} as installed", None),
    "race_as_installed": (lambda v: f"{v['target']} is what comes installed: nothing here is better", None),
    "race_runner_up": (lambda v: f"measured afresh in turns: {_times(v)}, the runner-up", None),
    "race_overturned": (
        lambda v: f"{v['was']} won the race, and fresh processes showed {v['target']} to be better",
        None,
    ),
    "no_winner": (lambda v: f"no candidate runs, answers right and keeps every bound: {v['reasons']}", None),
    "race_out_of_bounds": (_out, None),
    "race_certified": (
        lambda v: f"p{number(v['p']) * 100:g} ≤ {format.time(number(v['bound_ns']))} is certified at 99 % confidence",
        None,
    ),
    "race_estimated": (
        lambda v: "energy is the declared power times the time: an estimate, nothing was read",
        None,
    ),
    "race_accuracy": (_accuracy, None),
    "race_unmeasured": (lambda v: f"what {v['precision']} costs in accuracy was not measured", None),
    "race_fp32": (lambda v: f"beside the best seen in fp32: {_times(v)}", None),
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
