"""Why a candidate had the last word: the words policies use, in sentences."""

from __future__ import annotations

from collections.abc import Mapping

REASONS: Mapping[str, str] = {
    "only": "it is the only one that is asked",
    "sure": "it was sure enough",
    "last": "nobody else was left to ask",
    "chosen": "by what the image looks like, it is the one to ask",
    "otherwise": "by what the image looks like it is nobody's, and this one is right most often",
    "strange": "the image looks like none of those this was learned from",
    "refused": "nobody is trusted with it",
}


def why(word: str) -> str:
    """The sentence for a policy's word; a word that is not known speaks for itself."""
    return REASONS.get(word, word)
