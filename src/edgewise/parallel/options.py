"""Options of a placement as a whole: they stand with its first target, and no engine sees them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..core.errors import InputError
from ..core.types import Placement, Target


def said(placement: Placement, option: str, choices: Sequence[str], what: str) -> tuple[str, list[Target]]:
    """What was chosen, the first choice where nothing was said; and the targets without the option. `what` it is about
    is for the error of somebody who says it twice."""
    first, *others = placement.targets
    example = f"--on '{placement.kind}({replace(first, options=())}{{{option}={choices[-1]}}}, ...)'"
    if any(target.option(option) for target in others):
        raise InputError(
            f"{what} is said once, with the first target: found {option}= with another in {placement}", example
        )
    wanted = first.option(option) or choices[0]
    if wanted not in choices:
        raise InputError(f"there is no {option}={wanted}; choose from {', '.join(choices)}", example)
    options = tuple(pair for pair in first.options if pair[0] != option)
    return wanted, [replace(first, options=options), *others]
