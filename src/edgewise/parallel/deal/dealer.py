"""Who works on which frame: a rule that has no clock and no processes of its own, so that it can be simulated as it is.

Frames are numbered in the order of the stream, and come out in that order. Two things decide how well several hands
work together. *Looking ahead*: a slow hand that took the oldest frame would hold back all that faster ones finish
meanwhile, so it takes the frame the others would come to when it is done. *The tail*: of the last frames a hand takes
none that it would be done with later than all of them can be done.
"""

from __future__ import annotations

import math
from bisect import insort
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

# Handing over costs tens of microseconds here and there; a chunk is made to take several times that. More would hold
# back the first frames of a chunk until its last is done.
_LEAST_NS = 250_000.0
# While frames are copied and others are dealt to, a hand works on what it holds.
_AHEAD_NS = 2_000_000.0
_DEEPEST = 8
# Frames a hand may be behind the quickest before a larger window would only hold more memory.
MOST_SLOTS = 4096
# Of a new observation in what a hand is expected to take: the machine's speed changes within tenths of a second.
_FRESH = 0.2
# Of what a slow hand takes longer than another one: by so much it is taken to be late. One that is late holds back all
# others, and one that is early nobody.
_LATE = 0.5
# Of a frame: a hand this near to the end of one is done with it.
_EXACT = 1e-9


@dataclass(slots=True)
class Hand:
    """A worker as the rule sees it: the frames it takes at a time, what one takes it, and the chunks it holds."""

    chunk: int
    frame_ns: float
    # How many chunks it may hold: with the next one before it is done with this one, it never waits to be told.
    depth: int = 2
    held: deque[tuple[int, ...]] = field(default_factory=deque)
    # Since when it has been working on the first of those.
    since_ns: int = 0
    alive: bool = True
    finished: int = 0

    @property
    def service_ns(self) -> float:
        return self.chunk * self.frame_ns

    def free_ns(self, now_ns: int) -> float:
        """When it will be done with all it holds; one that is late is expected to be done at any moment."""
        if not self.held:
            return now_ns
        frames = sum(map(len, self.held))
        return max(self.since_ns + len(self.held[0]) * self.frame_ns, now_ns) + (
            (frames - len(self.held[0])) * self.frame_ns
        )


class Dealer:
    """The state of a stream. `window` bounds how far the newest frame may be ahead of the oldest undelivered one."""

    def __init__(self, hands: Sequence[Hand], window: int | None = None) -> None:
        self.hands = list(hands)
        self.window = window or enough(hands)
        self.delivered = 0
        self.read = 0
        self.ended = False
        # Not begun by anybody, in order; frames of a hand that died come back to their place.
        self._waiting: list[int] = []
        self._done: set[int] = set()

    @property
    def room(self) -> int:
        """How many more frames may be read from the source: back-pressure."""
        return 0 if self.ended else max(0, self.delivered + self.window - self.read)

    @property
    def complete(self) -> bool:
        return self.ended and self.delivered == self.read

    def add(self, count: int = 1) -> None:
        self._waiting.extend(range(self.read, self.read + count))
        self.read += count

    def end(self) -> None:
        """The source has no more."""
        self.ended = True

    def give(self, now_ns: int) -> Iterator[tuple[int, tuple[int, ...]]]:
        """Chunks to whoever has room for one, the one that is free first before the others. A hand that is lost
        meanwhile gets no more."""
        room = [who for who, hand in enumerate(self.hands) if hand.alive and len(hand.held) < hand.depth]
        for who in sorted(room, key=lambda place: self.hands[place].free_ns(now_ns)):
            hand = self.hands[who]
            while hand.alive and len(hand.held) < hand.depth and (chunk := self.take(who, now_ns)):
                yield who, chunk

    def take(self, who: int, now_ns: int) -> tuple[int, ...]:
        """The next chunk of a hand, which it holds from now on; none where it had better wait."""
        hand = self.hands[who]
        if not hand.alive or not self._waiting:
            return ()
        count = min(hand.chunk, len(self._waiting))
        free_ns = hand.free_ns(now_ns)
        if self.ended:
            # A little more, for what bisection leaves: were the last frame refused to everybody, it would stay.
            latest_ns = self._over_ns(now_ns) + 1 + 2 * _EXACT * hand.frame_ns
            while count and free_ns + count * hand.frame_ns > latest_ns:
                count -= 1
            if not count:
                return ()
        ahead = self._ahead(who, free_ns + count * hand.frame_ns, now_ns)
        first = min(ahead, len(self._waiting) - count)
        taken = tuple(self._waiting[first : first + count])
        del self._waiting[first : first + count]
        if not hand.held:
            hand.since_ns = now_ns
        hand.held.append(taken)
        return taken

    def finish(self, who: int, now_ns: int) -> list[int]:
        """A hand is done with the oldest chunk it holds: the frames that can be delivered now, in order."""
        hand = self.hands[who]
        chunk = hand.held.popleft()
        took_ns = max(1, now_ns - hand.since_ns) / len(chunk)
        hand.frame_ns += _FRESH * (took_ns - hand.frame_ns) if hand.finished else took_ns - hand.frame_ns
        hand.finished += len(chunk)
        hand.since_ns = now_ns
        self._done.update(chunk)
        ready = []
        while self.delivered in self._done:
            self._done.remove(self.delivered)
            ready.append(self.delivered)
            self.delivered += 1
        return ready

    def lose(self, who: int) -> None:
        """A hand is gone: what it held waits for another, in its place."""
        hand = self.hands[who]
        hand.alive = False
        for chunk in hand.held:
            for number in chunk:
                insort(self._waiting, number)
        hand.held.clear()

    def _others(self, who: int) -> list[Hand]:
        return [hand for place, hand in enumerate(self.hands) if place != who and hand.alive]

    def _ahead(self, who: int, done_ns: float, now_ns: int) -> int:
        """How many of the waiting frames the others will have come to when this hand is done with its chunk: to the
        nearest of those alike, since too many that are early fill the window; and more of those that are quicker."""
        count, own_ns = 0, self.hands[who].service_ns
        for other in self._others(who):
            lead = done_ns + _LATE * max(0.0, own_ns - other.service_ns) - other.free_ns(now_ns)
            if lead > 0:
                count += other.chunk * math.ceil(lead / other.service_ns - 0.5)
        return count

    def _over_ns(self, now_ns: int) -> float:
        """The earliest moment at which all that waits can be done."""
        hands = [(hand.free_ns(now_ns), hand.frame_ns) for hand in self.hands if hand.alive]
        return burst_ns(len(self._waiting), hands)


class Line:
    """How long frames take to come out: from when one and all before it were begun until it comes out."""

    def __init__(self) -> None:
        self._begun: dict[int, int] = {}
        # When the last of the frames up to the one that comes out next had been begun.
        self._line_ns = 0

    def worked(self, chunk: Sequence[int], began_ns: int, ended_ns: int) -> None:
        """Of a chunk only the whole is known: its frames are taken to have been begun one after the other."""
        for place, number in enumerate(chunk):
            self._begun[number] = began_ns + (ended_ns - began_ns) * place // len(chunk)

    def delay_ns(self, number: int, now_ns: int) -> int:
        """Of the frame that comes out now; to be asked in order."""
        self._line_ns = max(self._line_ns, self._begun.pop(number))
        return now_ns - self._line_ns


def burst_ns(frames: int, hands: Sequence[tuple[float, float]]) -> float:
    """The earliest moment at which `frames` can be done by hands that are free at a time and take so long for each:
    no order of dealing is quicker, so it is also the bound a schedule is held against."""
    if not frames:
        return max((free for free, _ in hands), default=0.0)
    low = min(free for free, _ in hands)
    high = min(free + frames * each for free, each in hands)

    def done(at: float) -> int:
        return sum(max(0, math.floor((at - free) / each + _EXACT)) for free, each in hands)

    # Ends where no float lies between: some sixty steps.
    while low < (middle := (low + high) / 2) < high:
        low, high = (low, middle) if done(middle) >= frames else (middle, high)
    return high


def enough(hands: Sequence[Hand], depth: int = 6) -> int:
    """A window in which no hand waits for another: all that the quick ones finish while the slowest works off `depth`
    chunks, which is two that it holds, each three times as long as expected: that is what a CPU that feeds two others
    may come to. In a smaller one it cannot be given frames as far ahead as it would have to be."""
    slowest = max(hand.service_ns for hand in hands)
    return sum(hand.chunk * (math.ceil(depth * slowest / hand.service_ns) + 1) for hand in hands)


def too_slow(hands: Sequence[Hand], most: int) -> list[int]:
    """Whoever would have the others wait in a window of `most` frames, and so cost the stream many times what it adds.
    The slowest go first, and one stays."""
    left = sorted(range(len(hands)), key=lambda who: hands[who].service_ns)
    while len(left) > 1 and enough([hands[who] for who in left]) > most:
        left.pop()
    return [who for who in range(len(hands)) if who not in left]


def hands_for(frame_ns: Sequence[float]) -> list[Hand]:
    """Hands that take so long for a frame: each with chunks worth handing over, and as many of them as it takes not to
    run out while others are dealt to; two at least, so that it never waits to be told."""
    found = [Hand(chunk, each) for chunk, each in zip(chunks(frame_ns, _LEAST_NS), frame_ns, strict=True)]
    for hand in found:
        hand.depth = min(_DEEPEST, max(2, 1 + math.ceil(_AHEAD_NS / hand.service_ns)))
    return found


def chunks(frame_ns: Sequence[float], least_ns: float) -> list[int]:
    """How many frames each takes at a time so that handing over is a small part of what it takes: `least_ns` for the
    quickest, and about as long for the others, where one frame does not take longer anyway."""
    longest = max(least_ns, min(frame_ns))
    return [max(1, round(longest / each)) for each in frame_ns]
