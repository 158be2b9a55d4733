"""Simulated tables: candidates whose accuracy falls with a hidden difficulty, of which some features know."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from edgewise.core.choice import Candidate
from edgewise.core.text import parse_target
from edgewise.select.features import NAMES
from edgewise.select.features.reduce import THUMB
from edgewise.select.table import Table

COSTS = (1e6, 3e6, 1e7, 2e7)
STRENGTHS = (0.55, 0.7, 0.9, 0.85)
CLASSES = 10


def candidate(label: str, run_ns: float) -> Candidate:
    return Candidate(label, f"{label}.onnx", parse_target("null"), "unit", run_ns, 1e4, memory_bytes=int(run_ns))


def planted(right: NDArray[np.bool_], costs: Sequence[float], features: NDArray[np.float64] | None = None) -> Table:
    """A table in which exactly those (image, candidate) are right; a wrong one has the label second."""
    images, count = right.shape
    labels = np.arange(images) % CLASSES
    scores = []
    for place in range(count):
        weights = np.full((images, CLASSES), 0.01)
        weights[np.arange(images), labels] = 0.4
        weights[np.arange(images), (labels + 1) % CLASSES] = np.where(right[:, place], 0.2, 0.6)
        scores.append(np.log(weights / weights.sum(axis=1, keepdims=True)).astype(np.float32))
    candidates = tuple(candidate(f"m{place}", cost) for place, cost in enumerate(costs))
    return Table(candidates, labels, tuple(scores), features)


def hidden(images: int, seed: int = 0, *, noise: float = 0.1) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Who is right on which image, and features: `contrast` tells the difficulty, `hue1` and `hue2` (one the other's
    opposite) tell whether the last candidate knows what the third does not; the rest is noise."""
    random = np.random.default_rng(seed)
    difficulty, special = random.random(images), random.random(images)
    right = np.stack([difficulty + noise * random.standard_normal(images) < each for each in STRENGTHS], axis=1)
    right[:, 3] |= special > 0.8
    right[:, 2] &= special <= 0.9
    features = random.random((images, len(NAMES))) * random.uniform(0.1, 100, len(NAMES))
    features[:, NAMES.index("contrast")] = 50 * difficulty
    features[:, NAMES.index("hue1")] = special
    features[:, NAMES.index("hue2")] = 3 - 2 * special
    return right, features


def simulated(images: int, seed: int = 0) -> Table:
    right, features = hidden(images, seed)
    return planted(right, COSTS, features)


def pictured(table: Table, seed: int = 0) -> Table:
    """With thumbnails in which the difficulty can be seen: the left half is the brighter the harder an image is, and
    the right half the darker, so that all are equally bright."""
    assert table.features is not None
    difficulty = table.features[:, NAMES.index("contrast")] / 50
    noise = np.random.default_rng(seed).integers(0, 56, (len(table), 3, THUMB, THUMB))
    side = np.repeat([1.0, 0.0], THUMB // 2)
    share = np.abs(side - difficulty[:, None])[:, None, None, :]
    thumbnails = (noise + 200 * (1 - share)).astype(np.uint8).reshape(len(table), -1)
    return replace(table, thumbnails=thumbnails)
