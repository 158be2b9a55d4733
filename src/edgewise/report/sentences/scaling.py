"""What is said about batches and input sizes."""

from __future__ import annotations

from .. import format
from ._values import Sentences, Values, number


def _rate(value: object) -> str:
    return format.cell(value, "rate")


def _range(v: Values) -> str:
    """Which batches the knee may be at, where the intervals leave it open."""
    if v["sure"] is None:
        return f", perhaps {v['first']}" if v["first"] != v["batch"] else ""
    return f" (between {v['first']} and {v['sure']})" if (v["first"], v["sure"]) != (v["batch"], v["batch"]) else ""


def _knee(v: Values) -> str:
    best = "" if v["best"] == v["batch"] else f"; the best is {_rate(v['best_per_s'])} at batch {v['best']}"
    return (
        f"batch {v['batch']}{_range(v)} is enough: {_rate(v['per_s'])}, {format.time(number(v['latency_ns']))} a run "
        f"({format.time(number(v['smallest_ns']))} at batch {v['smallest']}){best}"
    )


def _tried(v: Values, reason: str) -> str:
    if v["tried"]:
        return f"batch {v['batch']} {reason}; {v['last']} is the largest that ran"
    return f"batch {v['batch']} was not tried: by what smaller ones took, it {reason}; {v['last']} is the largest run"


SENTENCES: Sentences = {
    "knee": (_knee, None),
    "no_gain": (
        lambda v: (
            f"batches bring nothing: {_rate(v['per_s'])} at batch {v['batch']}, at best {_rate(v['best_per_s'])} "
            f"(batch {v['best']})"
        ),
        None,
    ),
    "still_growing": (
        lambda v: (
            f"throughput still grows at the largest batch that ran, {v['largest']}: {_rate(v['best_per_s'])}, "
            f"{number(v['gain']):.2f}× that of batch {v['smallest']}"
        ),
        None,
    ),
    "batch_too_large": (
        lambda v: (
            f"at batch {v['batch']} throughput is {format.percent(number(v['loss']))} below that at batch {v['best']}"
        ),
        None,
    ),
    "out_of_memory": (lambda v: _tried(v, "runs out of memory"), "allow more: --memory 8GB"),
    "out_of_time": (lambda v: _tried(v, "takes too long"), "allow more: --longest 10"),
    "larger_fails": (
        lambda v: (
            f"batch {v['batch']} fails: {v['message']}; {v['last']} is the largest that ran"
            if v["tried"]
            else f"batch {v['batch']} was not tried; {v['last']} is the largest that ran"
        ),
        None,
    ),
    "size_exponent": (
        lambda v: (
            f"from {v['smallest']} to {v['largest']} pixels a side time grows with the pixels to the power "
            f"{number(v['exponent']):.2f}"
            + ("" if v["low"] is None else f" [{number(v['low']):.2f}, {number(v['high']):.2f}]")
            + f", at batch {v['batch']}"
        ),
        None,
    ),
}
