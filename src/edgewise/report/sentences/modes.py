"""What is said about levels of latency."""

from __future__ import annotations

from ._values import Sentences

SENTENCES: Sentences = {
    "modes_found": (lambda v: f"{v['several']} of {v['measured']} latencies have several modes", None),
}
