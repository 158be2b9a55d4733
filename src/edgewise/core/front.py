"""What was made of a model, recipe by recipe: how much quicker and smaller it is, and what that costs in answers."""

from __future__ import annotations

from dataclasses import dataclass

from .stats import Discordance

AS_IT_IS = "none"
# What is quicker or smaller by less than this is the same.
SAME = 0.02


@dataclass(frozen=True, slots=True)
class Answered:
    """How many answers are right, and who of the model as it is (first) and this one (second) has which."""

    right: int
    pair: Discordance

    @property
    def top1(self) -> float:
        return self.right / self.pair.count

    @property
    def loss(self) -> float:
        """The share of answers lost; below zero where it answers better."""
        return -self.pair.difference

    @property
    def interval(self) -> tuple[float, float]:
        low, high = self.pair.interval
        return -high, -low

    def bound(self, images: int) -> float:
        """The upper end of the 95 % interval, were it the same on so many images."""
        scale = images / self.pair.count
        first, second = (round(count * scale) for count in (self.pair.only_first, self.pair.only_second))
        return -Discordance(first, second, images).interval[0]


@dataclass(frozen=True, slots=True)
class Point:
    """One recipe. `ratio` is its latency over that of the model as it is, on the same engine in turns: low, estimate
    and high of 95 %. `decided` is on the images that decisions rest on, `reported` on others, not looked at before.
    `error` is how far outputs are off on calibration inputs, beside how large they are. `reason`: why there is no more;
    `hint`: what would help.
    """

    recipe: str
    subject: str = ""
    weight_bytes: int | None = None
    multiply_adds: int | None = None
    memory_bytes: int | None = None
    error: float | None = None
    p50_ns: float | None = None
    ratio: tuple[float, float, float] | None = None
    decided: Answered | None = None
    reported: Answered | None = None
    reason: str = ""
    hint: str | None = None

    @property
    def loss(self) -> float:
        """As far as is known: 0 where there are no labels."""
        found = self.reported or self.decided
        return found.loss if found else 0.0


@dataclass(frozen=True, slots=True)
class Layer:
    """What quantizing one layer alone does to the outputs: their squared error beside their variance, and how far the
    probabilities of classes move, where there are some."""

    name: str
    mse: float
    kl: float | None


@dataclass(frozen=True, slots=True)
class Front:
    """Every point there is. `chosen` is the recipe asked for, or the quickest that loses no more than allowed; where
    nothing gains, that is the model as it is."""

    subject: str
    label: str
    machine: str
    target: str
    points: tuple[Point, ...]
    chosen: str | None = None
    data: str = ""
    # Images kept for the end, which nothing is decided on.
    held_images: int = 0
    max_loss: float | None = None
    max_weight_bytes: int | None = None
    max_p50_ns: float | None = None
    max_memory_bytes: int | None = None
    layers: tuple[Layer, ...] = ()
    note: str = ""
    # Why layers could not be looked at one by one, and what would help.
    unseen: str = ""
    hint: str | None = None
    # Whether 8 bits were fitted to inputs that were made up.
    noise: bool = False

    @property
    def key(self) -> str:
        return f"{self.subject}|{self.machine}|{self.target}|{self.data}"

    def allowed(self, point: Point) -> bool:
        """Whether a point is likely to do all that was asked, as far as the images say that decisions rest on."""
        return not point.reason and point.ratio is not None and self.accurate(point) and self.fits(point)

    def accurate(self, point: Point) -> bool:
        if self.max_loss is None or point.recipe == AS_IT_IS:
            return True
        return point.decided is not None and point.decided.bound(self.held_images) <= self.max_loss

    def fits(self, point: Point) -> bool:
        return self.small(point) and self.lean(point) and self.quick(point)

    def small(self, point: Point) -> bool:
        return self.max_weight_bytes is None or _weight(point) <= self.max_weight_bytes

    def lean(self, point: Point) -> bool:
        """Whether the whole process takes no more memory than it may."""
        most = self.max_memory_bytes
        return most is None or (point.memory_bytes is not None and point.memory_bytes <= most)

    def quick(self, point: Point) -> bool:
        return self.max_p50_ns is None or (point.p50_ns is not None and point.p50_ns <= self.max_p50_ns)

    @property
    def as_it_is(self) -> Point | None:
        return next((point for point in self.points if point.recipe == AS_IT_IS), None)

    def gains(self, point: Point) -> bool:
        """Whether a recipe makes the model quicker, beyond chance; or smaller, and not slower."""
        before = self.as_it_is
        if before is None or point.ratio is None or point.recipe == AS_IT_IS:
            return False
        low, estimate, high = point.ratio
        smaller = _weight(point) < _weight(before) * (1 - SAME)
        return (high < 1 and estimate < 1 - SAME) or (smaller and low <= 1)

    @property
    def best(self) -> Point | None:
        """The quickest of those allowed; of those that cannot be told apart from it, the smallest. What gains nothing
        is none of them where the model as it is does all that was asked."""
        fitting = [point for point in self.points if self.allowed(point)]
        before = self.as_it_is
        if before in fitting:
            fitting = [point for point in fitting if point is before or self.gains(point)]
        quickest = min(fitting, key=_estimate, default=None)
        if quickest is None or quickest.ratio is None:
            return None
        limit = quickest.ratio[2]
        close = [point for point in fitting if _estimate(point) <= limit]
        return min(close, key=lambda point: (_weight(point), _estimate(point)))

    @property
    def pareto(self) -> tuple[Point, ...]:
        """Those that no other is both quicker and better than, the quickest first."""
        known = [point for point in self.points if point.ratio is not None and not point.reason]
        found: list[Point] = []
        for point in sorted(known, key=lambda point: (_estimate(point), point.loss)):
            if all(point.loss < each.loss for each in found):
                found.append(point)
        return tuple(found)


def _estimate(point: Point) -> float:
    assert point.ratio is not None
    return point.ratio[1]


def _weight(point: Point) -> float:
    return float("inf") if point.weight_bytes is None else point.weight_bytes
