"""What candidates take beyond their prices where they run in one process, as a chooser has them."""

from __future__ import annotations

from collections.abc import Sequence

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
    for_s: float = FOR_S,
) -> Company:
    """In a process of its own, where all of them can be in one."""
    members = tuple(
        Loadable(each.name, each.cell.model, each.target, each.exam.preprocess, known)
        for each, known in zip(contenders, probabilities, strict=True)
    )
    ready = Ready(members, classes, (), "single", {"candidate": 0})
    cells = [each.cell for each in contenders]
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
    return from_json(Company, found)
