"""A policy that provably loses little: how far its thresholds may be lowered, on images it was not fitted on.

The loss of an image is 1 where only the reference has it right, -1 where only the policy has, and 0 otherwise. Policies
are tried from the most careful on; the first whose loss cannot be shown to be small enough ends the walk, so trying
many costs nothing (fixed-sequence testing, as in Angelopoulos et al. 2021, "Learn then test", and in Jazbec et al.
2024, "Fast yet safe", for early exits).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from ..core.choice import Guarantee
from ..core.errors import InputError
from .bounds import BOUNDS, Losses, shown
from .policies.single import Single
from .policy import Policy
from .table import Table, hits

# By how much thresholds are raised (below zero: lowered) from step to step, in log-odds.
_STEPS = tuple(
    float(by) for by in np.round(np.concatenate([np.arange(6.0, 2.0, -0.5), np.arange(2.0, -2.05, -0.1)]), 3)
)


class Adjustable(Protocol):
    """A policy whose thresholds can all be raised by so much: the higher, the more is asked of the later candidates."""

    def raised(self, by: float) -> Policy: ...


def family(policy: Adjustable) -> tuple[Policy, ...]:
    """From asking the last candidate about nearly everything to asking it about very little."""
    return tuple(policy.raised(by) for by in _STEPS)


def losses(policy: Policy, table: Table, reference: int, *, top: int = 1) -> Losses:
    right = hits(table.scores[reference], table.labels, top)
    return right.astype(np.int64) - policy.replay(table, top=top).right


def controlled(
    policies: Sequence[Policy],
    table: Table,
    *,
    reference: int,
    epsilon: float,
    delta: float,
    method: str = "exact",
    top: int = 1,
) -> tuple[Policy, Guarantee]:
    """The last of `policies`, ordered from careful to bold, up to which all are shown to lose at most `epsilon`. The
    reference alone where not even the first is. None of them may have been fitted on the images of `table`."""
    if method not in BOUNDS:
        raise InputError(f"unknown bound {method!r}; known: {', '.join(BOUNDS)}")
    if not 0 <= epsilon < 1 or not 0 < delta < 1:
        raise InputError(f"epsilon is from 0 to below 1 and delta between 0 and 1, found {epsilon} and {delta}")
    if not len(table):
        raise InputError("a guarantee takes images that nothing was fitted on, found none")
    chosen: Policy = Single(reference)
    lost: Losses | None = None
    for policy in policies:
        found = losses(policy, table, reference, top=top)
        if not shown(found, epsilon, delta, method):
            break
        chosen, lost = policy, found
    if lost is None:
        return chosen, Guarantee(epsilon, delta, 0, 0.0, method)
    return chosen, Guarantee(epsilon, delta, len(table), BOUNDS[method](lost, delta), method)
