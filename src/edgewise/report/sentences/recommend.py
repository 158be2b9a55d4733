"""Recommendations: one sentence each, with the figures behind it."""

from __future__ import annotations

from ...core.types import Scalar
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
    if by == "throughput":
        load = str(v["scenario"]) if v["loads"] != 1 else "the only load measured"
        return f"{_figure(v)} ({load})"
    if by.startswith("energy"):
        return f"{_figure(v)} by {by} ({v['source']})"
    if by == "CPU time":
        return f"{_figure(v)} of CPU time (no meter was read)"
    return f"{by} {_figure(v)}"


def _next(v: Values) -> str:
    unknown = f"not known of {_others(v['unknown'])}" if v["unknown"] else ""
    if v["ties"]:
        ahead = f"not told apart from {v['tied'] if v['ties'] == 1 else _others(v['ties'])}"
    elif v["next"] is not None:
        ahead = f"{number(v['margin']):.2f}× ahead of {v['next']}"
    elif v["ruled_out"]:
        ahead = f"ahead of {_others(v['ruled_out'])}, slower though with too few runs for {v['by']}"
    else:
        ahead = "" if unknown else "nothing else was measured"
    return ", ".join(filter(None, (ahead, unknown)))


def _others(count: Scalar) -> str:
    return f"{count} other" if count == 1 else f"{count} others"


def _answers(v: Values) -> str:
    precision = v["precision"]
    match v["known"]:
        case "own":
            return ""
        case "paired":
            interval = format.cell((v["low"], v["high"]), "points_range")
            return f"; accuracy {format.points(number(v['difference']))} points {interval}"
        case "alone":
            return "; accuracy of the original not measured"
        case "agreement":
            return f"; accuracy of {precision} not measured"
        case _:
            return f"; outputs of {precision} not checked"


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
