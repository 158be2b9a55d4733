"""What an error inside a network does to its answers: measured, since an error early or late, in a wide layer or in a
narrow one, is not worth the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from ...model.graph import Array, Graph
from ..observe import Observe
from .importance import Table
from .linear import rewritten


def effects(graph: Graph, observe: Observe, table: Table, answers: Mapping[str, Array]) -> dict[int, float]:
    """For each number of channels the takers of a group were fitted to do without: how far from `answers` the network
    then is, everything else being as it was."""
    found = {}
    for count, fitted in table.fitted.items():
        changed = graph
        for taker in table.group.takers:
            changed = rewritten(changed, taker, *fitted[taker.name])
        found[count] = apart(answers, answered(changed, observe))
    return found


def limited(observe: Observe, samples: int) -> Observe:
    """No more than the first so many samples, in whole batches: enough to tell effects apart."""

    def observed(graph: Graph, names: Sequence[str]) -> Iterator[Mapping[str, Array]]:
        count = 0
        for batch in observe(graph, names):
            yield batch
            count += len(batch[names[0]])
            if count >= samples:
                return

    return observed


def answered(graph: Graph, observe: Observe) -> dict[str, Array]:
    """The outputs on all samples."""
    batches = list(observe(graph, graph.outputs))
    return {name: np.concatenate([batch[name] for batch in batches]) for name in graph.outputs}


def apart(answers: Mapping[str, Array], others: Mapping[str, Array]) -> float:
    """Of rows of scores the divergence of the likelihoods they stand for; of all else the error beside the variance."""
    total = 0.0
    for name, array in answers.items():
        ours, theirs = array.astype(np.float64), others[name].astype(np.float64)
        if ours.ndim == 2 and ours.shape[1] > 1:
            if (ours >= 0).all() and np.allclose(ours.sum(axis=1), 1, atol=1e-3):
                ours, theirs = np.log(np.maximum(ours, 1e-12)), np.log(np.maximum(theirs, 1e-12))
            ours, theirs = _likely(ours), _likely(theirs)
            total += float((np.exp(ours) * (ours - theirs)).sum(axis=1).mean())
        else:
            total += float(np.square(ours - theirs).mean() / max(float(ours.var()), 1e-30))
    return total


def _likely(scores: Array) -> Array:
    """The logarithms of the likelihoods."""
    scores = scores - scores.max(axis=1, keepdims=True)
    found: Array = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
    return found


def scaled(errors: Mapping[int, float], measured: Mapping[int, float]) -> dict[int, float]:
    """What an error at each count does to the answers, from where that was measured: in between and beyond along
    straight lines, for answers change with the squares as errors do. Never less than for fewer channels."""
    known = sorted((errors[count], effect) for count, effect in measured.items() if errors[count] > 0)
    if not known:
        return dict(errors)
    at, effect = (np.array([0.0, *each]) for each in zip(*known, strict=True))
    effect = np.maximum.accumulate(effect)
    found, so_far = {}, 0.0
    for count in sorted(errors):
        error = errors[count]
        value = float(np.interp(error, at, effect))
        if error > at[-1]:
            value = float(effect[-1] * error / at[-1])
        so_far = max(so_far, value)
        found[count] = so_far
    return found
