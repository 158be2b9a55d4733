"""The cascade everybody builds first, to measure others by: stop once the largest probability is large enough.

Candidates are those on the front of cost and accuracy, the cheapest first. Probabilities are taken as they come, only
the last answer counts, and one threshold does for all stages: of those that leave the cascade accurate enough on the
fitting images, the one that is cheapest there.
"""

from __future__ import annotations

import numpy as np

from .pooling import pool
from .search import Chosen, Views
from .table import hits
from .thresholds import Staged, answered, answered_at

# Thresholds that are tried: so many, at even shares of how sure all stages are.
_TRIED = 200
_MEASURE = "odds"


def plain(views: Views, *, max_loss: float) -> Chosen:
    """The most accurate candidate alone where no threshold is cheaper."""
    chain = _front(views)
    # As the cascade makes them when it runs, with a power of one.
    logs = [pool([views.table.scores[place]], (1.0,)) for place in chain]
    staged = Staged(
        tuple(views.sure(each)[_MEASURE] for each in logs[:-1]),
        tuple(hits(each.astype(np.float32), views.table.labels, views.top) for each in logs),
        views.costs(chain),
    )
    alone = views.costs(chain[-1:])[0]
    tried = np.quantile(np.concatenate(staged.sure), np.linspace(0, 1, _TRIED)).tolist() if staged.sure else []
    needed = views.enough - max_loss * len(views.table)
    found = []
    for threshold in tried:
        same = (threshold,) * (len(chain) - 1)
        if int(answered(staged, same).sum()) >= needed - 1e-9:
            found.append((float(np.array(staged.costs)[answered_at(staged, same)].mean()), threshold))
    cost, threshold = min(found, default=(alone, 0.0))
    if cost >= alone:
        return Chosen(chain[-1:], (), ((1.0,),), _MEASURE, alone)
    powers = tuple((0.0,) * stage + (1.0,) for stage in range(len(chain)))
    return Chosen(chain, (threshold,) * (len(chain) - 1), powers, _MEASURE, cost)


def _front(views: Views) -> tuple[int, ...]:
    """Those that are more accurate than all that are no dearer; the last is the most accurate."""
    chain: list[int] = []
    for place in views.order:
        if not chain or views.right[:, place].sum() > views.right[:, chain[-1]].sum():
            chain.append(place)
    return tuple(chain)
