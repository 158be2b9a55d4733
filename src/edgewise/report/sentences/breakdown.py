"""Where the time of an inference goes."""

from __future__ import annotations

from .. import format
from ._values import Sentences, Values, number


def _interval(v: Values) -> str:
    if v["low"] is None:
        return ""
    return f" [{format.percent(number(v['low']))}, {format.percent(number(v['high']))}]"


def _looking(v: Values) -> str:
    plain, looking, events = number(v["plain_ns"]), number(v["looking_ns"]), number(v["events"])
    if looking <= 0:
        return "looking costs nothing that can be seen"
    each = f", {format.time(looking / events)} for each of {v['events']} operators"
    return f"an instrumented run takes {1 + looking / plain:.2f}× as long{each}"


def _residue(v: Values) -> str:
    parts = [f"{name} {format.percent(number(v[name]))}" for name in ("dispatch", "copy", "other") if v[name]]
    if number(v["looking"]) > 0:
        parts.append(f"less {format.percent(number(v['looking']))} for looking")
    elif number(v["looking"]) < 0:
        parts.append(f"and instrumented runs were {format.percent(-number(v['looking']))} shorter than plain ones")
    return ", ".join(parts)


SENTENCES: Sentences = {
    "profiled": (
        lambda v: (
            f"operators add up to {format.percent(number(v['sum_ratio']))}{_interval(v)} of an inference "
            f"({format.time(number(v['plain_ns']))}); {_looking(v)} ({v['runs']} pairs of runs, taken in turns)"
        ),
        None,
    ),
    "time_goes_to": (
        lambda v: (
            f"{format.percent(number(v['share']))} in {v['count']} {v['operator']}; "
            f"the slowest is {v['slowest']} with {format.percent(number(v['slowest_share']))}"
        ),
        None,
    ),
    "does_not_add_up": (
        lambda v: (
            f"operators add up to {format.percent(abs(number(v['residue'])))} "
            f"{'less' if number(v['residue']) < 0 else 'more'} than an inference takes; besides them: {_residue(v)}"
        ),
        "read the shares; as times, operators are as far off as that",
    ),
    "sum_is_uncertain": (
        lambda v: (
            "whether operators add up to within 5 % of an inference cannot be told: "
            f"the interval is {format.points(number(v['wide'])).lstrip('+')} points wide"
        ),
        "profile again when the machine is quiet",
    ),
    "times_are_means": (
        lambda v: (
            f"the engine tells means over runs, in whole microseconds rounded down; all {v['runs']} pairs are in them, "
            "interrupted ones too"
        ),
        None,
    ),
}
