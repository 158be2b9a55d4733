"""What is said about machines side by side."""

from __future__ import annotations

from .. import format
from ._values import Sentences, Values, number


def _spread(v: Values, what: str) -> str:
    mean, least, most = (f"{format.times(number(v[name]))}×" for name in ("geomean", "least", "most"))
    said = f"{v['machine']} has {mean} {what} of {v['beside']}"
    if v["count"] == 1:
        return f"{said} ({v['least_of']})"
    return f"{said} (geometric mean of {v['count']}), from {least} ({v['least_of']}) to {most} ({v['most_of']})"


def _front(v: Values) -> str:
    sides = [
        f"only on {where}: {names}" for where, names in ((v["machine"], v["here"]), (v["beside"], v["there"])) if names
    ]
    return f"of {v['count']} networks both have, on the front of accuracy ({v['accuracy']}) and latency " + "; ".join(
        sides
    )


SENTENCES: Sentences = {
    "machine_throughput": (lambda v: _spread(v, "the throughput"), None),
    "machine_efficiency": (lambda v: _spread(v, "the inferences per joule"), None),
    "machine_per_clock": (lambda v: _spread(v, "the throughput per clock cycle"), None),
    "other_front": (_front, None),
    "same_front": (
        lambda v: (
            f"the same of {v['count']} networks are on the front of accuracy ({v['accuracy']}) and latency on both"
        ),
        None,
    ),
    "nothing_shared": (
        lambda v: f"{v['machines']} machines have no network at the same batch in common",
        "measure the same on each: edgewise bench mobilenet_v2 resnet50",
    ),
    "beside_papers": (
        lambda v: (
            f"{v['count']} figures beside it are from papers: published by others, under another protocol, on trained "
            "weights and older software; they tell orders of magnitude"
        ),
        None,
    ),
}
