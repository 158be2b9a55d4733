"""Every method on images it was not fitted on: nested cross-validation, paired with the best single candidate.

Whatever a method chooses (candidates, temperatures, thresholds, how far a guarantee lets it go) it chooses inside the
training folds, from which it may keep a part aside as it likes. So does the best single candidate. What is held out is
only replayed.

Intervals are of images: what others of the same kind would have given. What a candidate costs is taken as exact: how
far its price is off is in none of them.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from ..core.choice import Estimate, Method, Selection, Spot
from ..core.errors import InputError
from ..core.stats import Z95, Discordance, wilson
from . import baselines
from .calibrate import calibration_error, reliability, temperature, tempered
from .chain import spent
from .deciding import deciding_ns
from .folds import folds, halves, outside
from .policies import single
from .policy import REFUSED, Policy, Replayed, looking_ns
from .table import Scores, Table

Fit = Callable[[Table], Policy]
Floats = NDArray[np.float64]
_RESAMPLES = 2_000
# Resamples counted at once: a hundred of ten thousand images are eight megabytes.
_AT_ONCE = 100


@dataclass(frozen=True, slots=True)
class Outcome:
    """A method on every image, each held out once. `also`: what an image costs on average in what was not to be saved,
    as far as it is known."""

    name: str
    kind: str
    replayed: Replayed
    costs: Floats
    overhead_ns: float = 0.0
    also: Mapping[str, float] = field(default_factory=dict)


def evaluate(
    table: Table,
    fits: Mapping[str, Fit],
    *,
    objective: str = "time",
    top: int = 1,
    max_loss: float = 0.0,
    count: int = 10,
    seed: int = 0,
    timed: bool = False,
) -> Selection:
    """`max_loss`: how much less accurate than the most accurate candidate the best single one may be where it is
    cheaper. `timed`: deciding is timed, and counts towards an image's time.

    Time is of all: candidates, preparing, the features a policy looks at, and deciding. Energy is that of the
    candidates alone: no meter tells what features and deciding take, so it flatters whoever computes much to choose."""
    if len(table.candidates) < 2:
        raise InputError("choosing takes two candidates or more, found one", "--models a.onnx b.onnx")
    parts = folds(table.labels, count, seed)
    trained = [(table.rows(outside(part, len(table))), table.rows(part)) for part in parts]
    best = [single.fit(fitting, objective=objective, max_loss=max_loss, top=top) for fitting, _ in trained]
    reference = _held_out("best single", table, parts, trained, best, objective, top, timed=False)
    alone = [
        _outcome(candidate.name, table, single.Single(place), objective, top)
        for place, candidate in enumerate(table.candidates)
    ]
    perfect = baselines.oracle(table, objective, top=top)
    everyone = range(len(table.candidates))
    costs = spent(table, everyone, perfect.ran, objective)
    ideal = Outcome("oracle", "oracle", perfect, costs, also=_also(table, everyone, perfect))
    chosen = [
        _held_out(name, table, parts, trained, [fit(fitting) for fitting, _ in trained], objective, top, timed=timed)
        for name, fit in fits.items()
    ]
    corners = baselines.hull([Spot(float(each.costs.mean()), float(each.replayed.right.mean())) for each in alone])
    outcomes = [reference, ideal, *alone, *chosen]
    ratios = _ratios(np.stack([each.costs for each in outcomes], axis=1), seed)
    made = [
        _method(each, reference, ideal, corners, table, ratio) for each, ratio in zip(outcomes, ratios, strict=True)
    ]
    singles = 2 + len(alone)
    return Selection(
        tuple(candidate.name for candidate in table.candidates),
        objective,
        top,
        len(table),
        count,
        seed,
        tuple(sum(each.candidate == place for each in best) for place in everyone),
        made[0],
        tuple(made[2:singles]),
        tuple(made[singles:]),
        made[1],
        corners,
        max_loss,
        tuple(_calibration(scores, table, seed) for scores in table.scores),
    )


def _calibration(scores: Scores, table: Table, seed: int) -> tuple[float, float]:
    """How far confidence is off on half of the images, before and after the temperature of the other half."""
    fitting, kept = halves(table.labels, 0.5, seed)
    divisor = temperature(scores[fitting], table.labels[fitting])
    before, after = (
        calibration_error(reliability(np.exp(logs.max(axis=1)), logs.argmax(axis=1) == table.labels[kept]))
        for logs in (tempered(scores[kept], 1.0), tempered(scores[kept], divisor))
    )
    return before, after


def _outcome(name: str, table: Table, policy: Policy, objective: str, top: int) -> Outcome:
    replayed = policy.replay(table, top=top)
    costs = spent(table, policy.candidates, replayed.ran, objective)
    overhead = looking_ns(policy, table)
    costs = costs + (overhead if objective == "time" else 0.0)
    return Outcome(name, policy.kind, replayed, costs, overhead, _also(table, policy.candidates, replayed))


def _also(table: Table, candidates: Sequence[int], replayed: Replayed) -> dict[str, float]:
    """Energy is that of the candidates alone."""
    known = {
        "energy": all(each.energy_uj is not None for each in table.candidates),
        "memory": all(each.memory_bytes is not None for each in table.candidates),
    }
    return {what: float(spent(table, candidates, replayed.ran, what).mean()) for what, there in known.items() if there}


def _held_out(
    name: str,
    table: Table,
    parts: Sequence[NDArray[np.int64]],
    trained: Sequence[tuple[Table, Table]],
    policies: Sequence[Policy],
    objective: str,
    top: int,
    *,
    timed: bool,
) -> Outcome:
    """Each fold by the policy of the others, put back into the order of the table."""
    found = [_outcome(name, kept, policy, objective, top) for (_, kept), policy in zip(trained, policies, strict=True)]
    if timed:
        found = [
            _slowed(each, deciding_ns(policy, kept), objective)
            for each, (_, kept), policy in zip(found, trained, policies, strict=True)
        ]
    places = np.argsort(np.concatenate(parts))
    whole = Replayed(
        np.concatenate([each.replayed.answers for each in found])[places],
        np.concatenate([each.replayed.ran for each in found])[places],
        np.concatenate([each.replayed.last for each in found])[places],
        np.concatenate([each.replayed.confidence for each in found])[places],
        np.concatenate([each.replayed.right for each in found])[places],
    )
    costs = np.concatenate([each.costs for each in found])[places]
    sizes = [len(part) for part in parts]
    also = {what: float(np.average([each.also[what] for each in found], weights=sizes)) for what in found[0].also}
    return Outcome(name, found[0].kind, whole, costs, statistics.fmean(each.overhead_ns for each in found), also)


def _slowed(outcome: Outcome, by_ns: float, objective: str) -> Outcome:
    costs = outcome.costs + (by_ns if objective == "time" else 0.0)
    return replace(outcome, costs=costs, overhead_ns=outcome.overhead_ns + by_ns)


def _ratios(costs: Floats, seed: int) -> list[Estimate]:
    """Mean cost of each column over that of the first, with the percentiles of a paired bootstrap over images. Prices
    are not drawn again: an interval is that of images, as if prices were exact."""
    count = len(costs)
    random = np.random.default_rng(seed)
    drawn = []
    for _ in range(_RESAMPLES // _AT_ONCE):
        weights = np.stack(
            [np.bincount(random.integers(0, count, count), minlength=count) for _ in range(_AT_ONCE)]
        ).astype(np.float64)
        drawn.append(weights @ costs)
    sums = np.concatenate(drawn)
    low, high = np.quantile(sums / sums[:, :1], [0.025, 0.975], axis=0)
    means = costs.mean(axis=0) / costs[:, 0].mean()
    return [Estimate(float(a), float(b), float(c)) for a, b, c in zip(low, means, high, strict=True)]


def _method(
    outcome: Outcome, reference: Outcome, ideal: Outcome, corners: Sequence[Spot], table: Table, ratio: Estimate
) -> Method:
    replayed, count = outcome.replayed, len(table)
    right, other = replayed.right, reference.replayed.right
    accuracy, cost = float(right.mean()), float(outcome.costs.mean())
    pair = Discordance(int((other & ~right).sum()), int((right & ~other).sum()), count)
    room = float(ideal.replayed.right.mean() - other.mean())
    half = Z95 * float(outcome.costs.std()) / count**0.5
    bounds = wilson(int(right.sum()), count)
    mixed = baselines.cost_at(corners, accuracy)
    precision, recall, f1 = macro(replayed.answers, table.labels, table.classes)
    return Method(
        name=outcome.name,
        kind=outcome.kind,
        accuracy=Estimate(bounds[0], accuracy, bounds[1]),
        cost=Estimate(cost - half, cost, cost + half),
        difference=Estimate(pair.interval[0], pair.difference, pair.interval[1]),
        ratio=ratio,
        p=pair.p,
        gap_closed=pair.difference / room if room > 0 else None,
        hull_ratio=cost / mixed if mixed else None,
        over_hull=accuracy - baselines.accuracy_at(corners, cost),
        precision=precision,
        recall=recall,
        f1=f1,
        asked=tuple(float(share) for share in replayed.ran.mean(axis=0)),
        answered=tuple(float((replayed.last == place).mean()) for place in range(len(table.candidates))),
        refused=float((replayed.answers == REFUSED).mean()),
        overhead_ns=outcome.overhead_ns,
        energy_uj=outcome.also.get("energy"),
        memory_bytes=outcome.also.get("memory"),
    )


def macro(answers: NDArray[np.int64], labels: NDArray[np.int64], classes: int) -> tuple[float, float, float]:
    """Precision, recall and F1, each the mean over the classes there are labels of. A class never answered has a
    precision of 0; a refusal is in no class, and costs recall."""
    hit = np.bincount(labels[answers == labels], minlength=classes)
    given = np.bincount(answers[answers >= 0], minlength=classes)
    have = np.bincount(labels, minlength=classes)
    there = have > 0
    precision = hit[there] / np.maximum(given[there], 1)
    recall = hit[there] / have[there]
    f1 = 2 * hit[there] / (given[there] + have[there])
    return float(precision.mean()), float(recall.mean()), float(f1.mean())
