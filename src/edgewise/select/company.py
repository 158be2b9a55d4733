"""Candidates in one process, as a chooser has them: what each takes more where another ran meanwhile, and what deciding
takes there.

A model that is run over and over finds its weights, and what the processor learned of it, where it left them. Where a
larger one ran meanwhile it does not: a network of 0.1 ms takes half as long again after one of 2 ms. Reading megabytes
of other memory does not do the same, so it is the others themselves that run in between: each one alone, and before a
large one some that are smaller, which do to it together what none of them does.
"""

from __future__ import annotations

import gc
import random
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import cycle, permutations
from typing import Any

from ..core import registry
from ..core.choice import Company
from ..core.chooser import Ready
from ..core.records import from_json
from ..data.dataset import Image
from ..measure.asking import Asking
from ..measure.pictures import Pictures, decoded
from ..system import affinity
from .chooser import Chooser
from .deciding import decided
from .policy import Policy
from .table import Scores

# Of each pair so many times at the most, and of each kind of policy so many images.
_TIMES, _IMAGES = 60, 60
_WARMUP, _STEADY = 5, 8

_clock = time.perf_counter_ns
# One of the candidates, and those that run before it.
_Case = tuple[int, tuple[int, ...]]


def together(
    ready: Mapping[str, Any], pictures: Mapping[str, Any], cores: Sequence[int], for_s: float, seed: int = 0
) -> Company:
    """For a worker. Pairs take turns for so long. One whose turn did not come counts as nothing: models are slow then,
    and it matters little."""
    if cores:
        affinity.pin(tuple(cores))
    opened = from_json(Ready, ready)
    images = cycle(decoded(from_json(Pictures, pictures)))
    with Chooser(opened, among=True) as chooser:
        asking = [chooser.asking(place) for place in range(len(opened.members))]
        for each in asking:
            for _ in range(_WARMUP):
                each.rows([each.prepared(next(images))])
        gc.collect()
        gc.disable()
        took = [statistics.median(_took(each, next(images)) for _ in range(_WARMUP)) for each in asking]
        cheaper = [_some(sorted(range(len(took)), key=took.__getitem__), place) for place in range(len(took))]
        pairs: list[_Case] = [(own, (other,)) for own, other in permutations(range(len(asking)), 2)]
        all_of = [(own, others) for own, others in enumerate(cheaper) if len(others) > 1]
        found = _longer(asking, images, [*pairs, *all_of], for_s, random.Random(seed))
        deciding, cold = _deciding(asking, images, opened.outputs, for_s)
    after = tuple(tuple(found.get((own, (other,)), 0.0) for other in range(len(asking))) for own in range(len(asking)))
    since = tuple(found.get((own, others), 0.0) for own, others in enumerate(cheaper))
    return Company(after, deciding, cold, since)


def _some(order: Sequence[int], place: int) -> tuple[int, ...]:
    """Of those that are quicker, three from all over: as many as come before the last of a chain."""
    quicker = order[: order.index(place)]
    return tuple(dict.fromkeys(quicker[at] for at in (0, len(quicker) // 2, -1))) if quicker else ()


def _took(asking: Asking, image: Image) -> int:
    batch = [asking.prepared(image)]
    begin = _clock()
    asking.rows(batch)
    return _clock() - begin


def _longer(
    asking: Sequence[Asking],
    images: Iterator[Image],
    cases: Sequence[_Case],
    for_s: float,
    order: random.Random,
) -> dict[_Case, float]:
    """How much longer one takes where others ran since it last did than over and over: the difference of medians, of
    each case whose turn came. It takes a model several runs in a row to be as quick as it gets."""
    found: dict[_Case, list[int]] = {}
    deadline = time.monotonic() + for_s
    steady: list[_Case] = [(own, ()) for own in range(len(asking))]
    for _ in range(_TIMES):
        for own, others in [*steady, *order.sample(cases, len(cases))]:
            # However slow they are, each has to have been seen by itself.
            if time.monotonic() > deadline and len(found) >= len(steady):
                break
            image = next(images)
            for other in (own, *others) if others else [own] * _STEADY:
                _took(asking[other], image)
            found.setdefault((own, others), []).append(_took(asking[own], image))
    middle = {case: statistics.median(each) for case, each in found.items()}
    # What is below nothing is chance: nobody is made quicker by others.
    return {case: max(0.0, took - middle[case[0], ()]) for case, took in middle.items()}


def _deciding(
    asking: Sequence[Asking], images: Iterator[Image], classes: int, for_s: float
) -> tuple[dict[str, float], float]:
    """A stage of each kind of policy that has some, right after a model ran; and how much longer that is than deciding
    over and over."""
    found: dict[str, float] = {}
    longer: list[float] = []
    for name in registry.names("select.policies"):
        module = registry.find("select.policies", name)
        if not hasattr(module, "specimen"):
            continue
        policy: Policy = module.specimen(len(asking), classes)
        stages_ns: list[float] = []
        deadline = time.monotonic() + for_s
        for _ in range(_IMAGES):
            image = next(images)
            course, took_ns = decided(policy, partial(_row, asking, image), len(asking), classes)
            said = dict(zip(course.ran, course.scores, strict=True))
            again_ns = min(decided(policy, said.__getitem__, len(asking), classes)[1] for _ in range(3))
            stages_ns.append(took_ns / len(course.ran))
            longer.append(took_ns / again_ns)
            if time.monotonic() > deadline:
                break
        found[name] = _usual(stages_ns)
    return found, max(1.0, statistics.median(longer)) if longer else 1.0


def _usual(times: Sequence[float]) -> float:
    """The mean, since it is means that are added up; without the longest twentieth: they are few, and one disturbance
    would show."""
    return statistics.fmean(sorted(times)[: max(1, len(times) - len(times) // 20)])


def _row(asking: Sequence[Asking], image: Image, place: int) -> Scores:
    row: Scores = asking[place].rows([asking[place].prepared(image)])[0]
    return row
