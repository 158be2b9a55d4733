"""What is said about networks with deadlines."""

from __future__ import annotations

from .. import format
from ._values import Sentences, Values, number


def _hits(v: Values) -> str:
    interval = format.cell((v["low"], v["high"]), "accuracy_range")
    jobs = format.cell(v["jobs"], "count")
    return f"{v['scheduler']} has {_share(v, 'hits')} {interval} of {jobs} jobs in time"


def _share(v: Values, name: str) -> str:
    return format.cell(v[name], "accuracy")


SENTENCES: Sentences = {
    "mix_better": (
        lambda v: (
            f"{_hits(v)}, {format.points(number(v['difference']))} points "
            f"{format.cell((v['least'], v['most']), 'points_range')} against {v['other']}"
        ),
        None,
    ),
    "mix_level": (
        lambda v: f"{_hits(v)}, and is not told apart from {v['others']}",
        "let it run for longer: --seconds",
    ),
    "mix_alone": (_hits, None),
    "mix_once": (
        lambda v: f"{_hits(v)}; with one block each, schedulers cannot be compared",
        "let it run for longer: --seconds 10",
    ),
    "mix_load": (
        lambda v: f"all jobs need at least {format.percent(number(v['load']))} of the targets' time, by runs alone",
        None,
    ),
    "mix_overload": (
        lambda v: (
            f"all jobs need {format.percent(number(v['load']))} of the targets' time, by runs alone: no scheduler can "
            f"have more than {format.percent(number(v['most']))} of them in time for long"
        ),
        "lower a rate_hz, take a quicker network or precision, or add a target",
    ),
    "mix_hopeless": (
        lambda v: (
            f"takes {format.time(number(v['quickest']))} alone where it is quickest, and has "
            f"{format.time(number(v['deadline']))}: it can never be in time"
        ),
        "allow more with deadline_ms, or take a quicker network or precision",
    ),
    "mix_given_up": (
        lambda v: (
            f"{v['network']} is in time in {_share(v, 'hits')} of its jobs, where all are in {_share(v, 'all')}: "
            "others are served in its place"
        ),
        "give it a target of its own, or a longer deadline_ms",
    ),
    "mix_unlike": (
        lambda v: (
            f"{_share(v, 'hits')} of the jobs in time, and {_share(v, 'predicted')} in simulation: beside each other "
            "and other programs, runs took something else than when they were measured alone"
        ),
        None,
    ),
    "mix_elsewhere": (lambda v: f"not served by {v['target']}: {v['reason']}", None),
    "mix_lost": (
        lambda v: f"{v['reason']}; its jobs were handed on, and what came after ran without it",
        "run it again",
    ),
}
