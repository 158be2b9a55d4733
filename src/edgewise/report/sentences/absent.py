"""What an analysis says when there is nothing to draw."""

from __future__ import annotations

from ._values import Sentences

SENTENCES: Sentences = {
    "absent": (lambda v: str(v["what"]), None),
}
