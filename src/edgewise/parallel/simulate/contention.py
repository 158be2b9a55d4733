"""What working side by side costs, each model with one number to be fitted.

A GPU or an NPU does not work by itself: somebody on the CPU prepares, starts and collects what it does. For a cluster
that is busy with frames of its own, that is time it does not have. `feeding` is the model that is used; the others were
tried beside it (docs/guides/simulate.md has the figures) and can be chosen to see what they would say.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

KINDS = ("cpu", "gpu", "npu", "dsp")


@dataclass(frozen=True, slots=True)
class Part:
    """A component as contention sees it: what kind it is, and the frames per second it does alone."""

    kind: str
    per_s: float


# (the fitted number, all parts of the chip, what each would do now if it were alone) -> the part of it that remains
Paces = Callable[[float, Sequence[Part], Sequence[float]], list[float]]


@dataclass(frozen=True, slots=True)
class Model:
    """`value` says what the number is; it is looked for from 0 to `most`."""

    name: str
    value: str
    most: float
    paces: Paces


def _none(value: float, parts: Sequence[Part], now: Sequence[float]) -> list[float]:
    return [1.0] * len(parts)


def _equal(value: float, parts: Sequence[Part], now: Sequence[float]) -> list[float]:
    return [1 - value if sum(rate > 0 for rate in now) > 1 else 1.0] * len(parts)


def _neighbours(value: float, parts: Sequence[Part], now: Sequence[float]) -> list[float]:
    busy = sum(rate > 0 for rate in now)
    return [1 / (1 + value * max(0, busy - 1))] * len(parts)


def _cores(value: float, parts: Sequence[Part], now: Sequence[float]) -> list[float]:
    return _clusters(parts, now, value * sum(part.per_s for part in _cpus(parts)) * _feeders(parts, now))


def _frames(value: float, parts: Sequence[Part], now: Sequence[float]) -> list[float]:
    owed = value * _fed(parts, now)
    return _clusters(parts, now, owed * sum(part.per_s for part in _cpus(parts)))


def _feeding(value: float, parts: Sequence[Part], now: Sequence[float]) -> list[float]:
    return _clusters(parts, now, value * _fed(parts, now))


def _cpus(parts: Sequence[Part]) -> list[Part]:
    return [part for part in parts if part.kind == "cpu"]


def _fed(parts: Sequence[Part], now: Sequence[float]) -> float:
    """Frames per second of the components that others must feed."""
    return sum(rate for part, rate in zip(parts, now, strict=True) if part.kind != "cpu")


def _feeders(parts: Sequence[Part], now: Sequence[float]) -> int:
    return sum(rate > 0 for part, rate in zip(parts, now, strict=True) if part.kind != "cpu")


def _clusters(parts: Sequence[Part], now: Sequence[float], owed_per_s: float) -> list[float]:
    """Clusters owe so many frames' worth of work a second. Those with nothing else to do take it first; of the others
    each gives the same part of its time. A fair scheduler leaves them at least one share among those they feed."""
    busy = sum(rate for part, rate in zip(parts, now, strict=True) if part.kind == "cpu")
    if not busy:
        return [1.0] * len(parts)
    spare = sum(part.per_s for part, rate in zip(parts, now, strict=True) if part.kind == "cpu" and not rate)
    kept = max(1 / (1 + _feeders(parts, now)), 1 - max(0.0, owed_per_s - spare) / busy)
    return [kept if part.kind == "cpu" else 1.0 for part in parts]


MODELS = {
    model.name: model
    for model in (
        Model("feeding", "frames of a cluster's work that a frame elsewhere takes", 1.0, _feeding),
        Model("frames", "seconds of the clusters that a frame elsewhere takes", 0.5, _frames),
        Model("cores", "part of the clusters that each other component takes", 1.0, _cores),
        Model("neighbours", "how much longer all take for each other one that works", 1.0, _neighbours),
        Model("equal", "part that all lose when more than one works", 0.9, _equal),
        Model("none", "nothing", 0.0, _none),
    )
}
DEFAULT = "feeding"
