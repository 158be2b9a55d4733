"""Findings to sentences: a closed list, each with what to do about it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from ..core.types import Finding, Scalar
from . import format

Values = Mapping[str, Scalar]


def _number(value: Scalar) -> float:
    assert isinstance(value, (int, float))
    return float(value)


def _modes(v: Values) -> str:
    pairs = [piece.split(":") for piece in str(v["modes"]).split(", ")]
    shown = ", ".join(f"{format.time(float(at))} ({float(share):.0%})" for at, share in pairs)
    how = {
        "mixed": "changing from run to run",
        "phases": f"staying about {_number(v['dwell']):.0f} runs in each",
        "alternating": "taking turns",
    }.get(str(v["alternation"]), "")
    return f"latency has {len(pairs)} modes: {shown}, {how}"


def _disagreement(v: Values) -> str:
    if math.isinf(_number(v["error"])):
        return "outputs overflow where the reference's do not"
    return (
        f"outputs differ from the reference by {format.percent(_number(v['error']))} (root mean square), more than "
        f"{v['precision']} explains ({format.percent(_number(v['explained']))})"
    )


def _claim(v: Values) -> str:
    return f"p{_number(v['p']) * 100:g} ≤ {format.time(_number(v['bound_ns']))}"


def _p(v: Values) -> str:
    shown = format.p_value(_number(v["p"]))
    several = f" (corrected for {v['comparisons']} comparisons)" if _number(v["comparisons"]) > 1 else ""
    return (shown if shown.startswith("<") else f"= {shown}") + several


# code -> (sentence, remedy or None)
_SENTENCES: Mapping[str, tuple[Callable[[Values], str], str | None]] = {
    "fastest": (lambda v: f"{v['target']} is fastest at {format.time(_number(v['p50_ns']))}", None),
    "most": (lambda v: f"{v['target']} does the most: {format.figures(_number(v['per_s']))}/s", None),
    "tie": (
        lambda v: f"{v['target']} ({format.time(_number(v['p50_ns']))}) cannot be told apart from {v['ties']}",
        "compare them interleaved: edgewise compare MODEL --on A --on B",
    ),
    "faster": (
        lambda v: (
            f"{v['other']} is {_number(v['ratio']):.2f}× [{_number(v['low']):.2f}, {_number(v['high']):.2f}] "
            f"as fast as {v['baseline']}"
        ),
        None,
    ),
    "no_difference": (
        lambda v: (
            f"no difference above {format.percent(_number(v['detectable']))} detectable between {v['other']} "
            f"and {v['baseline']}"
        ),
        None,
    ),
    "too_few_starts": (lambda v: f"{v['other']} ran in one process only: no interval", "--starts 5"),
    "foreign_load": (
        lambda v: f"other processes took {format.percent(_number(v['share']))} of the machine meanwhile",
        "close them and measure again",
    ),
    "stolen_time": (
        lambda v: f"the hypervisor took {format.percent(_number(v['share']))} of the machine meanwhile",
        "measure on a machine of its own, or at another time",
    ),
    "never_steady": (
        lambda v: f"still changing after {v['runs']} warm-up runs",
        "allow more time: --scenario 'single(max_s=60)'",
    ),
    "drifting": (
        lambda v: (
            f"latency drifted by {format.percent(_number(v['change']))} during the measurement, so it has no interval"
        ),
        "let the device cool down, or measure longer: --scenario 'single(max_s=60)'",
    ),
    "wide_interval": (
        lambda v: (
            f"the interval is {format.percent(_number(v['width']))} wide, {format.percent(_number(v['asked']))} "
            "were asked for"
        ),
        "allow more time: --scenario 'single(max_s=60)'",
    ),
    "several_modes": (_modes, None),
    "disagrees": (_disagreement, "measure accuracy before using it"),
    "same_answer": (
        lambda v: (
            f"{v['precision']} gives the same answer as the reference, "
            + (
                f"though the engine reports {v['reported']} operators in it"
                if v["reported"]
                else "so it may not be used"
            )
        ),
        None,
    ),
    "not_compared": (lambda v: "outputs were not compared: the reference cannot run this model", None),
    "nothing_computed": (lambda v: "the null engine computes nothing: this is not a model's latency", None),
    "fell_back": (lambda v: f"not all ran on the device asked for: {v['devices']}", None),
    "clock_dropped": (
        lambda v: (
            f"the clock fell from {format.frequency(_number(v['before_hz']))} to "
            f"{format.frequency(_number(v['after_hz']))}"
        ),
        "let the device cool down first: --scenario 'single(cooldown_s=30)'",
    ),
    "late_generator": (
        lambda v: (
            f"requests were sent up to {format.time(_number(v['late_ns']))} late; their latency counts from when "
            "they were due"
        ),
        None,
    ),
    "certified": (lambda v: f"{_claim(v)} is certified at 99 % confidence", None),
    "refuted": (lambda v: f"{_claim(v)} is refuted: {format.percent(_number(v['share']))} took longer", None),
    "undecided": (
        lambda v: (
            f"{_claim(v)} is not decided: {format.percent(_number(v['share']))} took longer, and up to "
            f"{format.percent(_number(v['upper']))} may"
        ),
        "measure longer: --scenario 'single(width=0, max_s=60)'",
    ),
    "emulated": (lambda v: f"{v['device']}: this shows that it works, not how fast such a device is", None),
    "profiled": (
        lambda v: (
            f"operators add up to {format.time(_number(v['sum_ns']))}, "
            f"{format.percent(_number(v['sum_ns']) / _number(v['plain_ns']))} of an inference "
            f"({format.time(_number(v['plain_ns']))}); instrumented it takes "
            f"{format.time(_number(v['instrumented_ns']))}, "
            f"{_number(v['instrumented_ns']) / _number(v['plain_ns']):.2f}× as long "
            f"(medians of {v['runs']} runs, taken in turns)"
        ),
        None,
    ),
    "operator_rejected": (
        lambda v: f"{v['operator']} ({v['node']}) is rejected" + (f": {v['reason']}" if v["reason"] else ""),
        None,
    ),
    "operator_falls_back": (
        lambda v: (
            f"{v['operator']} ({v['node']}) falls back to {v['device']}" + (f": {v['reason']}" if v["reason"] else "")
        ),
        None,
    ),
    "accuracy_differs": (
        lambda v: (
            f"{v['other']} is right {'more' if _number(v['difference']) > 0 else 'less'} often than {v['baseline']}: "
            f"{format.points(_number(v['difference']))} points "
            f"{format.cell((v['low'], v['high']), 'points_range')}, p {_p(v)}"
        ),
        None,
    ),
    "accuracy_alike": (
        lambda v: (
            f"no difference in accuracy detectable between {v['other']} and {v['baseline']}: "
            f"{format.points(_number(v['difference']))} points "
            f"{format.cell((v['low'], v['high']), 'points_range')}, p {_p(v)}"
        ),
        None,
    ),
    "not_counted": (
        lambda v: (
            f"not in the sums: {v['reason']}"
            if v["count"] == 1
            else f"{v['count']} of them not in the sums: {v['reason']}"
        ),
        None,
    ),
    "folded_parameters": (
        lambda v: f"{v['parameters']:,} in the graph; {v['declared']:,} before some were folded into others",
        None,
    ),
    "layers_cut": (
        lambda v: f"the {v['shown']} that do the most, of {v['layers']} nodes",
        "all of them, in order: --all",
    ),
    "no_answer": (
        lambda v: f"no output was finite for {format.percent(_number(v['share']))} of the images: they count as wrong",
        "compare the outputs: edgewise bench MODEL",
    ),
    "other_classes": (
        lambda v: f"the model has {v['outputs']} outputs and the data {v['classes']} classes",
        "if the first output is a background: --preprocess '…(label_offset=1)'; else name the classes: --labels",
    ),
    "contention": (lambda v: f"measured beside competing processes: {v['contention']}", None),
}
CODES = frozenset(_SENTENCES)


def sentence(finding: Finding) -> str:
    return _SENTENCES[finding.code][0](dict(finding.values))


def remedy(finding: Finding) -> str | None:
    return _SENTENCES[finding.code][1]
