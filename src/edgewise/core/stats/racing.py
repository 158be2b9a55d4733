"""Who can be sent home from a race, when few starts were seen of each, at a stated error rate.

A heat is a fresh set of processes that take turns; each side gives one number, its log cost relative to one of them. A
candidate meets few of the others, so all heats are fitted together: value = candidate + heat + what its process was
like (an incomplete block design; Cochran & Cox, 1957, "Experimental Designs", chapter 9).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from .series import Floats
from .special import t_cdf, t_quantile

# Of the log cost of one process: two of them differ by 3 %, the most that short turns on the same cores have shown on a
# shared machine (docs/decisions/0001-process-pairs.md).
PROCESS_DEVIATION = 0.03 / math.sqrt(2)
# How many residuals that figure is worth until a candidate has shown its own (Smyth, 2004, "Linear models and empirical
# Bayes methods": a moderated t). It is what allows for a target whose processes differ by far more than most: with ten,
# a best one that scatters by 10 % was sent home in a fifth of simulated races; with three, the first heat still decides
# about whoever is a third slower.
PRIOR_FREEDOM = 3.0
# What the turns show of their own spread is not subject to that doubt.
TURN_FREEDOM = 19.0
# Who cannot be cheaper by more than this is not worth another start.
MARGIN = 0.02
ERROR_RATE = 0.05
_ROUNDS = 5


@dataclass(frozen=True, slots=True)
class Seen:
    """What one side of a heat came to: the log of its cost over the reference's, and the standard error its own turns
    give that. The reference itself is a side, at 0."""

    heat: int
    who: int
    value: float
    error: float = 0.0


@dataclass(frozen=True, slots=True)
class Gap:
    """By how much one candidate's log cost exceeds another's."""

    estimate: float
    error: float
    freedom: float

    def exceeds(self, least: float, level: float) -> bool:
        """Whether it is above `least` at a confidence of `level`, one-sided."""
        beyond = self.estimate - least
        return beyond > 0 and (self.error == 0 or t_cdf(beyond / self.error, self.freedom) > level)

    def ratio(self, level: float) -> tuple[float, float, float]:
        """Cost over cost, with its two-sided interval."""
        half = t_quantile(0.5 + level / 2, self.freedom) * self.error
        return tuple(math.exp(self.estimate + shift) for shift in (-half, 0.0, half))  # type: ignore[return-value]


def side(heat: int, who: int, costs: Sequence[float], reference: Sequence[float]) -> Seen:
    """The median over the turns both took of the log of their ratio."""
    logs = [math.log(a / b) for a, b in zip(costs, reference, strict=False)]
    # The variance of a median is that of a mean times pi/2. One turn alone says nothing of its spread.
    error = math.sqrt(math.pi / 2 * float(np.var(logs, ddof=1)) / len(logs)) if len(logs) > 1 else 2 * PROCESS_DEVIATION
    return Seen(heat, who, median(logs), error)


class Standings:
    """All heats so far, fitted together."""

    def __init__(self, seen: Iterable[Seen]) -> None:
        self._seen = tuple(seen)
        self._who = {who: place for place, who in enumerate(dict.fromkeys(s.who for s in self._seen))}
        self._heats = {heat: place for place, heat in enumerate(dict.fromkeys(s.heat for s in self._seen))}
        self._group = _connected(self._seen)
        self._fit()

    def _fit(self) -> None:
        count = len(self._who)
        design = np.zeros((len(self._seen), count + len(self._heats)))
        for row, s in enumerate(self._seen):
            design[row, self._who[s.who]] = 1.0
            design[row, count + self._heats[s.heat]] = 1.0
        values = np.array([s.value for s in self._seen])
        turns = np.array([s.error**2 for s in self._seen])
        own = np.array([self._who[s.who] for s in self._seen], np.int64)
        process, spare = np.full(count, PROCESS_DEVIATION**2), np.zeros(count)
        residuals, free = np.zeros(len(values)), np.zeros(len(values))
        # Each candidate has a spread of its own, or one that is erratic would keep all others from being told apart. It
        # says how much each start counts, which says what is left over as spread: a few rounds settle it.
        for fit in range(_ROUNDS):
            if fit:
                beyond = np.bincount(own, residuals**2 - free * turns, count)
                process = (PRIOR_FREEDOM * PROCESS_DEVIATION**2 + beyond.clip(0.0)) / (PRIOR_FREEDOM + spare)
            weights = 1.0 / (process[own] + turns)
            information = design.T @ (design * weights[:, None])
            covariance = np.linalg.pinv(information, hermitian=True)
            effects = covariance @ (design.T @ (weights * values))
            residuals = values - design @ effects
            free = 1.0 - weights * ((design @ covariance) * design).sum(1)
            spare = np.bincount(own, free, count).clip(0.0)
        self._covariance: Floats = np.asarray(covariance, np.float64)
        # How much of a candidate's variance is that of its processes, in the mean over its starts.
        self._share: Floats = np.bincount(own, weights * process[own], count) / np.bincount(own, minlength=count)
        self._effects: Floats = np.asarray(effects, np.float64)
        self._freedom: Floats = np.asarray(PRIOR_FREEDOM + spare, np.float64)

    def gap(self, who: int, than: int) -> Gap | None:
        """None where no chain of heats leads from one to the other."""
        if who == than:
            return Gap(0.0, 0.0, PRIOR_FREEDOM)
        if who not in self._group or self._group[who] != self._group.get(than):
            return None
        a, b = self._who[who], self._who[than]
        square = self._covariance[a, a] + self._covariance[b, b] - 2 * self._covariance[a, b]
        # Satterthwaite's, of the two sources; the spreads of the two sides' processes are not averaged, since it takes
        # only one that is not what it seems.
        share = float(max(self._share[a], self._share[b]))
        freedom = 1 / (share**2 / float(min(self._freedom[a], self._freedom[b])) + (1 - share) ** 2 / TURN_FREEDOM)
        return Gap(float(self._effects[a] - self._effects[b]), math.sqrt(max(float(square), 0.0)), freedom)

    def first(self, among: Iterable[int]) -> int | None:
        """The cheapest by estimate."""
        known = [who for who in among if who in self._who]
        return min(known, key=lambda who: float(self._effects[self._who[who]]), default=None)

    def starts(self, who: int) -> int:
        return sum(s.who == who for s in self._seen)


def _connected(seen: Sequence[Seen]) -> dict[int, int]:
    """A number for each candidate, the same for those that a chain of heats connects."""
    group = {s.who: s.who for s in seen}
    changed = True
    while changed:
        changed = False
        for heat in {s.heat for s in seen}:
            members = [s.who for s in seen if s.heat == heat]
            least = min(group[who] for who in members)
            for who in members:
                changed |= group[who] != least
                group[who] = least
    return group


def level(candidates: int, look: int, error_rate: float = ERROR_RATE) -> float:
    """The confidence a candidate's `look`-th judgement (from 1) needs, so that over all candidates and all looks,
    however many, the best is sent home with a probability of at most `error_rate`.

    The rate is shared out over the others it could lose to, and over looks as 1/2, 1/6, 1/12, … which add up to one:
    most are sent home at the first.
    """
    return 1.0 - error_rate / (max(candidates - 1, 1) * look * (look + 1))
