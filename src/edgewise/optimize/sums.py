"""How features vary together, with each other and with targets: sums of products over many rows."""

from __future__ import annotations

import numpy as np

from ..model.graph import Array

# Summed in single precision, then added to the rest in double.
CHUNK = 4096


class Sums:
    """Products of features with features and with targets, summed over rows; a 1 is the last feature."""

    def __init__(self, features: int, targets: int = 0) -> None:
        self._gram = np.zeros((features + 1, features + 1))
        self._cross = np.zeros((targets, features + 1))
        self._waiting: list[tuple[Array, Array]] = []

    def add(self, x: Array, t: Array | None = None) -> None:
        t = np.empty((len(x), len(self._cross)), np.float32) if t is None else t
        self._waiting.append((x, t))
        if sum(len(each) for each, _ in self._waiting) >= CHUNK:
            self._flush()

    def _flush(self) -> None:
        if not self._waiting:
            return
        x, t = (np.concatenate(each).astype(np.float32, copy=False) for each in zip(*self._waiting, strict=True))
        self._waiting = []
        for begin in range(0, len(x), CHUNK):
            part, those = x[begin : begin + CHUNK], t[begin : begin + CHUNK]
            # The mean is taken out first: squares of what is large and hardly varies would drown the rest.
            middle, mean = part.mean(axis=0, dtype=np.float64), those.mean(axis=0, dtype=np.float64)
            part = part - middle.astype(np.float32)
            each = np.append(middle, 1.0)
            self._gram[:-1, :-1] += part.T @ part
            self._gram += np.outer(len(part) * each, each)
            if len(self._cross):
                self._cross[:, :-1] += (those - mean.astype(np.float32)).T @ part
                self._cross += np.outer(len(part) * mean, each)

    @property
    def gram(self) -> Array:
        """Of every feature with every feature."""
        self._flush()
        return self._gram

    @property
    def cross(self) -> Array:
        """Of every target with every feature."""
        self._flush()
        return self._cross

    @property
    def count(self) -> int:
        return round(float(self.gram[-1, -1]))

    @property
    def means(self) -> Array:
        """Of the features."""
        found: Array = self.gram[-1, :-1] / max(1, self.count)
        return found

    def products(self, centred: bool) -> Array:
        """The mean product of every feature with every feature; `centred`: of what they are off their means."""
        found: Array = self.gram[:-1, :-1] / max(1, self.count)
        return found - np.outer(self.means, self.means) if centred else found
