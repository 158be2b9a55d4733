"""One cell taken apart: a worker runs it plain and instrumented in turns, so that the cost of asking is known."""

from __future__ import annotations

from ..core.errors import EdgewiseError
from ..core.profile import OpTime, Profile, Spans
from ..core.records import from_json, to_json
from ..core.types import Failure
from .cell import Cell, Session

# The first runs fill caches and arenas; they would be the largest of all operator times. A power of two: OpenVINO's
# counters are read there, so that what comes after is not mixed with them.
WARMUP = 8
# How long the runs may take together, plain and instrumented.
_SPENT_NS = 6_000_000_000
_FEWEST, _MOST = 20, 200


def profile(cell: Cell) -> Profile | Failure:
    """As many runs as fit a few seconds."""
    stage = "load"
    try:
        with Session(cell) as session:
            session.open()
            stage = "profile"
            warm = session.round(warmup=True, max_runs=WARMUP)
            typical = sorted(warm.samples_ns)[len(warm.samples_ns) // 2]
            runs = max(_FEWEST, min(_MOST, _SPENT_NS // (2 * max(typical, 1))))
            found = session.worker.call(
                "profile",
                model=to_json(cell.model),
                placement=str(cell.task.placement),
                warmup=WARMUP,
                runs=runs,
                # Instrumented runs may take several times as long as those that were seen.
                timeout_s=cell.timeout_s + 5 * (WARMUP + runs) * typical / 1e9,
            )
    except EdgewiseError as error:
        return Failure.of(error, cell.task, cell.machine, stage, cell.label)
    ops = tuple(from_json(OpTime, op) for op in found["ops"])
    return Profile(
        cell.task,
        cell.machine,
        cell.versions,
        ops,
        tuple(found["plain_ns"]),
        tuple(found["instrumented_ns"]),
        cell.label,
        from_json(Spans, found["spans"]),
    )
