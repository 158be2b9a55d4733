"""Who takes part in the premodel, and which features are worth it: found on the training images as the adaptive model
selection paper does."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..core.errors import InputError
from .baselines import alone
from .features import NAMES
from .features.reduce import PIXELS
from .levels import labels_of
from .subset import THETA, choose, most_accurate
from .table import Flags, Table
from .thinning import Trial, eliminate, scale_of, uncorrelated

# The neighbours that the paper asks.
K = 5


@dataclass(frozen=True, slots=True)
class Cast:
    """Whether each candidate (column) is right about each image, and what asking it costs; of them the `chain`, and the
    `best`, who is asked where no level says yes. `labels`: for each level (row) the images that are its own."""

    right: Flags
    costs: tuple[float, ...]
    chain: tuple[int, ...]
    best: int
    labels: Flags


def features_of(table: Table) -> NDArray[np.float64]:
    """All of them, checked."""
    found = table.features
    if found is None:
        raise InputError("the premodel decides by the features of images, and the table has none")
    if found.shape != (len(table), len(NAMES)) or not np.isfinite(found).all():
        raise InputError(f"expected {len(NAMES)} finite features for each of {len(table)} images, found {found.shape}")
    return found


def thumbnails_of(table: Table) -> NDArray[np.uint8]:
    found = table.thumbnails
    if found is None:
        raise InputError("a convolutional network decides by thumbnails of images, and the table has none")
    if found.shape != (len(table), PIXELS) or found.dtype != np.uint8:
        raise InputError(f"expected {PIXELS} bytes for each of {len(table)} images, found {found.dtype} {found.shape}")
    return found


def cast(
    table: Table, *, top: int = 1, theta: float = THETA, count: int | None = None, objective: str = "time"
) -> Cast:
    right = table.right(top)
    costs = tuple(alone(table, objective).tolist())
    chain = tuple(step.candidate for step in choose(right, costs, theta=theta, count=count))
    # So many candidates are no more than those.
    among = chain if count is not None else tuple(range(len(costs)))
    best = among[most_accurate(right[:, among], [costs[place] for place in among])]
    return Cast(right, costs, chain, best, labels_of(right, costs, chain))


def trial_of(table: Table, taking: Cast, *, k: int = K, otherwise: str = "best", seed: int = 0) -> Trial:
    """What features are tried on: the chain of nearest neighbours, whatever decides in the end, as in the paper."""
    features = features_of(table)
    default = taking.right[:, taking.best] if otherwise == "best" else np.zeros(len(table), np.bool_)
    known = np.concatenate((taking.right[:, taking.chain], default[:, None]), axis=1)
    return Trial(scale_of(features)(features), taking.labels, known, k, seed)


def worth(table: Table, trial: Trial) -> tuple[str, ...]:
    """The names of those that the correlation filter leaves, and then elimination."""
    kept, _ = uncorrelated(features_of(table))
    if not kept:
        raise InputError("every feature is the same in all images: nothing tells one image from another")
    left, _ = eliminate(trial, kept)
    return tuple(NAMES[column] for column in left)
