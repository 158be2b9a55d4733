"""Which recipe to try next, from what the others came to. No clock and no files: who asks keeps what was tried, and
going on after an interruption is asking again from the beginning.

Forms of 8 bits and of 16 first, since they bring most and take no work away. Then what does, pruning and low rank,
each by halving between what loses too much and what does not, by turns, so that a search that is ended early has seen
something of both; then both together, in both orders; then the best in finer steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass

QUANTIZED = ("quantize", "quantize(calibrate=mse, correct=bias)")
# For networks that are matrix products, whose values no fixed range fits.
DYNAMIC = "quantize(form=dynamic)"
HALVED = "quantize(precision=fp16)"
# Where each form of whole quantization loses too much, so many layers stay in floats.
_FLOATS = (2, 5)
# The share of the cost that stays: where halving begins, how fine it ends, and how little is tried at all.
_BEGIN, _STEP, _FINE, _LEAST = 0.7, 0.05, 0.025, 0.2
# What is not quicker by this factor is not worth a step more.
_WORTH = 0.98


@dataclass(frozen=True, slots=True)
class Tried:
    """Latency over that of the model as it is, None where it could not be made or run; whether it seems accurate
    enough; how low the ratio may be for all that was measured; and whether it keeps to the limits of size and of time
    that were asked for: what does not may with less work."""

    ratio: float | None
    accurate: bool
    low: float = math.inf
    small: bool = True
    quick: bool = True

    @property
    def fits(self) -> bool:
        return self.small and self.quick

    @property
    def allowed(self) -> bool:
        return self.accurate and self.fits


@dataclass(frozen=True, slots=True)
class Space:
    """What may be used: `smaller` are the passes that take a `cost`, `first` stands before every other step. Forms of 8
    bits are `quantized`, of 16 `halved`, each after those whose answers are further off."""

    smaller: tuple[str, ...] = ("prune", "lowrank")
    quantized: tuple[str, ...] = QUANTIZED
    halved: tuple[str, ...] = ()
    first: str = "fuse"


# A recipe is asked for, and what it came to is sent back.
Search = Generator[str, Tried, None]


def search(space: Space) -> Search:
    """Every recipe that is worth a try, each the moment what came before is known."""
    fused = yield space.first
    head = (space.first,) if fused.ratio is not None else ()
    tail, before = yield from _quantized(space, head, fused)
    least = yield from _by_turns(
        {
            name: _halved(lambda cost, name=name: _recipe(*head, _step(name, cost), *tail), before)  # type: ignore[misc]
            for name in space.smaller
        }
    )
    best: list[_Found] = []
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
        chosen = min(best, key=lambda each: (not each.tried.fits, each.tried.ratio))
        yield from _finer(chosen.make, chosen.cost)


@dataclass(frozen=True, slots=True)
class _Found:
    """What was tried of a recipe with this cost, and what makes it with another one."""

    tried: Tried
    cost: float
    make: Callable[[float], str]


def _quantized(
    space: Space, head: tuple[str, ...], fused: Tried
) -> Generator[str, Tried, tuple[tuple[str, ...], Tried]]:
    """The form of quantization to go on with, none where each loses too much; and what was found of it."""
    found: list[tuple[str, Tried]] = []
    for form in space.quantized:
        tried = yield _recipe(*head, form)
        if tried.accurate and tried.ratio is not None:
            found.append((form, tried))
    for count in _FLOATS if space.quantized and not found else ():
        form = f"quantize(calibrate=mse, correct=bias, keep={count})"
        tried = yield _recipe(*head, form)
        if tried.accurate and tried.ratio is not None:
            found.append((form, tried))
            break
    for form in space.halved:
        tried = yield _recipe(*head, form)
        if tried.accurate and tried.ratio is not None:
            found.append((form, tried))
    # What rounding does not make quicker is only made worse by it, unless it has to become smaller.
    found = [each for each in found if _ratio(each[1]) < _WORTH or not fused.small]
    if not found:
        return (), Tried(1.0, True, small=fused.small, quick=fused.quick)
    # Where some are small enough, those.
    found = [each for each in found if each[1].small] or found
    quickest = min(_ratio(tried) for _, tried in found)
    # Of those alike, or not told apart, the last, which does most for the answers.
    return next(
        ((form,), tried) for form, tried in reversed(found) if min(_ratio(tried) * _WORTH, tried.low) <= quickest
    )


def _ratio(tried: Tried) -> float:
    return math.inf if tried.ratio is None else tried.ratio


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


def _halved(make: Callable[[float], str], before: Tried) -> Generator[str, Tried, float | None]:
    """The least cost that is accurate enough, to a step; None where none is, or where taking work away does not make it
    quicker, and it is small enough as it is."""
    low, high, cost = _LEAST - _STEP, 1.0, _BEGIN
    least: float | None = None
    enough = _ratio(before) * _WORTH
    while high - low > _STEP * 1.5:
        tried = yield make(cost)
        if tried.ratio is None or not tried.accurate:
            low = cost
        elif not before.small or min(tried.ratio, tried.low) < enough:
            high = cost
            # Where it may be quicker, and cannot be told, less work will tell.
            least = cost if not before.small or tried.ratio < enough else least
        else:
            # Where this much less work is no quicker, a little less is not either.
            return least
        cost = round((low + high) / 2 / _STEP) * _STEP
        if cost in (low, high):
            break
    return least


def _again(make: Callable[[float], str], cost: float) -> Generator[str, Tried, list[_Found]]:
    tried = yield make(cost)
    return [_Found(tried, cost, make)] if tried.accurate and tried.ratio is not None else []


def _finer(make: Callable[[float], str], cost: float) -> Search:
    """Down as long as it is accurate enough, in small steps."""
    while cost - _FINE >= _LEAST:
        cost -= _FINE
        tried = yield make(cost)
        if not tried.accurate:
            return


def _step(name: str, cost: float) -> str:
    return f"{name}(cost={round(cost, 4):g})"


def _recipe(*steps: str) -> str:
    return " | ".join(steps)
