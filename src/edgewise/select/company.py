"""Candidates in one process, as a chooser has them: what each takes more where another ran before, and what deciding
takes there.

A model that is run over and over finds its weights, and what the processor learned of it, where it left them. After
another it does not: a network of 0.1 ms takes half as long again after one of 2 ms. Reading other memory instead does
not do the same, so it is the others themselves that run in between.
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
_TIMES, _IMAGES = 30, 60
_WARMUP = 5

_clock = time.perf_counter_ns


def together(
    ready: Mapping[str, Any], pictures: Mapping[str, Any], cores: Sequence[int], for_s: float, seed: int = 0
) -> Company:
    """For a worker. Pairs take turns for so long. One whose turn did not come counts as nothing: models are slow then,
    and it matters little."""
    if cores:
        affinity.pin(tuple(cores))
    opened = from_json(Ready, ready)
    images = cycle(decoded(from_json(Pictures, pictures)))
    with Chooser(opened) as chooser:
        asking = [chooser.asking(place) for place in range(len(opened.members))]
        for each in asking:
            for _ in range(_WARMUP):
                each.rows([each.prepared(next(images))])
        gc.collect()
        gc.disable()
        after = _after(asking, images, for_s, random.Random(seed))
        deciding, cold = _deciding(asking, images, opened.outputs, for_s)
    return Company(after, deciding, cold)


def _after(
    asking: Sequence[Asking], images: Iterator[Image], for_s: float, order: random.Random
) -> tuple[tuple[float, ...], ...]:
    pairs = list(permutations(range(len(asking)), 2))
    found: dict[tuple[int, int], list[int]] = {pair: [] for pair in pairs}
    deadline = time.monotonic() + for_s
    for _ in range(_TIMES):
        order.shuffle(pairs)
        for own, other in pairs:
            if time.monotonic() > deadline:
                break
            image = next(images)
            mine, theirs = asking[own].prepared(image), asking[other].prepared(image)
            asking[own].rows([mine])
            begin = _clock()
            asking[own].rows([mine])
            again = _clock() - begin
            asking[other].rows([theirs])
            begin = _clock()
            asking[own].rows([mine])
            found[own, other].append(_clock() - begin - again)
    return tuple(
        tuple(statistics.median(found.get((own, other)) or [0]) for other in range(len(asking)))
        for own in range(len(asking))
    )


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
        # Few, so that one disturbance would show in a mean.
        found[name] = statistics.median(stages_ns)
    return found, max(1.0, statistics.median(longer)) if longer else 1.0


def _row(asking: Sequence[Asking], image: Image, place: int) -> Scores:
    row: Scores = asking[place].rows([asking[place].prepared(image)])[0]
    return row
