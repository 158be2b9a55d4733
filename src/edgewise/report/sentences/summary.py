"""What is said about a summary as a whole."""

from __future__ import annotations

from ._values import Sentences

SENTENCES: Sentences = {
    "drawn": (lambda v: f"{v['drawn']} of {v['of']} {v['noun']} are drawn; the table has all", None),
}
