"""What a target does with operators."""

from __future__ import annotations

from .. import format
from ._values import Sentences, Values, number


def _reason(v: Values) -> str:
    return f": {v['reason']}" if v["reason"] else ""


def _fragmented(v: Values) -> str:
    pieces = f"its operators cut the model into {v['partitions']} pieces"
    largest = "" if v["largest"] is None else f", the largest with {format.percent(number(v['largest']))} of the work"
    crossing = v["crossing_bytes"]
    moved = "" if crossing is None else f"; {format.size(number(crossing))} cross between them in each inference"
    return pieces + largest + moved


def _added(v: Values) -> str:
    return (
        f"written into the graph, the cut adds {v['added']} operators, {v['joins']} of them only to cut and join; "
        f"{format.percent(number(v['after']))} of all are not run by this target itself, "
        f"{format.percent(number(v['before']))} before (parts that share memory, as `split` does, need none of them)"
    )


SENTENCES: Sentences = {
    "cut_adds": (_added, None),
    "all_supported": (lambda v: f"all {v['operators']} operators are supported", None),
    "fragmented": (_fragmented, "run it on a target that has them all, or change those operators"),
    "contradicted": (lambda v: f"it {v['outcome']}{_reason(v)}", None),
    "operator_wrong": (
        lambda v: f"{v['operator']} ({v['node']}) is computed wrongly{_reason(v)}",
        "use another target: edgewise support MODEL",
    ),
    "operator_rejected": (lambda v: f"{v['operator']} ({v['node']}) is rejected{_reason(v)}", None),
    "operator_falls_back": (lambda v: f"{v['operator']} ({v['node']}) falls back to {v['device']}{_reason(v)}", None),
}
