"""What choosing a model for each input is about: the candidates, what was chosen, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass

from .types import Target


@dataclass(frozen=True, slots=True)
class Candidate:
    """A model on a target. `run_ns` is what one prepared image takes until its scores are there, run after run, and
    `prepare_ns` what making an image its input takes; `energy_uj` is None where nothing measured it."""

    label: str
    model: str
    target: Target
    preprocess: str
    run_ns: float
    prepare_ns: float
    memory_bytes: int | None = None
    energy_uj: float | None = None

    @property
    def name(self) -> str:
        return f"{self.label} on {self.target}"

    def cost(self, objective: str) -> float:
        """Of one image: `time` in nanoseconds without preparing, `energy` in microjoules, `memory` in bytes."""
        found = {"time": self.run_ns, "energy": self.energy_uj, "memory": self.memory_bytes}[objective]
        if found is None:
            raise ValueError(f"the {objective} of {self.name} was not measured")
        return float(found)


@dataclass(frozen=True, slots=True)
class Company:
    """Candidates in one process: how much longer each (row) runs after each other one (column) than after itself
    (`after_ns`), and after some smaller ones together (`since_ns`); what one stage of each kind of policy with stages
    takes to decide; and how many times longer deciding takes after a model ran than over and over."""

    after_ns: tuple[tuple[float, ...], ...]
    deciding_ns: dict[str, float]
    cold: float = 1.0
    since_ns: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Guarantee:
    """With probability 1 - `delta` over the draw of the `images` it was shown on, the policy loses at most `epsilon` of
    the reference's right answers on further images like them, by the bound called `method`. `images` is 0 where nothing
    had to be shown: the reference answers everything."""

    epsilon: float
    delta: float
    images: int
    method: str


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure with its 95 % interval."""

    low: float
    value: float
    high: float


@dataclass(frozen=True, slots=True)
class Spot:
    """A place in the plane of cost and accuracy."""

    cost: float
    accuracy: float


@dataclass(frozen=True, slots=True)
class Method:
    """One way of choosing, on images it was not fitted on. `cost` is in the objective's unit per image.

    Against the best single candidate, chosen in the same training folds: `difference` of accuracy, `ratio` of cost, `p`
    of McNemar's test, and `gap_closed`, the share of what the oracle is more accurate by. Against mixing single
    candidates at random: `hull_ratio`, its cost over that of the mix as accurate (None where no mix is), and
    `over_hull`, how much more accurate it is than the mix of its cost.

    `asked` and `answered` have a share of the images for each candidate; what is missing from all of `answered` was
    `refused`, which counts as wrong. `overhead_ns` is what features and deciding take of an image's time. Whatever was
    to be saved, `energy_uj` is what the models asked take for an image on average, and `memory_bytes` what all that may
    be asked hold; None where that is not known of every candidate.
    """

    name: str
    kind: str
    accuracy: Estimate
    cost: Estimate
    difference: Estimate
    ratio: Estimate
    p: float
    gap_closed: float | None
    hull_ratio: float | None
    over_hull: float
    precision: float
    recall: float
    f1: float
    asked: tuple[float, ...]
    answered: tuple[float, ...]
    refused: float
    overhead_ns: float
    energy_uj: float | None = None
    memory_bytes: float | None = None


@dataclass(frozen=True, slots=True)
class Selection:
    """Every method on the same held-out images. `singles` has each candidate by itself, in their order; `best` is how
    often each was the best of the training folds; `hull` goes from the cheapest to the most accurate. `max_loss` is how
    much methods were allowed to lose when they were fitted. `calibration` has for each candidate how far its confidence
    is off (the expected calibration error), as it is, and at the temperature under which labels of other images are
    likeliest."""

    candidates: tuple[str, ...]
    objective: str
    top: int
    images: int
    folds: int
    seed: int
    best: tuple[int, ...]
    reference: Method
    singles: tuple[Method, ...]
    methods: tuple[Method, ...]
    oracle: Method
    hull: tuple[Spot, ...]
    max_loss: float = 0.0
    calibration: tuple[tuple[float, float], ...] = ()
