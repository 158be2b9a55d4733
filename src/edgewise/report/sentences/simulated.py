"""What is said about simulated streams."""

from __future__ import annotations

from .. import format
from ._values import Sentences, Values, number


def _frames(v: Values) -> str:
    return "1 frame takes" if v["frames"] == 1 else f"{v['frames']:,} frames take"


def _together(v: Values) -> str:
    return (
        f"{format.cell(v['per_s'], 'rate')} together, {format.cell(v['gain'], 'ratio')} the best alone ({v['best']}) "
        f"and {format.percent(number(v['efficiency']))} of what its components deliver one at a time, added up; "
        f"{_frames(v)} {format.cell(v['makespan'], 'ratio')} the least they could beside each other"
    )


def _off(value: object) -> str:
    return format.cell(value, "percent_change")


def _published(v: Values) -> str:
    without = f"; without this figure among those fitted, {_off(v['error_without'])}"
    source = f" ({v['source']})" if v["source"] else ""
    return (
        f"published are {format.cell(v['published'], 'rate')}{source}: the prediction is off by "
        f"{_off(v['error'])}{without if v['error_without'] is not None else ''}"
    )


def _fitted(v: Values) -> str:
    of = "this chip" if v["own"] else "other chips, since nothing was published of this one"
    if v["model"] == "none":
        return "components are taken not to be in each other's way"
    return (
        f"what components cost each other is the model {v['model']} with {format.figures(number(v['value']))} "
        f"({v['what']}), fitted to {v['cases']} published {'figure' if v['cases'] == 1 else 'figures'} of {of}"
    )


def _errors(v: Values) -> str:
    shares = ""
    if v["share_points"] is not None:
        points = format.figures(number(v["share_points"]) * 100, 2)
        shares = f"; where shares of frames were published, each is off by {points} points in the mean"
    return (
        f"{v['cases']} predictions are off by {format.percent(number(v['mean']))} in the mean and "
        f"{format.percent(number(v['most']))} at most; each made without its own figure, by "
        f"{format.percent(number(v['mean_without']))} and {format.percent(number(v['most_without']))}; adding up what "
        f"components do alone, by {format.percent(number(v['mean_added']))} and "
        f"{format.percent(number(v['most_added']))}{shares}"
    )


def _delays(v: Values) -> str:
    return (
        f"without it {format.cell(v['per_s'], 'rate')}, and 95 % of the frames come out within "
        f"{format.time(number(v['delay_ns']))} instead of {format.time(number(v['all_delay_ns']))}"
    )


SENTENCES: Sentences = {
    "sim_helps": (_together, None),
    "sim_no_gain": (lambda v: f"{_together(v)}: nothing gained", "use the best one alone"),
    "sim_published": (_published, None),
    "sim_changed": (
        lambda v: (
            f"{format.cell(v['per_s'], 'rate')} with what happens on the way, {format.cell(v['left'], 'ratio')} the "
            f"{format.cell(v['unchanged_per_s'], 'rate')} without"
        ),
        None,
    ),
    "sim_died": (
        lambda v: (
            f"{v['component']} dies after {format.time(number(v['at_ns']))}; what it held went to the others, and all "
            f"{v['frames']:,} frames came out in order"
        ),
        None,
    ),
    "sim_slowed": (
        lambda v: (
            f"{v['component']} takes {format.cell(v['slower'], 'ratio')} as long after "
            f"{format.time(number(v['at_ns']))}"
        ),
        None,
    ),
    "sim_too_late": (
        lambda v: (
            f"nothing happens to {v['component']}: its moment is {format.time(number(v['at_ns']))} and the stream is "
            f"over after {format.time(number(v['elapsed_ns']))}"
        ),
        "more frames: --frames",
    ),
    "sim_harms": (lambda v: f"{v['component']} does harm, {_off(v['added'])}: {_delays(v)}", "leave it out"),
    "sim_spare": (lambda v: f"{v['component']} adds next to nothing, {_off(v['added'])}: {_delays(v)}", None),
    "sim_choice": (
        lambda v: (
            f"the best of {v['ways']} choices is {v['components']}: {format.cell(v['per_s'], 'rate')}; next is "
            f"{v['next']}, {format.cell(v['next_per_s'], 'rate')}"
        ),
        None,
    ),
    "sim_contention": (_fitted, None),
    "sim_errors": (_errors, None),
}
