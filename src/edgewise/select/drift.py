"""Do the images still look like those the guarantee was shown on? Asked after every one, and seldom wrong.

A guarantee holds for images like those it was calibrated on. What a policy sees of an image is whom it asked and how
sure it was, so that is watched. Each value gets its rank among those of calibration and all that came since, ties
broken by lot; while images are exchangeable, ranks are uniform and independent, and no way of betting on them wins
(conformal test martingales: Vovk, Nouretdinov & Gammerman 2003, "Testing exchangeability on-line"). Wealth above
1/alpha is the alarm: over a whole stream, however long, its probability is at most alpha (Ville 1939) where the images
of calibration had no part in choosing the policy. Those of a promise had: they said how far its thresholds go. So alpha
is what false alarms come to about, not a limit that is proved. Ranks rather than shares beside the calibration's: those
are estimates, and a long stream would prove them wrong by itself.

What is tested is exchangeability, so the order of images counts: a folder that is streamed class by class is not
exchangeable, and sets off the alarm though every image in it is like those of calibration. Shuffle it. The state lives
in one process: another one, or a second run, begins again with that of calibration.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.errors import InputError

# Values are told apart by these many quantiles of calibration.
_BINS = 200
# Bets that ranks p are low, or high (1 + slope (p - 1/2)), or at both ends, or in the middle
# (1 + bend (3 (2 p - 1)^2 - 1)). None can lose all.
_SLOPES = (-1.8, -1.0, -0.4, 0.4, 1.0, 1.8)
_BENDS = (-0.45, 0.9)
_BETS = 1 + len(_SLOPES) + len(_BENDS)
# After t images, this over t + _PATIENCE of all wealth is dealt out again evenly, so that a change is noticed as well
# after a million images as after a hundred, and what waiting costs grows only like the logarithm.
_DEALT, _PATIENCE = 1.0, 100.0
_MASK = (1 << 64) - 1


def signal(asked: int, confidence: float) -> float:
    """What a decision says about its image: the fewer candidates were asked, and the surer they were, the larger."""
    return confidence - asked


class Monitor:
    """`see` takes what `signal` makes of each decision; `alarmed` stays true once it is."""

    def __init__(self, calibration: Sequence[float] | NDArray[np.float64], *, alpha: float = 0.01, seed: int = 0):
        values = np.asarray(calibration, np.float64)
        if values.size < 2 or not np.isfinite(values).all():
            raise InputError(f"a monitor takes the signals of at least two images, all finite; found {values.size}")
        if not 0 < alpha < 1:
            raise InputError(f"the rate of false alarms is between 0 and 1, found {alpha}")
        self.alpha = alpha
        self._seed = seed
        # Confidences are often exactly one. Every value draws a lot beside it, and pairs of the two do not tie.
        lots = np.random.default_rng(seed).random(len(values))
        ordered = sorted(zip(values.tolist(), lots.tolist(), strict=True))
        places = sorted({len(ordered) * cut // _BINS for cut in range(1, _BINS)})
        self._edges = [ordered[place] for place in places]
        self._counts = np.diff([0, *places, len(ordered)])
        # Edges are values of calibration, each the first of its bin, and a new one is as likely in each gap between
        # neighbours: there is one gap more than there are values. With this the next bin is drawn as from Pólya's urn,
        # and ranks are uniform.
        self._counts[0] += 1
        self._seen = 0
        self._wealth = np.full(_BETS, 1 / _BETS)
        # The wealth is kept near one, and this is the logarithm of what was taken out.
        self._log = 0.0
        self._alarm_at: int | None = None

    @property
    def seen(self) -> int:
        return self._seen

    @property
    def alarmed(self) -> bool:
        return self._alarm_at is not None

    @property
    def alarm_at(self) -> int | None:
        """The image, counted from 1, at which the guarantee ceased to apply."""
        return self._alarm_at

    @property
    def log_wealth(self) -> float:
        return self._log + float(np.log(self._wealth.sum()))

    def see(self, value: float) -> bool:
        """Whether the alarm is on after this one."""
        place = bisect_right(self._edges, (float(value), self._uniform(0)))
        # Within a bin the rank is drawn by lot.
        below = float(self._counts[:place].sum()) + self._uniform(1) * float(self._counts[place])
        rank = below / float(self._counts.sum())
        self._counts[place] += 1
        self._seen += 1
        dealt = _DEALT / (self._seen + _PATIENCE)
        shared = (1 - dealt) * self._wealth + dealt * self._wealth.sum() / _BETS
        self._wealth = shared * _gains(rank)
        total = float(self._wealth.sum())
        self._wealth /= total
        self._log += float(np.log(total))
        if self._alarm_at is None and self._log >= -np.log(self.alpha):
            self._alarm_at = self._seen
        return self.alarmed

    def _uniform(self, draw: int) -> float:
        """By number and seed (splitmix64), so that a monitor that was saved goes on as if it had not been. Two draws
        for each image."""
        number = 2 * self._seen + draw + 1
        state = (self._seed * 0x2545F4914F6CDD1D + number * 0x9E3779B97F4A7C15) & _MASK
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _MASK
        return ((state ^ (state >> 31)) >> 11) / (1 << 53)

    def saved(self) -> dict[str, Any]:
        return {
            "alpha": self.alpha,
            "seed": self._seed,
            "edges": [value for value, _ in self._edges],
            "lots": [lot for _, lot in self._edges],
            "counts": self._counts.tolist(),
            "seen": self._seen,
            "wealth": self._wealth.tolist(),
            "log": self._log,
            "alarm_at": self._alarm_at,
        }


def _gains(rank: float) -> NDArray[np.float64]:
    """What each bet makes of its stake; over uniform ranks each makes one on average."""
    centred = rank - 0.5
    both = 3 * (2 * centred) ** 2 - 1
    return np.array([1.0, *(1 + slope * centred for slope in _SLOPES), *(1 + bend * both for bend in _BENDS)])


def load(fields: Mapping[str, Any]) -> Monitor:
    """A monitor that goes on where the saved one was."""
    numbers = {name: _numbers(fields, name) for name in ("edges", "lots", "counts", "wealth")}
    pairs = list(zip(numbers["edges"].tolist(), numbers["lots"].tolist(), strict=False))
    sizes = {name: len(value) for name, value in numbers.items()}
    whole = {name: fields.get(name) for name in ("seed", "seen")}
    alpha, log, alarm_at = (fields.get(name) for name in ("alpha", "log", "alarm_at"))
    fits = (
        sizes["counts"] == sizes["edges"] + 1
        and sizes["lots"] == sizes["edges"]
        and sizes["wealth"] == _BETS
        and pairs == sorted(set(pairs))
        and bool((numbers["counts"] >= 0).all() and numbers["counts"].sum() > 0)
        and bool((numbers["wealth"] >= 0).all() and numbers["wealth"].sum() > 0)
        and all(isinstance(value, int) and value >= 0 for value in whole.values())
        and isinstance(alpha, float)
        and 0 < alpha < 1
        and isinstance(log, float)
        and (alarm_at is None or isinstance(alarm_at, int))
    )
    if not fits:
        raise InputError("the state of a drift monitor does not fit together: it was not saved by one")
    made = Monitor([0.0, 1.0], alpha=float(fields["alpha"]), seed=int(fields["seed"]))
    made._edges, made._wealth = pairs, numbers["wealth"]
    made._counts = numbers["counts"].astype(np.int64)
    made._seen, made._log, made._alarm_at = int(fields["seen"]), float(fields["log"]), alarm_at
    return made


def _numbers(fields: Mapping[str, Any], name: str) -> NDArray[np.float64]:
    value = fields.get(name)
    if not isinstance(value, list) or not all(isinstance(each, int | float) for each in value):
        raise InputError(f"{name} of a drift monitor is a list of numbers, found {value!r:.80}")
    return np.array(value, np.float64)
