"""A chooser at work, image by image, beside its candidates in their own processes: does replaying tell the truth?

The live run and the candidates take turns, so that what the machine does meanwhile is done to both.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace

import numpy as np

from ..core.chooser import Live
from ..core.errors import EdgewiseError, rebuild
from ..core.records import from_json, to_json
from ..core.types import Failure
from ..measure.isolate import Worker
from ..measure.pictures import Pictures
from ..measure.pricing import Went
from ..select.chain import spent
from ..select.chooser import policy_of
from ..select.deciding import deciding_ns
from ..select.policy import Policy, looking_ns
from ..select.table import Table
from .choosers import Opened
from .company import company
from .compare import shared_cores
from .prepare import Limits
from .prices import TURN_NS, WARMUP_NS, Side, some
from .select import Gathered

IMAGES = 2000
# Images of one turn, and some before them that are not counted.
_TURN, _SETTLE = 100, 20

Progress = Callable[[int, int], None]


def live(
    opened: Opened,
    found: Gathered,
    limits: Limits,
    progress: Progress = lambda done, count: None,
    *,
    images: int = IMAGES,
    turn_ns: int = TURN_NS,
    warmup_ns: int = WARMUP_NS,
    seed: int = 0,
) -> Live:
    """On `images` of those that were gathered, over again where there are fewer. `progress` hears how many are done."""
    policy = policy_of(opened.ready)
    asked = [found.contenders[place] for place in policy.candidates]
    exam, order = found.exam, random.Random(seed)
    # In any order but that of the classes.
    places = order.sample(range(len(found.indices)), min(images, len(found.indices)))
    shown = Pictures(exam.data, exam.labels, tuple(found.indices[place] for place in places))
    beside = _beside(found, policy)
    went: list[Went] = []
    sides = [Side(contender) for contender in asked]
    with ExitStack() as stack:
        cores = shared_cores([contender.cell for contender in asked], 0)
        worker = stack.enter_context(Worker(memory_bytes=limits.memory_bytes, timeout_s=limits.timeout_s))
        plan = to_json(opened.ready)
        held = int(worker.call("open_plan", plan=plan, cores=list(opened.cores or cores), pictures=to_json(shown)))
        for side in sides:
            side.enter(stack, cores)
            side.begin()
        for side in sides:
            side.open(some(exam, found.indices))
            side.warm_up(warmup_ns)
        warm = from_json(Went, worker.call("went", first=0, count=min(images, 5 * _TURN), settle=0))
        worker.pause()
        # Turns of the same length: what is let run for a moment only is disturbed less than what runs on.
        turn_ns = max(turn_ns, int(_TURN * statistics.median(warm.time_ns)))
        done = 0
        while done < images:
            count = min(_TURN, images - done)
            for whose in order.sample([None, *sides], len(sides) + 1):
                if whose is not None:
                    whose.turn(turn_ns)
                    continue
                worker.go_on()
                went.append(from_json(Went, worker.call("went", first=done % held, count=count, settle=_SETTLE)))
                worker.pause()
            done += count
            progress(done, images)
    asked_of = dict(zip(policy.candidates, sides, strict=True))
    return _compared(opened, found, beside, policy, went, asked_of, places[:held])


def _beside(found: Gathered, policy: Policy) -> Table:
    """What candidates take in each other's company now, like their prices: of those alone that the policy may ask, and
    so more surely than when it was of all."""
    table = found.table
    if table.company is None or len(policy.candidates) < 2:
        return table
    asked = tuple(policy.candidates)
    stands = {place: place if place in asked else asked[0] for place in range(len(table.candidates))}
    pictures = some(found.exam, found.indices)
    try:
        now = company(found.contenders, table.classes, found.probabilities, pictures, stands=stands)
    except EdgewiseError:
        # They were together once: that counts then.
        return table
    return replace(table, company=now)


def _compared(
    opened: Opened,
    found: Gathered,
    beside: Table,
    policy: Policy,
    went: Sequence[Went],
    sides: Mapping[int, Side],
    places: Sequence[int],
) -> Live:
    for side in sides.values():
        price = side.price()
        if isinstance(price, Failure):
            raise rebuild({"error": price.error, "message": f"{side.contender.name}: {price.message}"})
    time_ns = np.array([each for turn in went for each in turn.time_ns])
    answers = np.array([each for turn in went for each in turn.answers])
    asked = np.array([each for turn in went for each in turn.asked], np.bool_)
    seen = beside.rows([places[number % len(places)] for number in range(len(answers))])
    replayed = policy.replay(seen)
    alike = (asked == replayed.ran).all(axis=1)
    extra = deciding_ns(policy, seen) + looking_ns(policy, beside)
    now = list(beside.candidates)
    for place, side in sides.items():
        # Means on both sides: whatever disturbs the machine does so in proportion to the time it finds something to.
        run_ns = statistics.fmean(ns for turn in side.turns for ns in turn.run_ns)
        prepare_ns = statistics.fmean(ns for turn in side.turns for ns in turn.prepare_ns)
        now[place] = replace(now[place], run_ns=run_ns, prepare_ns=prepare_ns)
    planned = replace(found.table, candidates=tuple(member.candidate for member in opened.plan.members))
    told = planned.rows([places[number % len(places)] for number in range(len(answers))])
    told_extra = deciding_ns(policy, told) + looking_ns(policy, planned)
    return Live(
        len(time_ns),
        float(time_ns.mean()),
        float(spent(replace(beside, candidates=tuple(now)), policy.candidates, replayed.ran).mean()) + extra,
        float(spent(planned, policy.candidates, replayed.ran).mean()) + told_extra,
        float((alike & (answers == replayed.answers)).mean()),
        float((answers == seen.labels).mean()),
        float(alike.mean()),
        min(len(places), len(answers)),
    )
