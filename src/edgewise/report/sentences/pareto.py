"""What is said about accuracy and what it costs."""

from __future__ import annotations

from ._values import Sentences, Values, number


def _dominated(v: Values) -> str:
    less = -number(v["points"]) * 100
    accuracy = f"{less:.2f} points less accuracy" if less else "the same accuracy"
    return f"beaten by {v['by']}: {number(v['slower']):.2f}× its time for {accuracy} ({v['accuracy']})"


SENTENCES: Sentences = {
    "front": (
        lambda v: f"on the front of accuracy ({v['accuracy']}) and latency, of {v['points']}: {v['members']}",
        None,
    ),
    "dominated": (_dominated, None),
    "published_accuracy": (
        lambda v: (
            f"the accuracy of {v['count']} is the one published for the trained network of that name; nobody asked the "
            "weights that were timed here"
        ),
        "measure yours: edgewise accuracy MODEL --data FOLDER",
    ),
}
