"""What is said about the size of a model."""

from __future__ import annotations

from ._values import Sentences

SENTENCES: Sentences = {
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
}
