"""What better way there may be to divide frames: the ways to choose from, with what each would take."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Generic, TypeVar

from .balance import Shares, Table, Way, around, even, nearby, predicted_ns, rates, settled, uneven
from .ways import Ways

T = TypeVar("T")
# How much quicker another part has to be than the first to run alone.
_FIRST = 1.15
# What must be expected of adding up shares of sums before it is tried.
_WORTH = 0.05
# How long parts wait for each other, as a share of the time, before doing each other's shares is worth a try: two alike
# ones on free cores wait for less, unless a network is too narrow for them.
_WAITING = 0.15
# Steps that take less are short: they are over before most parts have lost their core.
_SHORT_NS = 2_000_000


def expected(
    ways: Ways, now: Way, split: Way, busy_ns: Table, frame_ns: float, *, fine: bool = True, near: bool = True
) -> dict[Way, float]:
    """The ways to choose from with the ns that a frame would take. While one part runs alone nothing is known of the
    others, and while they do each other's shares nothing of what they would take for their own: then other ways stand
    there with as good as nothing, to be tried in that order, beginning with the best `split` there was and ending with
    those `near` it."""
    near &= split.kind == "split"
    if now.kind == "single":
        return _in_turn(now, [split, *(covered(ways, now.part, frame_ns) + around(split, ways.axes) if near else [])])
    if now.kind == "covered":
        equal = Way("split", (ways.equal,), axis=ways.axes[0])
        # Who leads was the quickest when the search began; later it may be somebody else.
        others = [] if fine else [part for part in range(len(ways.equal)) if part != now.part]
        led = [way for part in others for way in (*covered(ways, part, frame_ns), Way("single", part=part))]
        unlike = replace(equal, shares=(_more(ways, now.part),)) if even(split) else split
        beside = [unlike, *around(unlike, ways.axes)] if near else []
        return _in_turn(now, [Way("single", part=now.part), split, equal, *led, *beside])
    found = candidates(ways, now, busy_ns, frame_ns, fine=fine)
    if fine and near and not even(now):
        found |= {way: frame_ns for way in around(split, ways.axes) if way not in found}
    return found


def _in_turn(now: Way, ways: Sequence[Way]) -> dict[Way, float]:
    return {way: float(place) for place, way in enumerate(dict.fromkeys(ways)) if way != now}


def candidates(ways: Ways, now: Way, busy_ns: Table, frame_ns: float, *, fine: bool = True) -> dict[Way, float]:
    """Ways with the ns that a frame would take, if the parts are as quick as they were in `now`, whose steps kept them
    busy for so long; `fine` ones too, with shares of their own for every step, each of which has to be cut anew."""
    loads = ways.loads(now)
    found = rates(loads, busy_ns)
    if not all(found):
        # A part that does nothing tells nothing; whether it would help now is seen by trying.
        return {}
    waited = max(0.0, frame_ns - predicted_ns(loads, busy_ns, loads))
    near: list[Shares] = [(shares,) for shares in nearby(found)]
    wanted = [replace(now, shares=shares) for shares in near]
    if now.kind == "split" and len(loads) > 1:
        if fine:
            wanted.append(replace(now, shares=_rounded(settled(_fractions(loads), busy_ns))))
        # The fewer the exchanges, the less somebody else on a core is waited for; and the more is computed twice.
        wanted += [replace(now, shares=near[0], axis=axis) for axis in ways.axes if axis != now.axis]
    expected: dict[Way, float] = {}
    for way in wanted:
        other = ways.loads(way)
        took = predicted_ns(loads, busy_ns, other) + waited * len(other) / len(loads)
        # Cores that wait little for each other lose by it: it is not even tried there.
        if way.axis != "inputs" or now.axis == "inputs" or took < frame_ns * (1 - _WORTH):
            expected[way] = took
    # Each has to load the model for it, so another than the first must be worth it.
    best = max(range(len(found)), key=lambda part: found[part] * (1 if part else _FIRST))
    alone = Way("single", part=best)
    expected[alone] = sum(map(sum, ways.loads(alone))) / found[best]
    if now.kind == "split" and (not even(now) or uneven(busy_ns) > _WAITING):
        # Whoever has a core does what there is; what interrupting and doing again cost is seen by trying.
        both = sum(map(sum, loads)) / sum(found)
        expected |= dict.fromkeys(covered(ways, best, frame_ns), both + waited)
    return expected


def covered(ways: Ways, leader: int, frame_ns: float) -> list[Way]:
    """In halves by channels where steps are short, and else with more for the part that leads: a long share takes more
    turns than one, and is not done twice for nothing so often."""
    if not ways.covers:
        return []
    if frame_ns < _SHORT_NS * len(ways.loads(Way("split", (ways.equal,), axis=ways.axes[0]))):
        return [Way("covered", (ways.equal,), leader, "channels" if "channels" in ways.axes else ways.axes[0])]
    return [Way("covered", (_more(ways, leader),), leader, ways.axes[0])]


def _more(ways: Ways, leader: int) -> tuple[float, ...]:
    """Twice as much for one part as for the others: what it gets on with beside a competitor of theirs."""
    parts = len(ways.equal)
    *shares, _ = ((2.0 if part == leader else 1.0) / (parts + 1) for part in range(parts))
    # Written as those nearby are, so that they are found again.
    return (*shares, 1 - sum(shares))


def _fractions(loads: Table) -> Shares:
    """What each part did of a step, by its work; equal where nothing was to be done."""
    return tuple(
        tuple(each / sum(step) for each in step) if sum(step) else (1 / len(step),) * len(step) for step in loads
    )


def _rounded(shares: Shares) -> Shares:
    """In twentieths: what differs less is the same, and need not be loaded again."""
    rounded = tuple(tuple(max(1, round(20 * share)) / 20 for share in step) for step in shares)
    return rounded[:1] if len(set(rounded)) == 1 else rounded


class Background(Generic[T]):
    """Something that goes on `beside` the frames, and slows them down; or else that the next frame waits for."""

    def __init__(self, work: Callable[[], T], beside: bool = True) -> None:
        self._work = work
        self._found: T | None = None
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        if not beside:
            self._thread.join()

    def _run(self) -> None:
        try:
            self._found = self._work()
        except Exception as error:  # noqa: BLE001 - raised again where the result is asked for
            self._error = error

    @property
    def done(self) -> bool:
        return not self._thread.is_alive()

    def result(self) -> T:
        self._thread.join()
        if self._error is not None:
            raise self._error
        assert self._found is not None
        return self._found

    def wait(self) -> None:
        self._thread.join()
