"""Who should do how much, by what was measured: shares that let all parts finish together, and when to change them.

Nothing here has a clock or a process: times come in as numbers, so that tests and simulations run the same code.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from statistics import fmean, stdev
from typing import Literal

from .chains import Axis

# What each part does of each step; the last counts for all steps after it.
Shares = tuple[tuple[float, ...], ...]
# The same by step and part, in any unit of work or time.
Table = Sequence[Sequence[float]]

# Ratios around one: itself, and two on each side, since the next may be the same blocks of channels.
_AROUND = 5
# Shares that differ by less are the same cut.
_SAME_SHARE = 0.025
# The first part's share, of two: few, so that what was cut and loaded once is found again.
_RATIOS = (0.2, 0.25, 0.3, 1 / 3, 0.4, 0.5, 0.6, 2 / 3, 0.7, 0.75, 0.8)
# Frames that tell how long a way takes, and those after a change that do not count.
_WINDOW, _SETTLING = 20, 2
# Of a way that is only tried, and of one that is slower every time.
_TRIAL, _HOPELESS_AFTER = 10, 3
# So many are enough where they took so long together: nobody should wait long for slow frames to become many.
_FEW, _LONG_NS = 6, 1_000_000_000
# An expected gain below this is not worth a change, and a measured one below that is not one.
_EXPECTED, _MEASURED = 0.05, 0.02
# What trials may cost of all time.
_SPENT = 0.01
# How often to look, and how long a way that lost is left alone at the most.
_RECHECK_NS = 2_000_000_000
_LONGEST_NS = 16_000_000_000
# Slower or quicker by so much than when it was judged, or by so much more or less even, time after time: then something
# has changed, and all are worth another look.
_CHANGED = 0.25
_UNEVEN = 0.15
_LOOKS = 2
# Parts that wait for each other for more than this share of the time are worth a look, changed or not.
_IDLE = 0.2
# A trial that is slower by so much every time is over early.
_HOPELESS = 0.15
# Looking and loading slow down the frames beside them: after a look that changed nothing the next is twice as far off.
_LONGEST_REST_NS = 64_000_000_000


# Ways in which what parts are busy with tells nothing of what they would take for shares of their own.
_MUTE = ("single", "covered")


@dataclass(frozen=True, slots=True)
class Way:
    """How a frame is divided: cut by these shares along an axis, or by samples of its batch, or not at all, on one
    `part`; or cut and covered, so that parts do each other's shares, and `part` what is late."""

    kind: Literal["split", "batch", "single", "covered"]
    shares: Shares = ()
    part: int = 0
    axis: Axis = "auto"


def settled(shares: Table, busy_ns: Table, damping: float = 0.7, dead: float = 0.03) -> Shares:
    """Shares of each step by which all parts would take the same time, if each went on at the rate it was measured at.

    A change of less than `dead` is noise; of a larger one only `damping` is made, because a part's rate is not quite
    the same for another share. A part without a share of a step is taken to be as quick there as it is on the whole.
    """
    parts = len(shares[0])
    total = [sum(step[part] for step in shares) for part in range(parts)]
    time = [sum(step[part] for step in busy_ns) for part in range(parts)]
    overall = [done / took if took > 0 else 0.0 for done, took in zip(total, time, strict=True)]
    if not any(overall):
        return tuple(tuple(step) for step in shares)
    found = []
    for now, took in zip(shares, busy_ns, strict=True):
        rates = [
            share / ns if share > 0 and ns > 0 else rate for share, ns, rate in zip(now, took, overall, strict=True)
        ]
        sum_ = sum(now)
        wanted = [rate / sum(rates) for rate in rates]
        moves = [want - share / sum_ for want, share in zip(wanted, now, strict=True)]
        if max(map(abs, moves)) < dead:
            found.append(tuple(share / sum_ for share in now))
        else:
            found.append(tuple(share / sum_ + damping * move for share, move in zip(now, moves, strict=True)))
    return tuple(found)


def uneven(busy_ns: Table) -> float:
    """The share of the time that parts wait for the slowest of each step."""
    slowest = sum(max(step) for step in busy_ns)
    return 1 - sum(fmean(step) for step in busy_ns) / slowest if slowest > 0 else 0.0


def rates(loads: Table, busy_ns: Table) -> tuple[float, ...]:
    """Work per ns of each part, over all steps; what a part did nothing of says nothing (0)."""
    found = []
    for load, took in zip(zip(*loads, strict=True), zip(*busy_ns, strict=True), strict=True):
        time = sum(took)
        found.append(sum(load) / time if time > 0 else 0.0)
    return tuple(found)


def predicted_ns(loads: Table, busy_ns: Table, others: Table) -> float:
    """How long the steps of another plan would take, by its loads: each waits for its slowest part.

    Steps are compared one by one where the plans have as many; else by what the parts did per ns on the whole.
    """
    overall = rates(loads, busy_ns)
    alike = len(loads) == len(others)
    whole = 0.0
    for before, took, load in zip_longest(loads if alike else (), busy_ns if alike else (), others):
        slowest = 0.0
        for part, work in enumerate(load):
            if alike and before[part] > 0 and took[part] > 0:
                slowest = max(slowest, took[part] * work / before[part])
            elif overall[part] > 0:
                slowest = max(slowest, work / overall[part])
        whole += slowest
    return whole


def nearby(wanted: Sequence[float], count: int = 3) -> list[tuple[float, ...]]:
    """Shares to choose from, close to those that are wanted."""
    total = sum(wanted)
    if len(wanted) != 2:
        return [tuple(max(1, round(20 * each / total)) / 20 for each in wanted)]
    first = wanted[0] / total
    return [(ratio, 1 - ratio) for ratio in sorted(_RATIOS, key=lambda ratio: abs(ratio - first))[:count]]


def around(way: Way, axes: Sequence[Axis]) -> list[Way]:
    """Those close to a way for several parts: a little more or less for the first, and the same along another axis.
    Sums are left out: they are for parts that wait long for each other, and that is seen while both work."""
    mean = tuple(fmean(step) for step in zip(*way.shares, strict=True))
    close = [replace(way, shares=(shares,)) for shares in nearby(mean, _AROUND)]
    turned = [replace(way, shares=(shares,), axis=axis) for axis in axes if axis != "inputs" for shares in nearby(mean)]
    return [each for each in dict.fromkeys((*close, *turned)) if not _same(each, way)]


def _first(way: Way) -> float | None:
    """The first part's share where two have the same ones in every step."""
    if way.kind != "split" or len(way.shares) != 1 or len(way.shares[0]) != 2:
        return None
    return way.shares[0][0] / sum(way.shares[0])


def _same(one: Way, other: Way) -> bool:
    """Whether two ways are cut alike: shares are parts of a whole, however they are written."""
    if (one.kind, one.axis, len(one.shares)) != (other.kind, other.axis, len(other.shares)):
        return False
    pairs = [
        pair for steps in zip(one.shares, other.shares, strict=True) for pair in zip(*map(_parts, steps), strict=True)
    ]
    return all(abs(first - second) < _SAME_SHARE for first, second in pairs)


def _parts(step: Sequence[float]) -> list[float]:
    return [share / sum(step) for share in step]


def even(way: Way) -> bool:
    """Whether parts are treated alike; one that runs alone is not."""
    return way.kind != "single" and all(max(step) <= min(step) * (1 + _MEASURED) for step in way.shares)


def apart(one_ns: float, other_ns: float) -> bool:
    """Whether it is something else than chance that makes one of them longer."""
    return max(one_ns, other_ns) > min(one_ns, other_ns) * (1 + _CHANGED)


@dataclass
class _Seen:
    """A way's latest frames; `again_ns` is when it may be tried again after it lost, and `tries` how often it was since
    something changed."""

    frames_ns: deque[float] = field(default_factory=lambda: deque(maxlen=_WINDOW))
    skip: int = _SETTLING
    again_ns: int = 0
    pause_ns: int = _RECHECK_NS
    tries: int = 0

    def mean_ns(self) -> float:
        """Without the longest: somebody else's moment."""
        return fmean(self._kept())

    def error_ns(self) -> float:
        """The standard error of the mean."""
        kept = self._kept()
        return stdev(kept) / math.sqrt(len(kept)) if len(kept) > 1 else 0.0

    def tells(self, frames: int) -> bool:
        """Whether it has been seen long enough to be judged."""
        count = len(self.frames_ns)
        return count >= frames or (count >= _FEW and sum(self.frames_ns) >= _LONG_NS)

    def _kept(self) -> list[float]:
        return sorted(self.frames_ns)[:-1] if len(self.frames_ns) > 3 else list(self.frames_ns)


class Balance:
    """Which way the next frame is divided. A way is tried for a few frames, and stays if it is quicker; one that is
    not gets its next try later and later, as long as nothing changes.

    `known_ns` is what a frame took in the first way when nothing better was found: where it still does, and keeps all
    parts busy, there is nothing to look for until something changes. The clock is what all frames took together: where
    they come seldom, so do trials. `split` is the best way for several parts with shares of their own, for when one
    runs alone or they do each other's.
    """

    def __init__(self, first: Way, known_ns: float | None = None, split: Way | None = None) -> None:
        self.current = first
        self.split = split or first
        self._known_ns = known_ns
        self.trial: Way | None = None
        self.changes = 0
        self._seen: dict[Way, _Seen] = {first: _Seen()}
        # Whether there was nothing left to try; and whether there ever was such a moment.
        self.settled = self.calm = False
        self._judged_ns: int | None = None
        self._baseline_ns = self._baseline_uneven = 0.0
        self._apart, self._rest_ns = 0, _RECHECK_NS
        # Until when trials have cost their share of the time; and what looking and loading have cost for the next.
        self._paid_ns = 0
        self._beside_ns = 0.0

    @property
    def way(self) -> Way:
        return self.trial or self.current

    def note(self, frame_ns: float, now_ns: int) -> None:
        """A frame was done, in the way it was asked for."""
        seen = self._seen[self.way]
        if seen.skip:
            seen.skip -= 1
            return
        seen.frames_ns.append(frame_ns)
        if self.trial is None:
            return
        count = len(seen.frames_ns)
        hopeless = count >= _HOPELESS_AFTER and min(seen.frames_ns) > self.mean_ns() * (1 + _HOPELESS)
        if seen.tells(_TRIAL) or hopeless:
            self._decide(self.trial, now_ns)

    def beside(self, frame_ns: float) -> None:
        """A frame was done while something was looked for or loaded: it says nothing of its way, and what it took
        longer is part of what the next trial costs."""
        if self.judged:
            self._beside_ns += max(0.0, frame_ns - self.mean_ns())

    def due(self, now_ns: int, uneven: float = 0.0) -> bool:
        """Whether it is time to look for something better: as long as there is something to try, and when the frames or
        how evenly they keep the parts busy have changed; always, where those tell nothing."""
        if self.trial is not None or not self._seen[self.current].tells(_WINDOW):
            return False
        rest_ns = self._rest_ns if self.settled else _RECHECK_NS
        if self.calm and self._judged_ns is not None and now_ns - self._judged_ns < rest_ns:
            return False
        mean = self.mean_ns()
        if self._confirmed(mean, uneven):
            self.settled = self.calm = True
            self._judged_ns, self._baseline_ns, self._baseline_uneven = now_ns, mean, uneven
            return False
        self._apart = self._apart + 1 if self._changed(mean, uneven) else 0
        if self._apart >= _LOOKS:
            self._apart, self._rest_ns = 0, min(_LONGEST_REST_NS, 2 * self._rest_ns)
            self._paid_ns = 0
            for seen in self._seen.values():
                seen.again_ns, seen.pause_ns, seen.tries = 0, _RECHECK_NS, 0
        elif self.settled and uneven > _IDLE:
            # Whatever was on a core when this way was found may have gone before anybody could see the change.
            self._rest_ns = min(_LONGEST_REST_NS, 2 * self._rest_ns)
        elif self.settled and self.current.kind not in _MUTE:
            # Frames from now on tell whether it is still so.
            self._judged_ns = now_ns
            self._seen[self.current].frames_ns.clear()
            return False
        self._judged_ns, self._baseline_ns, self._baseline_uneven = now_ns, mean, uneven
        return True

    def _confirmed(self, mean_ns: float, uneven: float) -> bool:
        """Asked once, of the way it began with. Of one part alone there is nothing to confirm: it is as quick as ever,
        and what was slow beside it may be so no more. Nor of parts that do each other's shares."""
        known_ns, self._known_ns = self._known_ns, None
        if known_ns is None or self.current.kind in _MUTE or uneven > _IDLE:
            return False
        return not apart(mean_ns, known_ns)

    def _changed(self, mean_ns: float, uneven: float) -> bool:
        if not self._baseline_ns:
            return False
        return apart(mean_ns, self._baseline_ns) or abs(uneven - self._baseline_uneven) > _UNEVEN

    def mean_ns(self) -> float:
        return self._seen[self.current].mean_ns()

    @property
    def judged(self) -> bool:
        """Whether the current way has been seen long enough to say what it takes."""
        return self._seen[self.current].tells(_TRIAL)

    def choose(self, expected_ns: Mapping[Way, float], now_ns: int) -> Way | None:
        """Of ways with what they are expected to take, the one to try. One on a single part is tried in any case: it is
        what there would be without a split. So is one that is covered: what is expected of others counts on cores being
        there when they are needed."""
        mean = self.mean_ns()
        waiting: dict[Way, float]
        if self.calm:
            waiting = {way: max(self._paid_ns, self._seen.get(way, _Seen()).again_ns) for way in expected_ns}
        else:
            # Until all that is worth it had its try, nothing gets a second one: nor do shares of their own for every
            # step, which come out a little different each time.
            tried = [way.axis for way in self._seen if len(way.shares) > 1 and way != self.current]
            again = {way: way in self._seen or (len(way.shares) > 1 and way.axis in tried) for way in expected_ns}
            waiting = {way: math.inf if again[way] or self._beyond(way) else 0.0 for way in expected_ns}
        open_ = {way: ns for way, ns in expected_ns.items() if way != self.current and waiting[way] <= now_ns}
        better = {way: ns for way, ns in open_.items() if ns < mean * (1 - _EXPECTED)}
        # Where nothing is known of them, by turns.
        turns = {way: self._seen.get(way, _Seen()).tries if self.current.kind in _MUTE else 0 for way in better}
        found = min(better, key=lambda way: (turns[way], better[way]), default=None)
        if found is None:
            found = next((way for way in open_ if way.kind in _MUTE), None)
        if found is None and not self.calm:
            # Another axis once: what copies and caches cost is not in what is expected. And where parts are not alike,
            # whatever is near: nor is what it costs to come by turns on a core that others want.
            unlike = not even(self.current)
            found = next((way for way in open_ if unlike or way.axis != self.current.axis), None)
        self.settled = found is None
        self.calm |= self.settled
        return found

    def _beyond(self, way: Way) -> bool:
        """Whether it goes further from the best shares along its axis than some that were already worse."""
        wanted = _first(way)
        seen = {
            first: each.mean_ns()
            for other, each in self._seen.items()
            if other.axis == way.axis and each.frames_ns and (first := _first(other)) is not None
        }
        if wanted is None or not seen:
            return False
        best = min(seen, key=lambda first: seen[first])
        low, high = sorted((best, wanted))
        return any(low < first < high for first, ns in seen.items() if ns > seen[best] * (1 + _EXPECTED))

    def begin(self, way: Way) -> None:
        """It is loaded everywhere: the next frames try it."""
        seen = self._seen.setdefault(way, _Seen())
        seen.frames_ns.clear()
        seen.skip = _SETTLING
        seen.tries += 1
        self.trial = way

    def _decide(self, trial: Way, now_ns: int) -> None:
        tried, before = self._seen[trial], self._seen[self.current]
        self.trial = None
        beside_ns, self._beside_ns = self._beside_ns, 0.0
        # While several parts have shares of their own, the best such way is the one they run in.
        plain, known = trial.kind not in _MUTE, self._seen.get(self.split)
        better = known is None or not known.frames_ns or tried.mean_ns() < known.mean_ns()
        if plain and better and self.current.kind in _MUTE:
            self.split = trial
        gain = before.mean_ns() - tried.mean_ns()
        if gain > max(before.mean_ns() * _MEASURED, math.hypot(before.error_ns(), tried.error_ns())):
            before.again_ns, before.pause_ns = now_ns + _RECHECK_NS, _RECHECK_NS
            self.current, self._baseline_ns = trial, 0.0
            self.split = trial if plain else self.split
            self._rest_ns = _RECHECK_NS
            self.changes += 1
            return
        # What trials cost stays a small part of the time between them.
        cost = (tried.mean_ns() - before.mean_ns()) * (len(tried.frames_ns) + _SETTLING) + beside_ns
        self._paid_ns = now_ns + int(cost / _SPENT)
        tried.again_ns = now_ns + tried.pause_ns
        tried.pause_ns = min(_LONGEST_NS, 2 * tried.pause_ns)
        # The frames of the old way are from before the trial, but nothing has happened to it since.
        before.skip = 1
