"""The way a split ended in, from one run to the next: a file that somebody above names, and that anybody may delete."""

from __future__ import annotations

import contextlib
import json
import math
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ...core.records import from_json, to_json
from ...core.types import Model, Target
from .balance import Way
from .chains import Axis

# Changes when the same words come to mean something else.
_FORM = 1


@dataclass(frozen=True, slots=True)
class Found:
    """What frames took when nothing better was left to try; `split` is the best way for several parts, where one runs
    alone. `about` says what it was found for: a file of that name may hold anything."""

    about: str
    way: Way
    split: Way
    frame_ns: float
    form: int = _FORM


def about(models: Sequence[Model], targets: Sequence[Target], axis: Axis) -> str:
    """What has to be the same for what was found to hold; that more has to be is the affair of who names the file."""
    return " ".join((*(model.digest for model in models), *map(str, targets), axis))


def recall(
    path: Path, about: str, first: Way, axes: Sequence[Axis], parts: int, *, covers: bool = False
) -> Found | None:
    """What is kept there, if it is of this very split; anything else is as good as nothing."""
    try:
        found = from_json(Found, json.loads(path.read_text(encoding="utf-8")))
        fits = (
            (found.form, found.about) == (_FORM, about)
            and _divides(found.split, first, axes, parts)
            and (_alone(found.way, parts) or found.way == found.split or (covers and _covered(found.way, axes, parts)))
            and math.isfinite(found.frame_ns)
            and found.frame_ns > 0
        )
    except (OSError, ValueError, TypeError, AttributeError, KeyError, RecursionError):
        return None
    return found if fits else None


def keep(path: Path, found: Found) -> None:
    """Whole or not at all, and never at the cost of a frame: where it cannot be written, the next run looks again."""
    with contextlib.suppress(OSError):
        fd, part = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
        try:
            with os.fdopen(fd, "w", encoding="utf-8") as file:
                json.dump(to_json(found), file)
            os.replace(part, path)
        except BaseException:
            os.unlink(part)
            raise


def _alone(way: Way, parts: int) -> bool:
    return way.kind == "single" and isinstance(way.part, int) and way == Way("single", part=way.part % parts)


def _divides(way: Way, first: Way, axes: Sequence[Axis], parts: int) -> bool:
    """Of the kind that this model and batch can have, with a share for every part."""
    return way.kind == first.kind and way.part == 0 and _shared_out(way, axes, parts)


def _covered(way: Way, axes: Sequence[Axis], parts: int) -> bool:
    return way.kind == "covered" and way.part in range(parts) and _shared_out(way, axes, parts)


def _shared_out(way: Way, axes: Sequence[Axis], parts: int) -> bool:
    if way.axis not in axes or not way.shares:
        return False
    return all(len(step) == parts and all(map(_share, step)) and sum(step) > 0 for step in way.shares)


def _share(value: object) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value) and value >= 0
