"""Samples in time order as one array of floats, checked once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError

Floats = NDArray[np.float64]
Samples = Sequence[float] | Sequence[int] | NDArray[np.float64] | NDArray[np.int64]


def as_series(samples: Samples) -> Floats:
    """The samples as a one-dimensional array of finite floats; an empty one is allowed."""
    series = np.asarray(samples, dtype=np.float64)
    if series.ndim != 1:
        raise InputError(f"samples must be one series in time order, found {series.ndim} dimensions")
    if not np.isfinite(series).all():
        raise InputError("samples must be finite numbers, found nan or infinity")
    return series


def ranks(series: Floats) -> Floats:
    """Ranks from 1, equal values sharing their mean rank: what is left when no outlier may dominate."""
    _, inverse, counts = np.unique(series, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return np.asarray((last - (counts - 1) / 2.0)[inverse], dtype=np.float64)
