"""Seeded weights, scaled so that what comes out has a variance of one (He et al., 2015) and a mean near zero."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .moments import Floats, Moments

_GRID = np.float32(2**-12)
# Weights that are drawn at once: few enough for a processor's cache.
_BLOCK = 1 << 18


def filters(
    random: np.random.Generator, into: Moments, out: int, taps: int, groups: int, seen: Floats | None, gain: float
) -> tuple[NDArray[np.float32], Floats]:
    """Weights (out, channels in a group, taps), and the mean they give each output.

    `seen`: how often each tap lies on a value, not on padding; None is always. `gain`: the deviation of the outputs.
    """
    channels = len(into.mean) // groups
    rows = out if groups > 1 else max(1, _BLOCK // (channels * taps))
    # Made block by block, and as bytes: a whole weight would be in memory once more than it must.
    made, means = io.BytesIO(), []
    for first in range(0, out, rows):
        weight, mean = _block(random, into, min(rows, out - first), taps, groups, seen, gain)
        made.write(weight.data)
        means.append(mean)
    return np.frombuffer(made.getvalue(), np.float32).reshape(out, channels, taps), np.concatenate(means)


def _block(
    random: np.random.Generator, into: Moments, out: int, taps: int, groups: int, seen: Floats | None, gain: float
) -> tuple[NDArray[np.float32], Floats]:
    channels = len(into.mean) // groups
    # Uniform, not normal: five times as fast, and no machine's logarithm in it.
    weight = random.random((out, channels, taps), dtype=np.float32)
    weight -= np.float32(0.5)
    if seen is None:
        power = np.full(out, channels * taps * into.variance.mean() / 12)
    else:
        # Near an edge fewer taps add up, and what a bias takes away there is too much.
        squares = np.square(weight, dtype=np.float64)
        power = _applied(_summed(squares, seen), into.variance, groups)
        power += _applied(_summed(squares, seen * (1 - seen)), into.mean**2, groups)
    weight *= (gain / np.sqrt(power)).astype(np.float32)[:, None, None]
    total = _summed(weight, np.ones(taps) if seen is None else seen)
    return weight, _applied(total, into.mean, groups)


def _summed(weight: NDArray[Any], seen: Floats) -> Floats:
    """Over the taps, in double precision."""
    # Not by BLAS: its threads wait for each of these small products at the cost of a core.
    total: Floats = np.einsum("oct,t->oc", weight, seen)
    return total


def _applied(matrix: Floats, vector: Floats, groups: int) -> Floats:
    """The matrix (out, channels in a group) of a grouped layer, times a vector over all channels."""
    product: Floats = np.einsum("goc,gc->go", matrix.reshape(groups, -1, matrix.shape[1]), vector.reshape(groups, -1))
    return product.ravel()


def seen(size: int, window: int, stride: int, before: int, steps: int) -> Floats:
    """How often each tap of a window lies on a value, in one direction."""
    places = np.arange(steps)[:, None] * stride - before + np.arange(window)
    inside: Floats = np.mean((places >= 0) & (places < size), axis=0, dtype=np.float64)
    return inside


def content(value: NDArray[Any]) -> bytes:
    """The bytes of an array; those it was made of, where it is all of them in their order."""
    base = value.base
    while isinstance(base, np.ndarray):
        base = base.base
    if isinstance(base, bytes) and len(base) == value.nbytes and value.flags.c_contiguous:
        return base
    return value.tobytes()


def rounded(values: Floats) -> NDArray[np.float32]:
    """Sums of doubles on a coarse grid: the file is the same, whatever order a machine adds in."""
    return np.round(values / _GRID).astype(np.float32) * _GRID
