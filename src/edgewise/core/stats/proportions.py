"""Shares of right answers: the interval of one, and the difference of two on the same images."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from .special import binomial_cdf

# The normal quantile of a two-sided 95 %.
Z95 = 1.959963984540054


def wilson(hits: int, count: int) -> tuple[float, float]:
    """The 95 % score interval of a share (Wilson, 1927): it stays between 0 and 1 and covers well for few hits."""
    if not count:
        return 0.0, 1.0
    share, square = hits / count, Z95 * Z95
    centre = (share + square / (2 * count)) / (1 + square / count)
    half = Z95 * math.sqrt(share * (1 - share) / count + square / (4 * count * count)) / (1 + square / count)
    # At the ends the bound is exact, and rounding must not put the share outside.
    return (0.0 if hits == 0 else centre - half), (1.0 if hits == count else centre + half)


@dataclass(frozen=True, slots=True)
class Discordance:
    """Two classifiers on the same images: how many only the first, or only the second, has right."""

    only_first: int
    only_second: int
    count: int

    @property
    def difference(self) -> float:
        """How much larger the second's share of right answers is."""
        return (self.only_second - self.only_first) / self.count

    @property
    def interval(self) -> tuple[float, float]:
        """95 %, by adding one to each count of disagreements (Bonett & Price, 2012)."""
        first, second = (self.only_first + 1) / (self.count + 2), (self.only_second + 1) / (self.count + 2)
        difference = second - first
        half = Z95 * math.sqrt((first + second - difference**2) / (self.count + 2))
        return max(-1.0, difference - half), min(1.0, difference + half)

    @property
    def p(self) -> float:
        """McNemar's test, exact: were both equally good, disagreements would fall like a coin."""
        disagreements = self.only_first + self.only_second
        return min(1.0, 2 * binomial_cdf(min(self.only_first, self.only_second), disagreements, 0.5))


def holm(values: Sequence[float]) -> list[float]:
    """Probabilities corrected for there being several (Holm, 1979): the chance that any of them misleads stays."""
    order = sorted(range(len(values)), key=lambda index: values[index])
    corrected = [0.0] * len(values)
    largest = 0.0
    for rank, index in enumerate(order):
        largest = max(largest, min(1.0, (len(values) - rank) * values[index]))
        corrected[index] = largest
    return corrected
