"""What every candidate answered to every image, and what asking it costs: policies are fitted and replayed on this."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from ..core.choice import Candidate, Company

Scores = NDArray[np.float32]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Table:
    """`scores` has, for each candidate, a row of logarithms of probabilities for each image (exponentials of a row
    add up to one), in the order of the data's classes. `features` and `thumbnails` have a row for each image, where
    needed; `looking_ns` is what a family of features takes for one image."""

    candidates: tuple[Candidate, ...]
    labels: NDArray[np.int64]
    scores: tuple[Scores, ...]
    features: NDArray[np.float64] | None = None
    # In bytes: as numbers like the others they would be larger than all scores.
    thumbnails: NDArray[np.uint8] | None = None
    looking_ns: Mapping[str, float] = field(default_factory=dict)
    # What they take beyond that where they run in turns, None where that was not measured.
    company: Company | None = None

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def classes(self) -> int:
        return int(self.scores[0].shape[1])

    def rows(self, places: Sequence[int] | NDArray[np.int64]) -> Table:
        """The same of some images, in the order of `places`."""
        chosen = np.asarray(places, np.int64)
        features = None if self.features is None else self.features[chosen]
        thumbnails = None if self.thumbnails is None else self.thumbnails[chosen]
        scores = tuple(each[chosen] for each in self.scores)
        return replace(self, labels=self.labels[chosen], scores=scores, features=features, thumbnails=thumbnails)

    def look(self, row: int) -> NDArray[np.float64] | None:
        """What one image looks like, as it is extracted: features, and the thumbnail behind them."""
        if self.features is None or self.thumbnails is None:
            return None if self.features is None else self.features[row]
        return np.concatenate((self.features[row], self.thumbnails[row]))

    def right(self, top: int = 1) -> Flags:
        """Whether candidate m (column) has the label of image x (row) among its `top` first; ties go to the lower
        class."""
        return np.stack([hits(each, self.labels, top) for each in self.scores], axis=1)

    def costs(self, ran: Flags, objective: str = "time") -> NDArray[np.float64]:
        """What each image (row of `ran`) costs where those candidates were asked. An image is prepared once for all
        candidates that take it alike."""
        own = np.array([candidate.cost(objective) for candidate in self.candidates])
        total: NDArray[np.float64] = ran @ own
        if objective == "time":
            for how in dict.fromkeys(candidate.preprocess for candidate in self.candidates):
                alike = [place for place, each in enumerate(self.candidates) if each.preprocess == how]
                total = total + ran[:, alike].any(axis=1) * self.candidates[alike[0]].prepare_ns
        return total


def hits(scores: Scores, labels: NDArray[np.int64], top: int = 1) -> Flags:
    """Whether each row's label is among its `top` largest; ties go to the lower class, as in `measure.answering`."""
    own = np.take_along_axis(scores, labels[:, None], axis=1)
    places = np.arange(scores.shape[1])
    before = (scores > own) | ((scores == own) & (places < labels[:, None]))
    answered = np.isfinite(own[:, 0])
    found: Flags = (before.sum(axis=1) < top) & answered
    return found
