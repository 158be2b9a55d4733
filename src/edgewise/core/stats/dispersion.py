"""How much the samples over a bound come in clusters, as seen so far."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .series import Floats

# Window sums overlap by three quarters: nearly all that full overlap would give, at a fraction of the work.
_WINDOWS_PER_LENGTH = 4
# The longest window, in longest dependences: a sum over so many has lost at most a tenth of its variance.
_LENGTHS_PER_WINDOW = 16
# A window length is used once the series holds four of them end to end; from fewer a variance says nothing.
_FEWEST_WINDOWS = 4
# The dispersion is raised by this many of its standard errors, about 1 / sqrt(clusters seen) each: a series with few
# and small clusters looks both faster and more independent than it is. Tuned by simulation (benchmarks/coverage.py).
_ERRORS = 2.0
# Until about this many clusters were seen the assumed longest dependence counts, not the dependence seen.
_CLUSTERS = 10.0


def _lengths(longest: float) -> list[int]:
    lengths = [4]
    while 4 * lengths[-1] <= _LENGTHS_PER_WINDOW * longest:
        lengths.append(4 * lengths[-1])
    return lengths


def _windows(sums: NDArray[np.int32], looks: NDArray[np.intp], length: int) -> Floats:
    """Variance of the number over the bound in windows of this length, after each look, over the binomial one."""
    stride = max(1, length // _WINDOWS_PER_LENGTH)
    windows = (sums[..., length::stride] - sums[..., :-length:stride]).astype(np.float64)
    ends = (looks - length) // stride + 1
    starts = np.concatenate([[0], ends[:-1]])
    totals = np.cumsum(np.add.reduceat(windows[..., : ends[-1]], starts, axis=-1), axis=-1)
    np.square(windows, out=windows)
    squares = np.cumsum(np.add.reduceat(windows[..., : ends[-1]], starts, axis=-1), axis=-1)
    variance = squares / ends - (totals / ends) ** 2
    rate = sums[..., looks] / looks
    binomial = length * rate * (1.0 - rate) * (1.0 - length / looks)
    return np.divide(variance, binomial, out=np.ones_like(variance), where=binomial > 0.0)


def dispersion(over: NDArray[np.bool_], looks: NDArray[np.intp], longest: float) -> Floats:
    """Variance over mean of the number of samples over the bound, after each of the `looks` (increasing counts).

    The largest ratio over windows of 4, 16, 64, ... samples (the index of dispersion for counts, Cox & Lewis 1966,
    "The Statistical Analysis of Series of Events"), raised by its own uncertainty, and drawn towards what clusters
    of the `longest` mean length would give while few clusters have been seen. `over` may hold one series per row.
    """
    sums = np.zeros((*over.shape[:-1], over.shape[-1] + 1), dtype=np.int32)
    np.cumsum(over, axis=-1, out=sums[..., 1:])
    count = sums[..., looks].astype(np.float64)
    seen = np.ones_like(count)
    for length in _lengths(longest):
        first = int(np.searchsorted(looks, _FEWEST_WINDOWS * length))
        if first < looks.size:
            seen[..., first:] = np.maximum(seen[..., first:], _windows(sums, looks[first:], length))
    clusters = count / seen
    raised = seen * (1.0 + _ERRORS / np.sqrt(clusters + 1.0))
    # A geometric cluster of mean size m has E[size²] / E[size] = 2 m - 1.
    assumed = np.maximum(raised, 2.0 * longest - 1.0)
    weight = _CLUSTERS**2 / (_CLUSTERS**2 + clusters**2)
    return np.asarray(weight * assumed + (1.0 - weight) * raised, dtype=np.float64)
