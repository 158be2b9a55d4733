"""The figures of one measurement that several analyses show, each computed once; and what belongs in one ranking."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..core import stats
from ..core.types import Measurement
from ._joules import beside, used
from .evidence import Evidence

Floats = NDArray[np.float64]

# A series is cut into so many parts to see whether its level stays; their medians have one degree of freedom less.
_PARTS = 10
# So many of them may have met a burst.
_BURSTS = 2
# With fewer samples in a part its median says nothing about a level.
_FEWEST_IN_PART = 3
# 97.5 % and 2.5 % points of the chi-square distribution with _PARTS - 1 degrees of freedom.
_CHI_SQUARE = (19.023, 2.700)


class Bounds(NamedTuple):
    """An estimate and where it lies at 95 % confidence; less is better."""

    low: float
    estimate: float
    high: float


class Joules(NamedTuple):
    """Of one item, by readings. `like` is what two must share to be compared: both beyond idle or both in all, and the
    same parts of the machine read beside the accelerator."""

    uj: Bounds
    source: str
    like: tuple[object, ...]

    @property
    def told(self) -> Bounds | None:
        """None where the work cannot be told from idling."""
        return self.uj if self.uj.low > 0 else None

    @property
    def said(self) -> str:
        """Where it is from, for a table."""
        return f"{self.source}, {'beyond idle' if self.like[0] else 'in all'}"


@dataclass(frozen=True, eq=False)
class Figures:
    """Of a measurement with samples. Computed when asked for, as intervals of long series take a while."""

    measurement: Measurement

    @cached_property
    def samples(self) -> Floats:
        return np.asarray(self.measurement.samples_ns, dtype=np.float64)

    @cached_property
    def p50(self) -> float:
        return stats.quantile(self.samples, 0.5)

    @cached_property
    def median(self) -> stats.Interval | None:
        """The interval of the median; none where the series drifts or is too short."""
        return stats.interval_at_stop(self.samples)

    @cached_property
    def drift(self) -> stats.Drift:
        return stats.drift(self.samples)

    @cached_property
    def drifts(self) -> bool:
        # The interval of a median that has enough samples is missing for this one reason.
        return self.median is None if stats.carries(self.samples.size, 0.5) else self.drift.flagged

    @cached_property
    def modes(self) -> stats.Modes:
        return stats.modes(self.samples)

    @cached_property
    def _percentiles(self) -> dict[float, Bounds | None]:
        return {}

    def percentile(self, p: float) -> Bounds | None:
        """None where the samples do not carry it. Of a drifting series, it is that of what was seen: as wide as the
        dependence makes it."""
        if p not in self._percentiles:
            found = stats.interval(self.samples, p, check_drift=False)
            self._percentiles[p] = Bounds(found.low, found.estimate, found.high) if found else None
        return self._percentiles[p]

    def interval(self, p: float) -> tuple[float, float] | None:
        """Of a percentile, for a table: none where the series drifts, as there is no single number to estimate."""
        found = None if self.drifts else self.percentile(p)
        return (found.low, found.high) if found else None

    @cached_property
    def per_s(self) -> float:
        """Items, that is inferences times their batch: of the middle round; of a server, in all."""
        # A server's rounds leave out the pauses without answers; the round that spans the whole stream has no samples.
        whole = sum(r.elapsed_ns for r in self.measurement.measured if not r.samples_ns)
        return self.samples.size * self.batch / whole * 1e9 if whole else 1e9 / self.per_item.estimate

    @property
    def batch(self) -> int:
        return self.measurement.task.scenario.batch

    @cached_property
    def lasted_ns(self) -> int:
        return sum(r.elapsed_ns for r in self.measurement.measured if r.samples_ns)

    @property
    def by_throughput(self) -> bool:
        return self.measurement.task.scenario.kind in ("offline", "concurrent")

    @cached_property
    def per_item(self) -> Bounds:
        """Time per item, round by round: what throughput is the inverse of."""
        rounds = [r for r in self.measurement.measured if r.samples_ns]
        found = _of_rounds([r.elapsed_ns / (len(r.samples_ns) * self.batch) for r in rounds])
        if stats.carries(len(rounds), 0.5):
            return found
        # So few rounds have no interval, and one burst decides about them: by single runs, which overlap where
        # throughput is the question.
        runs = _of_rounds(self.samples)
        each = found.estimate / runs.estimate if self.by_throughput and runs.estimate else 1 / self.batch
        return Bounds(*(value * each for value in runs))

    @cached_property
    def cost(self) -> Bounds:
        """What a ranking goes by: median latency; time per item where throughput is the question."""
        if self.by_throughput:
            return self.per_item
        if self.median:
            return Bounds(self.median.low, self.p50, self.median.high)
        return _of_rounds(self.samples)

    @cached_property
    def spread(self) -> Bounds | None:
        """The ninth decile over the first. Each end is the quotient of two limits, so it errs to the wide side."""
        slow, fast = self.percentile(0.9), self.percentile(0.1)
        if slow is None or fast is None or fast.low <= 0:
            return None
        return Bounds(max(1.0, slow.low / fast.high), slow.estimate / fast.estimate, slow.high / fast.low)

    @cached_property
    def unevenness(self) -> Bounds | None:
        """How far the level of one part of the run lies from that of another, relative to the median.

        The standard deviation of the medians of ten parts, less what the scatter inside the parts explains: the rank
        of the median of n samples has a deviation of half the root of n. Its interval is that of a variance; downwards
        it also allows for the two farthest parts having met a burst that another run would not meet.
        """
        size = self.samples.size // _PARTS
        if size < _FEWEST_IN_PART or self.p50 <= 0:
            return None
        parts = self.samples[: size * _PARTS].reshape(_PARTS, size)
        half = 0.5 / math.sqrt(size)
        below, middle, above = np.quantile(parts, (0.5 - half, 0.5, 0.5 + half), axis=1)
        explained = float((((above - below) / 2.0) ** 2).mean())
        found = float(middle.var(ddof=1))
        nearest = np.argsort(np.abs(middle - np.median(middle)))[:-_BURSTS]
        low = min(found * (_PARTS - 1) / _CHI_SQUARE[0], float(middle[nearest].var(ddof=1)))
        high = found * (_PARTS - 1) / _CHI_SQUARE[1]
        return Bounds(*(math.sqrt(max(0.0, square - explained)) / self.p50 for square in (low, found, high)))

    @cached_property
    def core_ns(self) -> Bounds | None:
        """CPU time per item; None where other processors than CPUs did some of the work, or nobody counted."""
        targets = self.measurement.task.placement.targets
        if any(target.device and not target.device.startswith("cpu") for target in targets):
            return None
        rounds = [r for r in self.measurement.measured if r.cpu_ns is not None]
        # What the meters saw of a server is in the one round that spans the stream and has no samples.
        whole = sum(r.cpu_ns or 0 for r in rounds if not r.samples_ns)
        if whole:
            used = whole / (self.samples.size * self.batch)
            return Bounds(used, used, used)
        used_ns = [(r.cpu_ns or 0) / (len(r.samples_ns) * self.batch) for r in rounds if r.samples_ns]
        return _of_rounds(used_ns) if used_ns and stats.quantile(used_ns, 0.5) > 0 else None

    @cached_property
    def joules(self) -> Joules | None:
        """Energy per item as read: beyond idle, in all where nobody knows what idling takes. A declared power is no
        reading: it says what the latency says."""
        found = used(self.measurement)
        if found is None:
            return None
        active = found.active_uj is not None
        value, ends = (found.active_uj, found.active_range) if active else (found.total_uj, found.total_range)
        if value is None or value <= 0:
            return None
        low, high = ends or (value, value)
        return Joules(Bounds(low, value, high), found.source, (active, beside(found)))


class _Itself:
    """A key that is equal to itself only: going through all samples to find a measurement again would take longer than
    some figures do."""

    def __init__(self, measurement: Measurement) -> None:
        self.measurement = measurement

    def __hash__(self) -> int:
        return id(self.measurement)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Itself) and other.measurement is self.measurement


@lru_cache(maxsize=2048)
def _figures(key: _Itself) -> Figures:
    return Figures(key.measurement)


def figures(measurement: Measurement) -> Figures:
    return _figures(_Itself(measurement))


def _of_rounds(values: Sequence[float] | Floats) -> Bounds:
    found = stats.interval_at_stop(values)
    middle = stats.quantile(values, 0.5)
    if found:
        return Bounds(found.low, middle, found.high)
    # A drifting or short series has no interval; its middle half is the least one can say about where it was.
    return Bounds(stats.quantile(values, 0.25), middle, stats.quantile(values, 0.75))


def ranks(bounds: Sequence[Bounds | None]) -> list[int | None]:
    """Rank = 1 + how many are demonstrably better, so those whose intervals overlap share one. No figure, no rank."""
    return [
        None if own is None else 1 + sum(other.high < own.low for other in bounds if other is not None)
        for own in bounds
    ]


@dataclass(frozen=True, eq=False)
class Group:
    """What may be ranked together: one machine's measurements of one model under one load."""

    machine: str
    subject: str
    label: str
    scenario: str
    members: tuple[Figures, ...]

    @cached_property
    def names(self) -> dict[Figures, str]:
        """Targets, with the engine's version where one target was measured in several."""
        often = Counter(str(each.measurement.task.placement) for each in self.members)
        found = {}
        for each in self.members:
            target = str(each.measurement.task.placement)
            versions = ", ".join(f"{name} {version}" for name, version in each.measurement.versions)
            found[each] = f"{target} ({versions})" if often[target] > 1 and versions else target
        return found


def sampled(measurement: Measurement) -> bool:
    return any(r.samples_ns for r in measurement.measured)


def groups(evidence: Evidence) -> list[Group]:
    """In the order of the measurements; those without samples have nothing to show."""
    found: dict[tuple[str, str, str, str], list[Figures]] = defaultdict(list)
    for m in evidence.measurements:
        if sampled(m):
            found[m.machine, m.task.subject, m.label, str(m.task.scenario)].append(figures(m))
    return [
        Group(machine_label(evidence, machine), subject, label, scenario, tuple(members))
        for (machine, subject, label, scenario), members in found.items()
    ]


def machine_label(evidence: Evidence, machine: str) -> str:
    known = evidence.machines.get(machine)
    return known.label if known else machine


def about(group: Group, all_groups: Iterable[Group]) -> str:
    """What tells this group from the others: model, scenario, machine; the model where there is no other."""
    rest = list(all_groups)
    parts: list[tuple[str, Callable[[Group], str]]] = [
        (group.label, lambda g: g.subject + g.label),
        (group.scenario, lambda g: g.scenario),
        (group.machine, lambda g: g.machine),
    ]
    told = [text for text, key in parts if len({key(each) for each in rest}) > 1]
    return ", ".join(told) or group.label
