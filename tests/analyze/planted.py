"""Measurements with a known answer inside, for the tests of analyses."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgewise.core.energy import Energy
from edgewise.core.evaluation import Answers, Evaluation
from edgewise.core.text import parse_placement, parse_scenario
from edgewise.core.types import Agreement, Cluster, Machine, Measurement, Ran, Round, Start, Task

CPU = Ran(("CPU",))
GOOD = Agreement(1e-6, 1.0, 1e-7, 1.0, 0, 1000)


def machine(name: str = "m", *, max_hz: int | None = None) -> Machine:
    cores = Cluster("cpu", (0, 1), max_hz=max_hz)
    return Machine(name, f"machine {name}", "Linux", "a CPU", (), (cores,), memory_bytes=8 << 30)


def noise(centre: float, n: int = 1000, seed: int = 0, spread: float = 0.02) -> NDArray[np.float64]:
    return np.asarray(centre * np.exp(np.random.default_rng(seed).normal(0, spread, n)))


def measured(
    target: str,
    samples: NDArray[Any],
    *,
    scenario: str = "single",
    label: str = "net",
    on: str = "m",
    foreign: float = 0.0,
    agreement: Agreement | None = GOOD,
    ran: Ran = CPU,
    starts: int = 1,
    peak_bytes: int = 1 << 26,
    cores: float = 1.0,
    energies: tuple[Energy, ...] = (),
) -> Measurement:
    """Samples cut into rounds of 50, dealt to `starts` processes, one round after another in time, busy on
    `cores` of them. The subject is `digest of LABEL`."""
    parts = np.array_split(samples, max(starts, samples.size // 50))
    rounds, now = [], 0
    for i, part in enumerate(parts):
        took = int(part.sum())
        rounds.append(
            Round(
                i * starts // len(parts),
                False,
                now,
                took,
                tuple(int(s) for s in part),
                cpu_ns=int(took * cores),
                foreign_ns=int(took * 2 * foreign),
                stolen_ns=0,
                peak_bytes=peak_bytes,
            )
        )
        now += took
    start = Start(0, 10**7, 10**7, 1 << 25, ran, agreement, cpus=2)
    task = Task(f"digest of {label}", parse_placement(target), parse_scenario(scenario))
    return Measurement(task, on, (), "", (start,) * starts, tuple(rounds), True, label, energies)


def evaluated(target: str, right: NDArray[np.bool_], *, label: str = "net", on: str = "m") -> Evaluation:
    """Two classes, one answer for each image: right or not."""
    labels = np.arange(right.size) % 2
    answers = np.where(right, labels, 1 - labels)
    part = Answers(
        tuple(labels.tolist()),
        tuple((int(each),) for each in answers),
        (0.9,) * right.size,
        10**6,
        10**6,
        10**9,
        right.size,
        2,
    )
    placement = parse_placement(target)
    images = f"{right.size} images"
    return Evaluation(
        f"digest of {label}", placement, on, (), images, right.size, "", "unit", ("a", "b"), (part,), label, images
    )
