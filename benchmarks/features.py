"""What deciding by an image's looks costs: its features by size, and the premodel's decision on top.

Beside it stands what the adaptive model selection paper says of its premodel on a Jetson TX2: 0.20 seconds, nearly all
of it for features, by Python code. That is another processor, and the paper's images are photographs; these are made
up: shapes over a gradient with some noise, and noise alone, which has the most edges an image can have.

One thread, on one core. Every image is looked at once in each round, in an order drawn anew, so that little of it stays
in the caches; a decision follows the features of the image it is about, as it does in use.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from _goal import finish, say
from edgewise.core.choice import Candidate
from edgewise.core.stats import interval
from edgewise.core.text import parse_target
from edgewise.select.features import NAMES, PAPER, THUMBNAIL, extract
from edgewise.select.features.reduce import PIXELS
from edgewise.select.policies import premodel
from edgewise.select.table import Table
from edgewise.system import affinity

Key = tuple[str, int, int]
DECIDING = ("knn", "tree", "svm", "cnn")
BRIGHTNESS = ("avg_brightness", "contrast")
SIZES = (32, 64, 112, 224, 448, 1024)
BAR_NS = 500_000
DECISION_BAR_NS = 50_000
PAPER_NS = 200_000_000
ROWS = 3000


def picture(size: int, seed: int) -> NDArray[np.uint8]:
    draw = np.random.default_rng(seed)
    y, x = np.mgrid[:size, :size] / size
    image = draw.uniform(40, 200, 3) + draw.uniform(-60, 60, 3) * x[..., None] + draw.uniform(-60, 60, 3) * y[..., None]
    for _ in range(12):
        across, down, wide, high = draw.random(), draw.random(), draw.uniform(0.03, 0.3), draw.uniform(0.03, 0.3)
        inside = ((x - across) / wide) ** 2 + ((y - down) / high) ** 2 < 1
        if draw.random() < 0.5:
            inside = (abs(x - across) < wide) & (abs(y - down) < high)
        image[inside] = draw.uniform(0, 255, 3)
    return np.clip(image + draw.normal(0, 4, image.shape), 0, 255).astype(np.uint8)


def noise(size: int, seed: int) -> NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, (size, size, 3)).astype(np.uint8)


def timed(
    calls: dict[Key, tuple[Callable[[], object], Callable[[], object] | None]], rounds: int
) -> dict[Key, list[int]]:
    """All of them in every round, in an order drawn anew; where there is a call to be made before, it is not timed."""
    order, samples = random.Random(0), {key: [] for key in calls}
    for number in range(rounds + 3):
        for key in order.sample(list(calls), len(calls)):
            call, before = calls[key]
            if before:
                before()
            begin = time.perf_counter_ns()
            call()
            took = time.perf_counter_ns() - begin
            if number >= 3:
                samples[key].append(took)
    return samples


def summary(samples: list[int]) -> tuple[float, float, float]:
    found = interval(np.array(samples), check_drift=False)
    assert found
    return found.low, found.estimate, found.high


def decisions(levels: str) -> tuple[premodel.Premodel, NDArray[np.float64]]:
    """A premodel of seven features and 3,000 images, as made up as they are, and images to decide about."""
    draw = np.random.default_rng(0)
    features = draw.random((ROWS, len(NAMES)))
    labels = draw.integers(0, 10, ROWS)
    scores = []
    for strength in (0.6, 0.8, 0.9):
        weights = draw.random((ROWS, 10))
        weights[np.arange(ROWS), labels] += np.where(features[:, 0] < strength, 2.0, 0.0)
        scores.append(np.log(weights / weights.sum(axis=1, keepdims=True)).astype(np.float32))
    target = parse_target("null")
    candidates = tuple(Candidate(f"m{at}", f"m{at}", target, "unit", 10.0**at, 0.0) for at in range(3))
    thumbnails = draw.integers(0, 256, (ROWS, PIXELS)).astype(np.uint8)
    table = Table(candidates, labels, tuple(scores), features, thumbnails)
    policy = premodel.fit(table, features=PAPER, levels=levels, theta=-1.0)
    return policy, np.concatenate((draw.random((4, len(NAMES))), thumbnails[:4]), axis=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=300)
    options = parser.parse_args()
    affinity.pin(affinity.current()[-1:])
    rounds = options.rounds
    calls: dict[Key, tuple[Callable[[], object], Callable[[], object] | None]] = {}
    for size in SIZES:
        for seed in range(4):
            image = picture(size, seed)
            calls["shapes", size, seed] = (partial(extract, image), None)
            calls["brightness alone", size, seed] = (partial(extract, image, BRIGHTNESS), None)
            calls["thumbnail alone", size, seed] = (partial(extract, image, (THUMBNAIL,)), None)
        calls["noise", size, 0] = (partial(extract, noise(size, 0)), None)
    for levels in DECIDING:
        policy, rows = decisions(levels)
        for seed, row in enumerate(rows):
            calls[levels, ROWS, seed] = (partial(policy.begin, row), partial(extract, picture(224, seed)))
    samples = timed(calls, rounds)
    merged: dict[tuple[str, int], list[int]] = {}
    for (what, size, _), took in samples.items():
        merged.setdefault((what, size), []).extend(took)
    found = {key: summary(took) for key, took in merged.items()}
    for (what, size), (low, middle, high) in found.items():
        unit = "images known" if what in DECIDING else "pixels wide"
        say(f"{what:16} {size:5} {unit:12} {middle / 1e3:8.1f} µs [{low / 1e3:.1f}, {high / 1e3:.1f}]")
    low, middle, high = found["shapes", 224]
    decision = found["knn", ROWS]
    say(f"the paper's premodel took {PAPER_NS / 1e6:.0f} ms on its device: {PAPER_NS / middle:.0f} times as long")
    finish(
        "features of a 224-pixel image",
        middle / 1e6,
        (low / 1e6, high / 1e6),
        BAR_NS / 1e6,
        middle <= BAR_NS and decision[1] <= DECISION_BAR_NS,
        unit="ms",
        features_us={f"{what} {size}": [each / 1e3 for each in value] for (what, size), value in found.items()},
        decision_us=[each / 1e3 for each in decision],
        decision_bar_us=DECISION_BAR_NS / 1e3,
        paper_ms=PAPER_NS / 1e6,
        rounds=rounds,
    )


if __name__ == "__main__":
    main()
