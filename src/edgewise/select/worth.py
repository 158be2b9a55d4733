"""Which features are worth it, found on the training images as the adaptive model selection paper does."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..core.errors import InputError
from .baselines import alone
from .features import NAMES
from .levels import labels_of
from .subset import THETA, choose, most_accurate
from .table import Table
from .thinning import Trial, eliminate, scale_of, uncorrelated


def features_of(table: Table) -> NDArray[np.float64]:
    """All of them, checked."""
    found = table.features
    if found is None:
        raise InputError("the premodel decides by the features of images, and the table has none")
    if found.shape != (len(table), len(NAMES)) or not np.isfinite(found).all():
        raise InputError(f"expected {len(NAMES)} finite features for each of {len(table)} images, found {found.shape}")
    return found


def trial_of(
    table: Table,
    *,
    top: int = 1,
    theta: float = THETA,
    k: int = 5,
    otherwise: str = "best",
    objective: str = "time",
    seed: int = 0,
) -> Trial:
    """What features are tried on: the chain of nearest neighbours, whatever decides in the end, as in the paper."""
    right = table.right(top)
    costs = alone(table, objective).tolist()
    chain = [step.candidate for step in choose(right, costs, theta=theta)]
    features = features_of(table)
    default = right[:, most_accurate(right, costs)] if otherwise == "best" else np.zeros(len(table), np.bool_)
    known = np.concatenate((right[:, chain], default[:, None]), axis=1)
    return Trial(scale_of(features)(features), labels_of(right, costs, chain), known, k, seed)


def worth(
    table: Table,
    *,
    top: int = 1,
    theta: float = THETA,
    k: int = 5,
    otherwise: str = "best",
    objective: str = "time",
    seed: int = 0,
) -> tuple[str, ...]:
    """The names of those that the correlation filter leaves, and then elimination."""
    kept, _ = uncorrelated(features_of(table))
    if not kept:
        raise InputError("every feature is the same in all images: nothing tells one image from another")
    trial = trial_of(table, top=top, theta=theta, k=k, otherwise=otherwise, objective=objective, seed=seed)
    left, _ = eliminate(trial, kept)
    return tuple(NAMES[column] for column in left)
