"""Recommendations: one sentence each, with the figures behind it."""

from __future__ import annotations

from .. import format
from ._values import Sentences, Values, number

_WHY = {
    "wrong": "for wrong answers",
    "nothing": "as nothing was computed",
    "unproven": "as outputs differ by more than the precision explains, and accuracy was not measured",
}
_FOR = {
    "real-time": "For real-time use",
    "stability-critical": "Where stability is critical",
    "batch": "For batches",
    "battery": "On a battery",
    "little memory": "In little memory",
}


def _figure(v: Values, name: str = "figure") -> str:
    return format.cell(v[name], str(v["unit"]))


def _chosen(v: Values) -> str:
    by = str(v["by"])
    if by == "p90/p10":
        return f"its slow tenth takes {_figure(v)} its fast tenth, median {format.time(number(v['p50_ns']))}"
    if by == "throughput":
        return f"{_figure(v)} with {v['scenario']}" + (", the only load measured" if v["loads"] == 1 else "")
    if by.startswith("energy"):
        source = "a declared power, not a reading" if v["source"] == "estimate" else v["source"]
        return f"{_figure(v)}, by {by} ({source})"
    if by == "CPU time":
        return f"no meter was read; it takes the least CPU time, {_figure(v)} for each inference"
    return f"{by} {_figure(v)}"


def _next(v: Values) -> str:
    if v["next"] is None:
        return "nothing else was measured"
    if v["ties"]:
        more = number(v["ties"]) - str(v["tied"]).count(", ") - 1
        others = f" and {more:.0f} more" if more > 0 else ""
        return f"cannot be told apart from {v['tied']}{others} (next: {_figure(v, 'next_figure')})"
    return f"{number(v['margin']):.2f}× ahead of {v['next']} ({_figure(v, 'next_figure')})"


def _answers(v: Values) -> str:
    precision = v["precision"]
    match v["known"]:
        case "own":
            return ""
        case "paired":
            change = format.points(number(v["difference"]))
            interval = format.cell((v["low"], v["high"]), "points_range")
            found = f"accuracy of {precision}: {change} points {interval} on {format.cell(v['images'], 'count')} images"
        case "alone":
            found = f"accuracy of {precision} is known, that of the original is not"
        case "agreement":
            error = format.percent(number(v["error"]))
            found = f"accuracy of {precision} was not measured, only that outputs differ by {error}"
        case _:
            found = f"neither accuracy nor outputs of {precision} were checked"
    if v["exact"] is None:
        return f"; {found}; no target was measured in the model's own precision"
    return f"; {found}; best in {v['exact_precision']}: {v['exact']} ({_figure(v, 'exact_figure')})"


def _recommended(v: Values) -> str:
    beside = f" ({v['beside']})" if v["beside"] else ""
    return f"{_FOR[str(v['use'])]}: {v['target']}, {_chosen(v)}{beside}, {_next(v)}{_answers(v)}"


def _left_out(v: Values) -> str:
    more = f" and {v['more']} more" if v["more"] else ""
    why = _WHY.get(str(v["why"])) or f"for {format.points(number(v['difference']))} points of accuracy"
    return f"not recommended {why}: {v['targets']}{more}"


SENTENCES: Sentences = {
    "recommended": (_recommended, None),
    "left_out": (_left_out, None),
}
