"""What a policy is: fitted once, it says step by step which candidate to ask next, and replays itself on a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from .features import NAMES, price_ns
from .table import Flags, Scores, Table

# In the place of a class: nobody is trusted with this input.
REFUSED = -1


@dataclass(frozen=True, slots=True)
class Decision:
    """`run`: the candidate to ask next, or None where the answer is there. Then `scores` are its (logarithms of
    probabilities; None: refused), `confidence` is how likely it is right as far as the policy knows, and `why` is one
    word the report has a sentence for."""

    run: int | None
    scores: Scores | None = None
    confidence: float | None = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Replayed:
    """A policy on every image of a table: the class answered (REFUSED: none), who was asked, who had the last word
    (REFUSED where nobody), how sure the policy was, and whether the label was among the `top` first."""

    answers: NDArray[np.int64]
    ran: Flags
    last: NDArray[np.int64]
    confidence: NDArray[np.float64]
    right: Flags


class Policy(Protocol):
    """A fitted policy. It is a file in `select/policies`, named like its kind; `replay` decides exactly as `begin` and
    `after` do, only for all images at once. `saved` is all there is to it: JSON, and arrays for an .npz beside it.

    The module also has `fit(table, *, option=default, ...) -> Policy`, whose keywords are its options, and
    `load(fields, arrays) -> Policy`, which checks what it is given.
    """

    kind: ClassVar[str]

    @property
    def uses_features(self) -> bool: ...

    @property
    def candidates(self) -> Sequence[int]:
        """Those it may ask, by their place in the table."""

    def begin(self, features: NDArray[np.float64] | None) -> Decision: ...

    def after(self, ran: Sequence[int], scores: Sequence[Scores]) -> Decision:
        """Once those were asked, in that order, and answered so: one row each."""

    def replay(self, table: Table, *, top: int = 1) -> Replayed: ...

    def saved(self) -> tuple[Mapping[str, Any], Mapping[str, NDArray[Any]]]: ...


def looking_ns(policy: Policy, table: Table) -> float:
    """What it takes to see of an image what this policy looks at: all features where it does not say."""
    if not policy.uses_features:
        return 0.0
    return price_ns(table.looking_ns, getattr(policy, "features", NAMES))
