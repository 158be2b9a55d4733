"""Which recipe to try next, from what the others came to. No clock and no files: who asks keeps what was tried, and
going on after an interruption is asking again from the beginning.

Forms of quantization first, since they bring most and take no work away. Then what does, pruning and low rank, each by
halving between what loses too much and what does not, by turns, so that a search that is ended early has seen something
of both; then both together, in both orders; then the best in finer steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass

QUANTIZED = ("quantize", "quantize(calibrate=mse, correct=bias)")
# Where each form of whole quantization loses too much, so many layers stay in floats.
_FLOATS = (2, 5)
# The share of the cost that stays: where halving begins, how fine it ends, and how little is tried at all.
_BEGIN, _STEP, _FINE, _LEAST = 0.7, 0.05, 0.025, 0.2
# What is not quicker by this factor is not worth a step more.
_WORTH = 0.98


@dataclass(frozen=True, slots=True)
class Tried:
    """Latency over that of the model as it is, None where it could not be made or run; whether all that was asked for
    seems to hold; and how low the ratio may be for all that was measured."""

    ratio: float | None
    allowed: bool
    low: float = math.inf


@dataclass(frozen=True, slots=True)
class Space:
    """What may be used: `smaller` are the passes that take a `cost`, `first` stands before every other step."""

    smaller: tuple[str, ...] = ("prune", "lowrank")
    quantized: tuple[str, ...] = QUANTIZED
    first: str = "fuse"


# A recipe is asked for, and what it came to is sent back.
Search = Generator[str, Tried, None]


def search(space: Space) -> Search:
    """Every recipe that is worth a try, each the moment what came before is known."""
    fused = yield space.first
    head = (space.first,) if fused.ratio is not None else ()
    tail, ratio = yield from _quantized(space, head)
    least = yield from _by_turns(
        {
            name: _halved(lambda cost, name=name: _recipe(*head, _step(name, cost), *tail), ratio)  # type: ignore[misc]
            for name in space.smaller
        }
    )
    best: list[tuple[float, float, Callable[[float], str]]] = []
    for name, cost in least.items():
        best += yield from _again(lambda cost, name=name: _recipe(*head, _step(name, cost), *tail), cost)  # type: ignore[misc]
    if len(least) > 1:
        for order in (space.smaller, space.smaller[::-1]):

            def both(cost: float, order: tuple[str, ...] = order) -> str:
                """One of them halfway back to the whole, the other one by `cost`."""
                steps = (_step(name, cost if name == space.smaller[0] else (1 + least[name]) / 2) for name in order)
                return _recipe(*head, *steps, *tail)

            best += yield from _again(both, (1 + least[space.smaller[0]]) / 2)
    if best:
        _, cost, make = min(best, key=lambda each: each[0])
        yield from _finer(make, cost)


def _quantized(space: Space, head: tuple[str, ...]) -> Generator[str, Tried, tuple[tuple[str, ...], float]]:
    """The form of quantization to go on with, none where each loses too much; and the latency with it."""
    found: list[tuple[float, float, str]] = []
    for form in space.quantized:
        tried = yield _recipe(*head, form)
        if tried.allowed and tried.ratio is not None:
            found.append((tried.ratio, tried.low, form))
    for count in _FLOATS if space.quantized and not found else ():
        form = f"quantize(calibrate=mse, correct=bias, keep={count})"
        tried = yield _recipe(*head, form)
        if tried.allowed and tried.ratio is not None:
            found.append((tried.ratio, tried.low, form))
            break
    # What rounding does not make quicker is only made worse by it.
    found = [each for each in found if each[0] < _WORTH]
    if not found:
        return (), 1.0
    quickest = min(found)[0]
    # Of those alike, or not told apart, the last, which does most for the answers.
    return next(((form,), ratio) for ratio, low, form in reversed(found) if min(ratio * _WORTH, low) <= quickest)


def _by_turns(all_: Mapping[str, Generator[str, Tried, float | None]]) -> Generator[str, Tried, dict[str, float]]:
    """What each of them ends with, in their order; without those that end with nothing."""
    asked = {name: next(each) for name, each in all_.items()}
    ended: dict[str, float | None] = {}
    while asked:
        for name, recipe in list(asked.items()):
            tried = yield recipe
            try:
                asked[name] = all_[name].send(tried)
            except StopIteration as end:
                ended[name] = end.value
                del asked[name]
    return {name: cost for name in all_ if (cost := ended[name]) is not None}


def _halved(make: Callable[[float], str], before: float) -> Generator[str, Tried, float | None]:
    """The least cost that is allowed, to a step; None where taking work away does not make it quicker, or never is."""
    low, high, cost = _LEAST - _STEP, 1.0, _BEGIN
    least: float | None = None
    while high - low > _STEP * 1.5:
        tried = yield make(cost)
        if tried.ratio is None or not tried.allowed:
            low = cost
        elif min(tried.ratio, tried.low) < before * _WORTH:
            high = cost
            # Where it may be quicker, and cannot be told, less work will tell.
            least = cost if tried.ratio < before * _WORTH else least
        else:
            # Where this much less work is no quicker, a little less is not either.
            return least
        cost = round((low + high) / 2 / _STEP) * _STEP
        if cost in (low, high):
            break
    return least


def _again(
    make: Callable[[float], str], cost: float
) -> Generator[str, Tried, list[tuple[float, float, Callable[[float], str]]]]:
    tried = yield make(cost)
    return [(tried.ratio, cost, make)] if tried.allowed and tried.ratio is not None else []


def _finer(make: Callable[[float], str], cost: float) -> Search:
    """Down as long as it is allowed, in small steps."""
    while cost - _FINE >= _LEAST:
        cost -= _FINE
        tried = yield make(cost)
        if not tried.allowed:
            return


def _step(name: str, cost: float) -> str:
    return f"{name}(cost={round(cost, 4):g})"


def _recipe(*steps: str) -> str:
    return " | ".join(steps)
