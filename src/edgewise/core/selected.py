"""What came of choosing a model for each input, as it is kept and drawn: every method, the paper's premodel looked
into, and the policy run live."""

from __future__ import annotations

from dataclasses import dataclass

from .choice import Method, Selection
from .chooser import Live


@dataclass(frozen=True, slots=True)
class Round:
    """A step of choosing which candidates take part: the one taken, and how many of the images that nobody before has
    right each candidate has right."""

    taken: int
    right: tuple[float, ...]
    images: int


@dataclass(frozen=True, slots=True)
class Tried:
    """The premodel in one form: so many candidates, or so many features. Costs are of an image: their mean, and the
    least and the most of any."""

    count: int
    accuracy: float
    cost: float
    least: float
    most: float


@dataclass(frozen=True, slots=True)
class Looked:
    """The premodel looked into. On all images: how often each candidate is the cheapest that is right, who takes part
    and why, what accuracy each feature is worth. On images held out: other techniques in its place, and what more
    candidates and more features do."""

    optimal: tuple[float, ...]
    rounds: tuple[Round, ...]
    importance: tuple[tuple[str, float], ...]
    techniques: tuple[Method, ...]
    by_candidates: tuple[Tried, ...]
    by_features: tuple[Tried, ...]


@dataclass(frozen=True, slots=True)
class Selected:
    """`name` is what the candidates are called together, `data` what they were asked about."""

    name: str
    machine: str
    data: str
    selection: Selection
    looked: Looked | None = None
    live: Live | None = None

    @property
    def key(self) -> str:
        """Everything that makes it another question: candidates by their whole names, with targets and precisions."""
        asked = self.selection
        parts = (*asked.candidates, self.machine, self.data, asked.objective, asked.top, f"{asked.max_loss:g}")
        return "|".join(str(part) for part in parts)
