"""What a channel is expected to hold: the mean and variance that training would have measured for batch normalization.

Nothing is run to know them. Each value is taken for a normal variable, independent of its neighbours, before a ReLU or
not; that is near enough for a network of two hundred layers to keep its values of order one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# Mean and deviation of the largest of so many standard normal variables.
_LARGEST: dict[float, tuple[float, float]] = {1: (0.0, 1.0), 4: (1.029, 0.701), 9: (1.485, 0.598)}

# Places of a standard normal variable, and how likely each is.
_PLACES = np.linspace(-4, 4, 33)
_LIKELY = np.exp(-(_PLACES**2) / 2) / np.exp(-(_PLACES**2) / 2).sum()


@dataclass(frozen=True)
class Moments:
    """Mean and variance per channel."""

    mean: Floats
    variance: Floats
    # After a ReLU: what was before it, and how often it gives exactly zero.
    raw: Moments | None = None
    zeros: Floats | None = None
    # A sum whose one side is often zero: what it is then and otherwise, each with its probability.
    cases: tuple[tuple[Floats, Moments], ...] = ()

    @staticmethod
    def of(mean: Floats) -> Moments:
        return Moments(mean, np.ones(len(mean)))

    def relu(self) -> Moments:
        """Those of the positive part of a normal variable, or of each case."""
        if self.cases:
            parts = [(often, case.relu()) for often, case in self.cases]
            mean = sum((often * part.mean for often, part in parts), np.zeros_like(self.mean))
            square = sum((often * (part.mean**2 + part.variance) for often, part in parts), np.zeros_like(mean))
            zeros = sum((often * part.zeros for often, part in parts if part.zeros is not None), np.zeros_like(mean))
        else:
            deviation = np.sqrt(self.variance)
            z = self.mean / deviation
            density = np.exp(-z * z / 2) / np.sqrt(2 * np.pi)
            zeros = (1 - np.tanh(np.sqrt(2 / np.pi) * (z + 0.044715 * z**3))) / 2  # to 3 digits
            mean = self.mean * (1 - zeros) + deviation * density
            square = (self.mean**2 + self.variance) * (1 - zeros) + self.mean * deviation * density
        return Moments(mean, np.maximum(square - mean**2, self.variance / 1000), self, zeros)

    def through(self, function: Callable[[Floats], Floats]) -> Moments:
        """Those of any function of a normal variable."""
        values = function(self.mean[:, None] + np.sqrt(self.variance)[:, None] * _PLACES)
        mean = values @ _LIKELY
        return Moments(mean, np.maximum((values - mean[:, None]) ** 2 @ _LIKELY, self.variance / 1000))

    def largest(self, count: float, common: float = 0.0) -> Moments:
        """`common`: the part of their variance that neighbours share."""
        if self.raw:
            return self.raw.largest(count, common).relu()
        shift, spread = _LARGEST.get(count) or _largest(count)
        mean = self.mean + shift * np.sqrt((1 - common) * self.variance)
        return Moments(mean, self.variance * (common + (1 - common) * spread**2))

    def average(self, count: int) -> Moments:
        # Neighbours are not that independent; and where the variance is small, so is what it may be magnified by.
        return Moments(self.mean, self.variance / np.sqrt(count))

    def overall(self) -> Moments:
        # Taken for centred. What tells images apart is small beside the mean by now, and a head that answered to that
        # alone would magnify every rounding error.
        return Moments(np.zeros_like(self.mean), self.mean**2 + self.variance)

    def plus(self, other: Moments) -> Moments:
        mean, variance = self.mean + other.mean, self.variance + other.variance
        if self.zeros is None:
            return other.plus(self) if other.zeros is not None else Moments(mean, variance)
        often = np.maximum(1 - self.zeros, 0.001)
        positive = self.mean / often
        spread = np.maximum((self.mean**2 + self.variance) / often - positive**2, 0)
        otherwise = Moments(positive + other.mean, spread + other.variance)
        return Moments(mean, variance, cases=((1 - often, other), (often, otherwise)))

    def times(self, other: Moments) -> Moments:
        mean = self.mean * other.mean
        square = (self.mean**2 + self.variance) * (other.mean**2 + other.variance)
        return Moments(mean, square - mean**2)

    def doubled(self) -> Moments:
        return Moments(2 * self.mean, 4 * self.variance)

    def take(self, channels: NDArray[np.int64]) -> Moments:
        return Moments(self.mean[channels], self.variance[channels], self.raw and self.raw.take(channels))


def silu(x: Floats) -> Floats:
    """For `through`: x times its own sigmoid."""
    value: Floats = x / (1 + np.exp(-x))
    return value


def _largest(count: float) -> tuple[float, float]:
    below = np.array([(1 + math.erf(place / 2**0.5)) / 2 for place in np.linspace(-6, 6, 193)]) ** count
    middles, often = np.linspace(-6 + 1 / 32, 6 - 1 / 32, 192), np.diff(below)
    mean = float(middles @ often)
    return mean, float((middles - mean) ** 2 @ often) ** 0.5


def concat(parts: Sequence[Moments]) -> Moments:
    raws = [part.raw for part in parts if part.raw]
    raw = concat(raws) if len(raws) == len(parts) else None
    return Moments(np.concatenate([p.mean for p in parts]), np.concatenate([p.variance for p in parts]), raw)
