"""Tables of answers as networks of different sizes give them: images differ in difficulty, and errors are shared."""

from __future__ import annotations

import numpy as np

from edgewise.core.choice import Candidate
from edgewise.core.types import Target
from edgewise.select.table import Table


def candidate(name: str, run_us: float, *, preprocess: str = "unit", prepare_us: float = 10.0) -> Candidate:
    return Candidate(
        name, name, Target("null", "cpu"), preprocess, run_us * 1e3, prepare_us * 1e3, int(run_us * 1e4), run_us * 3.0
    )


def simulated(
    images: int = 2_000,
    *,
    classes: int = 10,
    strengths: tuple[float, ...] = (1.2, 1.8, 2.4, 3.0),
    costs_us: tuple[float, ...] = (100.0, 250.0, 600.0, 1500.0),
    difficulty: float = 1.0,
    shared: float = 0.7,
    temperature: float = 0.6,
    seed: int = 0,
) -> Table:
    """`strength` over an image's difficulty is how far the right class stands out of noise, which is `shared` in part.
    A `temperature` below one makes all of them surer than they should be."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, classes, images)
    hardness = np.exp(difficulty * random.normal(size=(images, 1)))
    common = random.normal(size=(images, classes))
    truth = np.eye(classes)[labels]
    scores = []
    for strength in strengths:
        noise = shared**0.5 * common + (1 - shared) ** 0.5 * random.normal(size=(images, classes))
        logits = 2 * strength * (strength * truth / hardness + noise) / temperature / 2
        logits -= logits.max(axis=1, keepdims=True)
        logits -= np.log(np.exp(logits).sum(axis=1, keepdims=True))
        scores.append(logits.astype(np.float32))
    candidates = tuple(candidate(f"size{place}", cost) for place, cost in enumerate(costs_us[: len(strengths)]))
    return Table(candidates, labels.astype(np.int64), tuple(scores))
