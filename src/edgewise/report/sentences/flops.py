"""What is said about work and time."""

from __future__ import annotations

from .. import format
from ._values import Sentences, Values, number


def _predict(v: Values) -> str:
    rank = ""
    if v["rank"] is not None:
        rank = (
            f"; put in order by them, {v['networks']} networks at batch {v['batch']} agree with the order of their "
            f"times to {number(v['rank']):.2f} (rank correlation)"
        )
    return (
        f"multiply-adds explain {format.percent(number(v['r2']))} of the variation of time (on logarithms, "
        f"{v['points']} points; time grows with work to the power {number(v['exponent']):.2f}){rank}; from "
        f"{format.cell(v['least'], 'flops_rate')} to {format.cell(v['most'], 'flops_rate')} are reached"
    )


SENTENCES: Sentences = {
    "flops_predict": (_predict, None),
    "flops_mislead": (
        lambda v: (
            f"{v['less']} has {number(v['work']):.2f}× less work than {v['more']} and takes "
            f"{number(v['slower']):.2f}× as long; {v['count']} of {v['pairs']} pairs of networks at batch {v['batch']} "
            "are the other way round than their work"
        ),
        None,
    ),
}
