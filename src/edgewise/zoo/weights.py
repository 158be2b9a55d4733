"""Seeded weights, scaled so that what comes out has a variance of one (He et al., 2015) and a mean near zero."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .moments import Floats, Moments

_GRID = np.float32(2**-12)


def filters(
    random: np.random.Generator, into: Moments, out: int, taps: int, groups: int, seen: Floats | None, gain: float
) -> tuple[NDArray[np.float32], Floats]:
    """Weights (out, channels in a group, taps), and the mean they give each output.

    `seen`: how often each tap lies on a value, not on padding; None is always. `gain`: the deviation of the outputs.
    """
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
    total = weight.sum(axis=2, dtype=np.float64) if seen is None else _summed(weight, seen)
    return weight, _applied(total, into.mean, groups)


def _summed(weight: NDArray[Any], seen: Floats) -> Floats:
    """Over the taps, in double precision."""
    # A matrix product over a single tap takes twenty times as long.
    total: Floats = weight[:, :, 0] * seen if len(seen) == 1 else weight @ seen
    return total


def _applied(matrix: Floats, vector: Floats, groups: int) -> Floats:
    """The matrix (out, channels in a group) of a grouped layer, times a vector over all channels."""
    product: Floats = matrix.reshape(groups, -1, matrix.shape[1]) @ vector.reshape(groups, -1, 1)
    return product.ravel()


def seen(size: int, window: int, stride: int, before: int, steps: int) -> Floats:
    """How often each tap of a window lies on a value, in one direction."""
    places = np.arange(steps)[:, None] * stride - before + np.arange(window)
    inside: Floats = np.mean((places >= 0) & (places < size), axis=0, dtype=np.float64)
    return inside


def rounded(values: Floats) -> NDArray[np.float32]:
    """Sums of doubles on a coarse grid: the file is the same, whatever order a machine adds in."""
    return np.round(values / _GRID).astype(np.float32) * _GRID
