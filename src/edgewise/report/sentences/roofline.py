"""How near to the roof."""

from __future__ import annotations

from .. import format
from ._values import Sentences, Values, number

_BOUNDS = {
    "memory": "memory is the limit",
    "compute": "arithmetic is the limit",
    "neither": "neither arithmetic nor memory takes the time, but what is around them",
}


def _bound(v: Values) -> str:
    shares = [
        f"{format.percent(number(v[name]))} {words}"
        for name, words in (("compute", "compute-bound"), ("memory", "memory-bound"), ("neither", "neither"))
        if v[name]
    ]
    layers = f"; of the time in layers {', '.join(shares)}" if shares else ""
    why = _BOUNDS[str(v["bound"])]
    if v["bound"] == "memory" and number(v["of_roof"]) > 1:
        why = "memory is not the limit, since much of it came from a cache"
    return (
        f"runs at {format.percent(number(v['of_roof']))} of its roof, at {format.cell(v['intensity'], 'intensity')} "
        f"(the ridge is at {format.cell(v['ridge'], 'intensity')}): {why}{layers}"
    )


def _with_threads(v: Values) -> str:
    return "" if v["threads"] is None else f" with {v['threads']} thread{'' if v['threads'] == 1 else 's'}"


def _roofs(v: Values) -> str:
    memory = [name for name in v if str(name).startswith(("memory", "L"))]
    ways = [name for name in v if str(name).endswith(" by")]
    compute = [name for name in v if name not in ("device", "threads", *memory, *ways)]
    rates = [
        f"{n} {format.cell(v[n], 'flops_rate')}" + (f" by {v[f'{n} by']}" if f"{n} by" in ways else "") for n in compute
    ]
    rates += [f"{n} {format.cell(v[n], 'bytes_rate')}" for n in memory]
    return f"roofs of {v['device']}{_with_threads(v)}, measured: {', '.join(rates)}"


def _above(v: Values) -> str:
    why = (
        "their bytes came from a cache, not from memory"
        if v["bound"] == "memory"
        else "the engine multiplies less often than the definition (Winograd), or with other instructions"
    )
    return f"{v['layers']} above the roof, {v['layer']} at {format.percent(number(v['of_roof']))} of it: {why}"


SENTENCES: Sentences = {
    "bound_by": (_bound, None),
    "roofs": (_roofs, None),
    "roof_missing": (lambda v: f"no roof for {v['roof']}: {v['why']}", None),
    "no_roof": (
        lambda v: f"left out, as no roof was measured for {v['precision']} on {v['device']}{_with_threads(v)}",
        None,
    ),
    "joined": (
        lambda v: (
            f"{format.percent(number(v['joined']))} of the operators' time is of {v['layers']} layers known by name; "
            "the rest the engine fused or renamed, and it is in no layer here"
        ),
        None,
    ),
    "above_roof": (_above, None),
    "not_counted_traffic": (lambda v: f"bytes really moved are not known ({v['source']}): {v['why']}", None),
}
