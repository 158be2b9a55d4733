"""The one number of a model of contention, from what was published of components together.

Least squares of the logarithm of predicted over published throughput, all components working all the time. A number
fitted to a case says little about how well that case is predicted: so for each there is also the number that the
other cases of its chip give.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from . import soc as socs
from .contention import Model, Part
from .soc import Network, Published, Soc
from .stream import Contention

_STEPS = 200
_GOLDEN = (math.sqrt(5) - 1) / 2


@dataclass(frozen=True, slots=True)
class Fitted:
    """`cases` were fitted; `own` says whether they are of the chip itself. `without` are the numbers for each published
    case of the chip, as the others give them."""

    model: Model
    value: float
    cases: int
    own: bool
    without: tuple[float, ...] = ()


Case = tuple[Soc, Published]


def fitted(soc: Soc, model: Model) -> Fitted:
    """From the chip's own cases; where it has none, from those of all chips described here."""
    own: list[Case] = [(soc, published) for published in soc.published]
    others = [
        (chip, each) for chip in map(socs.named, socs.names()) if chip.name != soc.name for each in chip.published
    ]
    if not own:
        return Fitted(model, fit(others, model), len(others), False)
    without = tuple(fit([*own[:place], *own[place + 1 :]] or others, model) for place in range(len(own)))
    return Fitted(model, fit(own, model), len(own), True, without)


def beside(soc: Soc, network: Network, over: Sequence[str], model: Model, value: float) -> Contention:
    """What is left to the components named in `over`, in their order; those not named do nothing."""
    known = [component for component in soc.components if component.name in network.per_s]
    parts = [Part(component.kind, network.per_s[component.name]) for component in known]
    places = [next(place for place, each in enumerate(known) if each.name == name) for name in over]

    def left(rates: Sequence[float]) -> list[float]:
        now = [0.0] * len(parts)
        for place, rate in zip(places, rates, strict=True):
            now[place] = rate
        paces = model.paces(value, parts, now)
        return [paces[place] for place in places]

    return left


def steady(soc: Soc, network: Network, over: Sequence[str], model: Model, value: float) -> float:
    """Frames per second when all of these work all the time."""
    rates = [network.per_s[name] for name in over]
    return sum(rate * left for rate, left in zip(rates, beside(soc, network, over, model, value)(rates), strict=True))


def fit(cases: Sequence[Case], model: Model) -> float:
    """A coarse look at the whole range, then a fine one about the best: what is summed has kinks and flat places."""

    def loss(value: float) -> float:
        return sum(
            math.log(steady(soc, soc.network(each.network), each.over, model, value) / each.per_s) ** 2
            for soc, each in cases
        )

    if not model.most:
        return 0.0
    step = model.most / _STEPS
    best = min((step * count for count in range(_STEPS + 1)), key=loss)
    low, high = max(0.0, best - step), min(model.most, best + step)
    while high - low > 1e-6 * model.most:
        left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
        low, high = (low, right) if loss(left) <= loss(right) else (left, high)
    return (low + high) / 2
