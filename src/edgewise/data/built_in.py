"""Data that comes with edgewise, written out as arrays: `pocket`, or `pocket(split=train, difficulty=0.5)`."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from ..core.errors import InputError
from ..core.text import parse_call

NAMES = ("pocket",)
# They are generated one by one and kept in memory: 12 KiB and two or three milliseconds each.
MOST = 100_000


@dataclass(frozen=True, slots=True)
class BuiltIn:
    """Scenes of the pocket family: a split, how many, how hard."""

    split: str = "test"
    count: int | None = None
    difficulty: float = 1.0


def parse(text: str) -> BuiltIn | None:
    """What a name asks for; None where it is not built in."""
    if text.partition("(")[0].strip() not in NAMES:
        return None
    name, pairs = parse_call(text, "data")
    asked = dict(pairs)
    unknown = [key for key in asked if key not in ("split", "count", "difficulty")]
    if unknown:
        raise InputError(f"{name} has no {unknown[0]!r}; it has split, count and difficulty")
    try:
        count = int(asked["count"]) if "count" in asked else None
        difficulty = float(asked.get("difficulty", "1"))
    except ValueError:
        raise InputError(f"count and difficulty are numbers, found {text!r}", "--data 'pocket(count=500)'") from None
    if count is not None and not 1 <= count <= MOST:
        raise InputError(f"count is at least 1 and at most {MOST}, found {count}", "--data 'pocket(count=500)'")
    return BuiltIn(asked.get("split", "test"), count, difficulty)


def save(path: str, split: str, count: int | None, difficulty: float) -> None:
    """Generate the scenes and keep them at `path`, as `arrays` reads them."""
    import numpy as np

    from . import scenes

    chosen = cast(scenes.Split, split)  # what it is not, `scenes` refuses
    images, labels = scenes.scenes(chosen, 0, count or scenes.TEST_COUNT, difficulty=difficulty)
    target = Path(path)
    # Written beside and renamed, so that a half-written file is never taken for data.
    part = target.with_name(f"{target.name}.{os.getpid()}.part")
    with part.open("wb") as file:
        np.savez(file, images=images, labels=labels, classes=np.array(scenes.CLASSES))
    part.replace(target)
