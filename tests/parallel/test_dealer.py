"""The rule by which a stream is dealt, on a clock that is made up: order, exactly once, no idle hands, a short tail."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgewise.parallel.deal.dealer import Dealer, Hand, burst_ns, chunks, enough, hands_for, too_slow

MS = 1_000_000


def deal(
    frame_ms: Sequence[float],
    frames: int,
    *,
    chunk: Sequence[int] | None = None,
    dies: dict[int, int] | None = None,
    window: int | None = None,
) -> tuple[list[tuple[int, int]], list[tuple[int, int, int]]]:
    """What came out (frame, when) and what each did (hand, frame, when), two chunks a hand; `dies`: hand → chunk."""
    hands = [Hand(c, ms * MS) for c, ms in zip(chunk or [1] * len(frame_ms), frame_ms, strict=True)]
    dealer = Dealer(hands, window)
    out: list[tuple[int, int]] = []
    worked: list[tuple[int, int, int]] = []
    events: list[tuple[int, int, int]] = []
    now, number, left = 0, 0, frames
    busy = [False] * len(hands)
    served = [0] * len(hands)

    def begin(who: int) -> None:
        nonlocal number
        if hands[who].held and not busy[who]:
            busy[who] = True
            number += 1
            heapq.heappush(events, (now + round(len(hands[who].held[0]) * frame_ms[who] * MS), number, who))

    def feed() -> None:
        nonlocal left
        count = min(dealer.room, left)
        dealer.add(count)
        left -= count
        if not left:
            dealer.end()
        # The quickest is asked first, as one that is done first would be.
        for who in sorted(range(len(hands)), key=lambda place: frame_ms[place]):
            while len(hands[who].held) < 2 and dealer.take(who, now):
                pass
            begin(who)

    feed()
    while events:
        now, _, who = heapq.heappop(events)
        busy[who] = False
        served[who] += 1
        if dies and dies.get(who) == served[who]:
            dealer.lose(who)
        else:
            worked += [(who, frame, now) for frame in hands[who].held[0]]
            out += [(frame, now) for frame in dealer.finish(who, now)]
        feed()
    return out, worked


@given(
    st.lists(st.floats(0.1, 20), min_size=1, max_size=5),
    st.integers(0, 120),
    st.data(),
)
@settings(deadline=None)
def test_every_frame_comes_out_once_and_in_order_whoever_dies(
    frame_ms: list[float], frames: int, data: st.DataObject
) -> None:
    chunk = data.draw(st.lists(st.integers(1, 4), min_size=len(frame_ms), max_size=len(frame_ms)))
    mortal = data.draw(st.sets(st.integers(1, len(frame_ms) - 1)) if len(frame_ms) > 1 else st.just(set()))
    dies = {who: data.draw(st.integers(1, 5)) for who in mortal}
    window = data.draw(st.none() | st.integers(sum(chunk), 200))
    out, worked = deal(frame_ms, frames, chunk=chunk, dies=dies, window=window)
    assert [frame for frame, _ in out] == list(range(frames))
    assert sorted(frame for _, frame, _ in worked) == list(range(frames))


@pytest.mark.parametrize("frame_ms", [(5, 5), (5, 20), (5, 7, 31)])
def test_all_hands_work_all_the_time(frame_ms: tuple[float, ...]) -> None:
    out, _ = deal(frame_ms, 2000)
    rate = sum(1 / ms for ms in frame_ms)
    assert out[-1][1] / MS == pytest.approx(2000 / rate, rel=0.01)


def test_a_slow_hand_does_not_hold_back_a_quick_one() -> None:
    """From when a frame is the oldest nobody has begun until it comes out: about what the quick hand takes."""
    out, worked = deal((5, 20), 2000)
    begun = {frame: at - (5 if who == 0 else 20) * MS for who, frame, at in worked}
    passed: list[int] = []
    latest = 0
    for frame in range(2000):
        latest = max(latest, begun[frame])
        passed.append(latest)
    delays = sorted(at - passed[frame] for frame, at in out)
    assert delays[int(0.95 * len(delays))] <= 1.5 * 5 * MS


@given(st.lists(st.floats(1, 60), min_size=1, max_size=4), st.integers(1, 40))
@settings(deadline=None)
def test_a_burst_takes_hardly_longer_than_it_must(frame_ms: list[float], frames: int) -> None:
    out, _ = deal(frame_ms, frames)
    bound = burst_ns(frames, [(0.0, ms * MS) for ms in frame_ms])
    # Before the end is known everybody holds two frames: somebody may hold them too many.
    assert out[-1][1] <= bound + 2 * max(frame_ms) * MS


@pytest.mark.parametrize("frames", range(1, 60))
@pytest.mark.parametrize("frame_ms", [(5, 5), (5, 20), (5, 7)])
def test_of_two_a_burst_takes_a_tenth_longer_at_most(frame_ms: tuple[float, ...], frames: int) -> None:
    out, _ = deal(frame_ms, frames)
    assert out[-1][1] <= 1.1 * burst_ns(frames, [(0.0, ms * MS) for ms in frame_ms]) + 1


@pytest.mark.parametrize("seconds", [0.4, 1.1, 7, 60, 5000])
@pytest.mark.parametrize("frames", [1, 2, 7])
def test_frames_that_take_seconds_are_not_refused_at_the_end(seconds: float, frames: int) -> None:
    for hands in ((seconds,), (seconds, 2.7 * seconds)):
        out, _ = deal([each * 1e3 for each in hands], frames)
        assert [frame for frame, _ in out] == list(range(frames))


def test_a_burst_shorter_than_a_slow_hand_needs_goes_without_it() -> None:
    _, worked = deal((1, 100), 20)
    assert {who for who, _, _ in worked} == {0}


def test_no_more_is_read_than_the_window_holds() -> None:
    dealer = Dealer([Hand(1, MS)], window=5)
    dealer.add(dealer.room)
    assert dealer.room == 0
    (frame,) = dealer.take(0, 0)
    assert dealer.finish(0, MS) == [frame] == [0]
    assert dealer.room == 1


def test_a_window_is_enough_for_the_slowest() -> None:
    assert enough([Hand(1, 5), Hand(1, 20)]) >= 2 * 4 + 2
    assert chunks([0.1 * MS, 1 * MS, 7 * MS], 2 * MS) == [20, 2, 1]


@given(st.integers(1, 200), st.lists(st.tuples(st.floats(0, 50), st.floats(0.5, 50)), min_size=1, max_size=5))
def test_the_bound_of_a_burst_is_what_greedy_dealing_of_equal_frames_takes(
    frames: int, hands: list[tuple[float, float]]
) -> None:
    ends = [free for free, _ in hands]
    for _ in range(frames):
        who = min(range(len(hands)), key=lambda place: ends[place] + hands[place][1])
        ends[who] += hands[who][1]
    used = max(end for end, (free, _) in zip(ends, hands, strict=True) if end > free)
    assert burst_ns(frames, hands) == pytest.approx(used, rel=1e-6)


@given(st.lists(st.floats(1e5, 1e10), min_size=1, max_size=8), st.integers(1, 5000))
def test_whoever_would_need_a_larger_window_rests_and_somebody_works(frame_ns: list[float], most: int) -> None:
    hands = hands_for(frame_ns)
    resting = too_slow(hands, most)
    working = [hand for who, hand in enumerate(hands) if who not in resting]
    assert working
    assert len(working) == 1 or enough(working) <= most
    slowest = max(hand.service_ns for hand in working)
    assert all(hands[who].service_ns >= slowest for who in resting)
