"""What candidates take beyond their prices where they run in one process, as a chooser has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ..core.choice import Company
from ..core.chooser import Loadable, Ready
from ..core.records import from_json, to_json
from ..measure import isolate
from ..measure.pictures import Pictures
from .compare import shared_cores
from .contenders import Contender

FOR_S = 15.0
# Beside what is timed: loading all of them.
_LOADING_S = 600.0


def company(
    contenders: Sequence[Contender],
    classes: int,
    probabilities: Sequence[bool],
    pictures: Pictures,
    *,
    stands: Mapping[int, int] | None = None,
    for_s: float = FOR_S,
) -> Company:
    """In a process of its own, where all of them can be in one. `stands` says who stands for each, None: all for
    themselves. There are as many figures as pairs, and time for only so many: of twenty candidates each pair would be
    tried a few times, and chance be taken for what they do to each other."""
    stands = {place: place for place in range(len(contenders))} if stands is None else stands
    there = sorted(set(stands.values()))
    members = tuple(
        Loadable(each.name, each.cell.model, each.target, each.exam.preprocess, probabilities[place])
        for place in there
        for each in (contenders[place],)
    )
    ready = Ready(members, classes, (), "single", {"candidate": 0})
    cells = [contenders[place].cell for place in there]
    limit = cells[0].memory_bytes
    found = isolate.call(
        "edgewise.select.company:together",
        timeout_s=_LOADING_S,
        memory_bytes=None if limit is None else limit * len(cells),
        ready=to_json(ready),
        pictures=to_json(pictures),
        cores=list(cells[0].cores or shared_cores(cells, 0)),
        for_s=for_s,
    )
    return spread(from_json(Company, found), [there.index(stands[place]) for place in range(len(contenders))])


def spread(found: Company, of: Sequence[int]) -> Company:
    """For each candidate, what was found of the one it is taken for. Two that are taken for the same one were not tried
    after each other: they are taken to mind it as that one minds what it minds most."""

    def after(place: int, other: int) -> float:
        own = found.after_ns[of[place]]
        return max(own) if of[place] == of[other] and place != other else own[of[other]]

    everybody = range(len(of))
    return replace(
        found,
        after_ns=tuple(tuple(after(place, other) for other in everybody) for place in everybody),
        since_ns=tuple(found.since_ns[own] for own in of),
    )
