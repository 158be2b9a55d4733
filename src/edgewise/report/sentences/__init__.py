"""Findings to sentences: a closed list, each with what to do about it; one file per topic."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from ...core.types import Finding
from ._values import Sentences


@cache
def sentences() -> Sentences:
    """Of all topics: the files of this folder."""
    found: dict[str, object] = {}
    topics = [m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_")]
    for topic in topics:
        own: Sentences = importlib.import_module(f"{__name__}.{topic}").SENTENCES
        assert not found.keys() & own.keys(), f"said twice: {sorted(found.keys() & own.keys())}"
        found |= own
    return found  # type: ignore[return-value]


def sentence(finding: Finding) -> str:
    return sentences()[finding.code][0](dict(finding.values))


def remedy(finding: Finding) -> str | None:
    """What to do about it. `command` among the values is one made for this finding."""
    own = dict(finding.values).get("command")
    return str(own) if own else sentences()[finding.code][1]
