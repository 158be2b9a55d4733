"""What a target does with operators."""

from __future__ import annotations

from ._values import Sentences

SENTENCES: Sentences = {
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
}
