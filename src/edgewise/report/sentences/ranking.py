"""What a ranking says, and whether a claim holds."""

from __future__ import annotations

from .. import format
from ._values import Sentences, Values, number


def _claim(v: Values) -> str:
    return f"p{number(v['p']) * 100:g} ≤ {format.time(number(v['bound_ns']))}"


def _winner(v: Values, criterion: str, unit: str, word: str) -> str:
    if v[criterion] is None:
        return f"{word}: n/a"
    ties = number(v[f"{criterion}_ties"])
    figure = format.cell(v[f"{criterion}_figure"], unit)
    if ties + 1 == v["targets"]:
        return f"{word}: all alike"
    if not ties:
        return f"{word}: {v[criterion]} ({figure})"
    others = v[f"{criterion}_tied"] if ties <= 2 else f"{ties:.0f} others"
    return f"{word}: {v[criterion]} ({figure}), not told apart from {others}"


def _winners(v: Values) -> str:
    quick = "most per second, by time per item" if v["by_throughput"] else "fastest"
    effort = {"joules": f"least energy ({v['source']})", "core_ns": "least CPU time (no meter)"}.get(str(v["by"]))
    return "; ".join(
        (
            _winner(v, "latency", "ns", quick),
            _winner(v, "stability", "ratio", "steadiest, by p90/p10"),
            _winner(v, "efficiency", "uj" if v["by"] == "joules" else "ns", effort or "efficiency"),
            _winner(v, "consistency", "share", "most even from part to part of the run"),
        )
    )


def _uneven(v: Values) -> str:
    return (
        f"the fastest is not the steadiest: the slow tenth of {v['quickest']} "
        f"({format.time(number(v['quickest_ns']))}) takes {number(v['quickest_spread']):.2f}× its fast tenth, "
        f"that of {v['steadiest']} ({format.time(number(v['steadiest_ns']))}) "
        f"{number(v['steadiest_spread']):.2f}×"
    )


SENTENCES: Sentences = {
    "ranked": (_winners, None),
    "quick_but_uneven": (_uneven, None),
    "fastest": (lambda v: f"{v['target']} is fastest at {format.time(number(v['p50_ns']))}", None),
    "most": (lambda v: f"{v['target']} does the most: {format.figures(number(v['per_s']))}/s", None),
    "tie": (
        lambda v: f"{v['target']} ({format.time(number(v['p50_ns']))}) cannot be told apart from {v['ties']}",
        "compare them interleaved: edgewise compare MODEL --on A --on B",
    ),
    "certified": (lambda v: f"{_claim(v)} is certified at 99 % confidence", None),
    "refuted": (lambda v: f"{_claim(v)} is refuted: {format.percent(number(v['share']))} took longer", None),
    "undecided": (
        lambda v: (
            f"{_claim(v)} is not decided: {format.percent(number(v['share']))} took longer, and up to "
            f"{format.percent(number(v['upper']))} may"
        ),
        "measure longer: --scenario 'single(width=0, max_s=60)'",
    ),
}
