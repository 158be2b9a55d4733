"""A policy that provably loses little: how far its thresholds may be lowered, on images it was not fitted on.

The loss of an image is 1 where only the reference has it right, -1 where only the policy has, and 0 otherwise. Policies
are tried in an order that was fixed before; the first whose loss cannot be shown to be small enough ends the walk, so
trying many costs nothing (fixed-sequence testing, as in Angelopoulos et al. 2021, "Learn then test", and in Jazbec et
al. 2024, "Fast yet safe", for early exits). With probability 1 - delta all that were passed lose little enough, all at
once, so whichever of them is the cheapest may be taken.

Any order is valid that does not look at the images of the walk; how far the walk gets depends on it. From careful to
bold is a poor one where nothing may be lost: the most careful policy answers as the reference does, and no number of
equal answers shows that it loses nothing, so the walk ends where it begins. What can be shown is a policy that wins, by
several answers taken together, and that one is somewhere in the middle. So the order is by how surely each can be
shown on the images of fitting. These flatter what was fitted on them, all of its neighbours alike: the order suffers
little from it, and the promise not at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from ..core.choice import Guarantee
from ..core.errors import InputError
from .bounds import BOUNDS, Losses, p_exact, shown
from .chain import spent, stage_ns
from .policies.single import Single
from .policy import Policy, Replayed, looking_ns
from .table import Table, hits

# By how much thresholds are raised (below zero: lowered) from step to step, in log-odds.
_STEPS = tuple(
    float(by) for by in np.round(np.concatenate([np.arange(6.0, 2.0, -0.5), np.arange(2.0, -2.05, -0.1)]), 3)
)
# Digits of a chance that count: a smaller difference is no reason for an order.
_ALIKE = 9


class Adjustable(Protocol):
    """A policy whose thresholds can all be raised by so much: the higher, the more is asked of the later candidates."""

    def raised(self, by: float) -> Policy: ...


def family(
    policy: Adjustable,
    fitting: Table,
    *,
    reference: int,
    epsilon: float,
    delta: float,
    method: str = "exact",
    objective: str = "time",
    top: int = 1,
) -> tuple[Policy, ...]:
    """From asking the last candidate about nearly everything to asking it about very little: those that are cheaper
    than the reference, the surest first to lose at most `epsilon` by `method`, both by the images of `fitting`, and of
    several alike the more careful."""
    right = hits(fitting.scores[reference], fitting.labels, top)
    alone = _cost(Single(reference), Single(reference).replay(fitting, top=top), fitting, objective)
    found: list[tuple[float, Policy]] = []
    for by in _STEPS:
        raised = policy.raised(by)
        replayed = raised.replay(fitting, top=top)
        if _cost(raised, replayed, fitting, objective) < alone:
            lost = right.astype(np.int64) - replayed.right
            # A bound that asks for no chance says itself how sure it is: the smaller, the surer.
            doubt = p_exact(lost, epsilon, delta) if method == "exact" else BOUNDS[method](lost, delta)
            found.append((round(doubt, _ALIKE), raised))
    return tuple(raised for _, raised in sorted(found, key=lambda pair: pair[0]))


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
    objective: str = "time",
    top: int = 1,
) -> tuple[Policy, Guarantee]:
    """The cheapest of `policies` up to the first that is not shown to lose at most `epsilon`. The reference alone where
    not even the first is, or none is cheaper. Neither they nor their order may come from the images of `table`."""
    if method not in BOUNDS:
        raise InputError(f"unknown bound {method!r}; known: {', '.join(BOUNDS)}")
    if not 0 <= epsilon < 1 or not 0 < delta < 1:
        raise InputError(f"epsilon is from 0 to below 1 and delta between 0 and 1, found {epsilon} and {delta}")
    if not len(table):
        raise InputError("a guarantee takes images that nothing was fitted on, found none")
    right = hits(table.scores[reference], table.labels, top)
    chosen: Policy = Single(reference)
    least, images = _cost(chosen, chosen.replay(table, top=top), table, objective), 0
    for policy in policies:
        replayed = policy.replay(table, top=top)
        if not shown(right.astype(np.int64) - replayed.right, epsilon, delta, method):
            break
        cost = _cost(policy, replayed, table, objective)
        if cost < least:
            chosen, least, images = policy, cost, len(table)
    return chosen, Guarantee(epsilon, delta, images, method)


def _cost(policy: Policy, replayed: Replayed, table: Table, objective: str) -> float:
    asked = float(spent(table, policy.candidates, replayed.ran, objective).mean())
    if objective != "time":
        return asked
    stages = float(replayed.ran.sum(axis=1).mean())
    return asked + stages * stage_ns(table, policy.kind) + looking_ns(policy, table)
