"""Which candidates, in which order, with which thresholds: chains compared on the images they are fitted on."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from ..core.errors import InputError
from .chain import prefix_costs
from .pooling import Floats, pool, powers
from .table import Flags, Table, hits
from .thresholds import Found, Staged, answered, answered_at, costs_of, steady

# Chains that are made longer at each step, and those whose thresholds are then searched closely.
_KEPT, _FINAL = 8, 3
# The share of images more or less right that chains are compared with.
_AROUND = 0.004
# For a threshold that nothing reaches: this much log-odds above all.
_ABOVE = 1.0


@dataclass(frozen=True, slots=True)
class View:
    """What is known of every image once some were asked: the powers their answers are pooled with, whether the answer
    is right, and how sure it is by each measure."""

    powers: tuple[float, ...]
    right: Flags
    sure: Mapping[str, Floats]


@dataclass(frozen=True, slots=True)
class Chosen:
    chain: tuple[int, ...]
    thresholds: tuple[float, ...]
    powers: tuple[tuple[float, ...], ...]
    measure: str
    cost: float


class Views:
    """Of a table, made when first asked for. A subclass says how sure rows of answers are. `kind` is that of the policy
    whose stages are looked for: what one of them takes to decide is part of its cost."""

    measures: tuple[str, ...]

    def __init__(self, table: Table, objective: str, top: int, kind: str = "") -> None:
        if len(table.candidates) < 2:
            raise InputError("choosing takes two candidates or more, found one", "--models a.onnx b.onnx")
        if not len(table):
            raise InputError("a policy is fitted on labelled images, found none")
        self.table, self.objective, self.top = table, objective, top
        self._kind = kind
        self.right = table.right(top)
        self._made: dict[tuple[int, ...], View] = {}
        own = [self.costs((place,))[0] for place in range(len(table.candidates))]
        stands = forms([candidate.model for candidate in table.candidates], own, self.right)
        self.reference = _reference(own, self.right)
        self.order = [place for place, stand in stands.items() if stand == place]

    def sure(self, logs: Floats) -> Mapping[str, Floats]:
        raise NotImplementedError

    def view(self, asked: tuple[int, ...], *, pooled: bool) -> View:
        """`pooled`: all answers so far count, otherwise only the last."""
        counted = asked if pooled else asked[-1:]
        if counted not in self._made:
            scores = [self.table.scores[place] for place in counted]
            found = powers(scores, self.table.labels)
            logs = pool(scores, found)
            right = hits(logs.astype(np.float32), self.table.labels, self.top)
            self._made[counted] = View(found, right, self.sure(logs))
        made = self._made[counted]
        return View((0.0,) * (len(asked) - len(counted)) + made.powers, made.right, made.sure)

    def staged(self, chain: tuple[int, ...], measure: str, *, pooled: bool) -> Staged:
        views = [self.view(chain[: stage + 1], pooled=pooled) for stage in range(len(chain))]
        return Staged(
            tuple(view.sure[measure] for view in views[:-1]),
            tuple(view.right for view in views),
            self.costs(chain),
        )

    def costs(self, chain: tuple[int, ...]) -> tuple[float, ...]:
        """What an image costs that ends at each stage of it, deciding included."""
        return prefix_costs(self.table, chain, self.objective, self._kind)

    @property
    def enough(self) -> int:
        """How many the reference has right."""
        return int(self.right[:, self.reference].sum())


def forms(models: Sequence[str], costs: Sequence[float], right: Flags) -> dict[int, int]:
    """For each candidate, the cheapest first, the one that stands for it: itself, or a cheaper form of its model (on
    another target, in another precision) that is about as accurate. These answer alike, and the dearer one would only
    be tried in the other's place."""
    reference, found = _reference(costs, right), dict[int, int]()
    for place in _cheapest_first(costs):
        alike = [each for each in dict.fromkeys(found.values()) if models[each] == models[place]]
        as_good = [each for each in alike if not _better(right[:, place], right[:, each])]
        found[place] = as_good[0] if as_good and place != reference else place
    return found


def _cheapest_first(costs: Sequence[float]) -> list[int]:
    return sorted(range(len(costs)), key=costs.__getitem__)


def _reference(costs: Sequence[float], right: Flags) -> int:
    """The most accurate, and of several alike the cheapest."""
    return max(_cheapest_first(costs), key=lambda place: int(right[:, place].sum()))


def _better(right: Flags, other: Flags) -> bool:
    """By more than a standard error."""
    won, lost = int((right & ~other).sum()), int((other & ~right).sum())
    return won - lost > math.sqrt(won + lost)


@dataclass(frozen=True, slots=True)
class Tried:
    chain: tuple[int, ...]
    measure: str
    pooled: bool
    cost: float


def check_stages(stages: int, careful: float) -> None:
    """What no table makes sense of is refused."""
    if stages < 1:
        raise InputError(f"a chain has one stage or more, found stages = {stages}")
    if careful < 0:
        raise InputError(f"careful is a number of standard errors, 0 or more; found {careful:g}")


def finalists(views: Views, *, max_loss: float, stages: int) -> list[Tried]:
    """The cheapest chains that have enough right, the best first. All pairs are tried, and the best of each length are
    made longer by each candidate in turn. A chain goes from cheap to dear."""
    needed = views.enough - max_loss * len(views.table)
    rank = {place: index for index, place in enumerate(views.order)}
    singles = [(place,) for place in views.order]
    found = _tried(views, singles, needed)
    coming = [tuple(pair) for pair in combinations(views.order, 2)] if stages > 1 else []
    while coming:
        longer = sorted(_tried(views, coming, needed), key=lambda tried: tried.cost)
        found += longer
        best = list(dict.fromkeys(tried.chain for tried in longer))[:_KEPT]
        inserted = {
            tuple(sorted((*chain, place), key=lambda each: rank[each]))
            for chain in best
            for place in views.order
            if place not in chain and len(chain) < stages
        }
        coming = sorted(inserted)
    return sorted(found, key=lambda tried: tried.cost)


def _tried(views: Views, chains: Sequence[tuple[int, ...]], needed: float) -> list[Tried]:
    """By the mean cost of having a little less, as much, and a little more right: one figure is a matter of luck."""
    count = len(views.table)
    alone = views.costs((views.reference,))[0]
    found = []
    for chain in chains:
        for measure in views.measures:
            for pooled in (True, False):
                staged = views.staged(chain, measure, pooled=pooled)
                less, same, more = costs_of(staged, [needed + by * count for by in (-_AROUND, 0.0, _AROUND)])
                if less is not None and same is not None:
                    cost = (less + same + (max(alone, same) if more is None else more)) / 3
                    found.append(Tried(chain, measure, pooled, cost))
    return found


def cheapest(views: Views, finals: Sequence[Tried], *, max_loss: float, careful: float = 0.0) -> Chosen:
    """Of the first finalists, after a close search; the reference alone where nothing cheaper is accurate enough."""
    best: Chosen | None = None
    for tried in finals[:_FINAL]:
        staged = views.staged(tried.chain, tried.measure, pooled=tried.pooled)
        found = settled(staged, views.right[:, views.reference], max_loss, careful)
        if found is not None and (best is None or found.cost < best.cost):
            parts = [
                views.view(tried.chain[: stage + 1], pooled=tried.pooled).powers for stage in range(len(tried.chain))
            ]
            best = finite(staged, tried.chain, found, parts, tried.measure)
    alone = views.costs((views.reference,))[0]
    if best is None or best.cost > alone:
        powers = views.view((views.reference,), pooled=True).powers
        return Chosen((views.reference,), (), (powers,), views.measures[0], alone)
    return best


def settled(staged: Staged, reference: Flags, max_loss: float, careful: float) -> Found | None:
    """Thresholds after a close search. To be careful takes two: the first says how much the answers differ from the
    reference's, and so how far to stay away."""
    needed = int(reference.sum()) - max_loss * len(reference)
    found = steady(staged, reference, needed)
    if careful and found is not None:
        lost = reference.astype(np.int64) - answered(staged, found.thresholds)
        found = steady(staged, reference, needed + careful * float(lost.std()) * math.sqrt(len(lost)))
    return found


def finite(
    staged: Staged, chain: tuple[int, ...], found: Found, parts: Sequence[tuple[float, ...]], measure: str
) -> Chosen:
    """Without stages that are never reached, and with numbers for thresholds that nothing reaches."""
    thresholds: list[float] = []
    for threshold, sure in zip(found.thresholds, staged.sure, strict=True):
        if threshold <= float(sure.min()):
            break
        thresholds.append(min(threshold, float(sure.max()) + _ABOVE))
    length = len(thresholds) + 1
    return Chosen(chain[:length], tuple(thresholds), tuple(parts[:length]), measure, found.cost)


def greedy(views: Views, *, max_loss: float, stages: int) -> Chosen:
    """Streeter's: of all candidates and thresholds, the one that answers most images for its cost and is no less
    accurate on them than the reference (less what may be lost); again on what is left; the reference for the rest."""
    built = [_greedy(views, measure, max_loss, stages) for measure in views.measures]
    return min(built, key=lambda chosen: chosen.cost)


def _greedy(views: Views, measure: str, max_loss: float, stages: int) -> Chosen:
    left = np.arange(len(views.table))
    chain: tuple[int, ...] = ()
    thresholds: list[float] = []
    reference = views.right[:, views.reference]
    while True:
        best = (0.0, views.reference, -math.inf)
        for place in views.order:
            if place in chain or (len(chain) == stages - 1 and place != views.reference):
                continue
            view = views.view((place,), pooled=True)
            lost = reference[left].astype(np.int64) - view.right[left]
            threshold = lowest(view.sure[measure][left], lost, max_loss)
            done = int((view.sure[measure][left] >= threshold).sum())
            before = views.costs(chain)[-1] if chain else 0.0
            price = views.costs((*chain, place))[-1] - before
            value = done / max(price, 1e-12)
            if value > best[0]:
                best = (value, place, threshold)
        _, place, threshold = best
        chain = (*chain, place)
        sure = views.view((place,), pooled=True).sure[measure][left]
        left = left[sure < threshold]
        if not len(left):
            break
        thresholds.append(threshold)
    staged = views.staged(chain, measure, pooled=False)
    parts = [views.view(chain[: stage + 1], pooled=False).powers for stage in range(len(chain))]
    ended = answered_at(staged, tuple(thresholds))
    cost = float(np.array(staged.costs)[ended].mean())
    return Chosen(chain, tuple(thresholds), tuple(parts), measure, cost)


def lowest(sure: Floats, lost: NDArray[np.int64], max_loss: float) -> float:
    """The lowest threshold above which no more than a share `max_loss` of the images is lost; above all where none."""
    order = np.argsort(-sure, kind="stable")
    sums = np.cumsum(lost[order])
    counts = np.arange(1, len(order) + 1)
    # Images that are equally sure are answered together.
    whole = np.append(sure[order][1:] != sure[order][:-1], True)
    fits = np.flatnonzero((sums <= max_loss * counts + 1e-9) & whole)
    return float(sure[order][fits[-1]]) if len(fits) else math.inf
