"""What layers see and make while a network works: sums of products over many places of many samples."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from ...model.graph import Array, Graph
from ..observe import Observe
from .linear import Linear, patches

# Rows of features looked at for a layer: these many, or these many times its features, whichever are more.
ROWS = 20_000
_ROWS_PER_FEATURE = 6
# Summed in single precision, then added to the rest in double.
_CHUNK = 4096
_GOLDEN = (math.sqrt(5) - 1) / 2


class Sums:
    """Products of features with features and with targets, summed over rows; a 1 is the last feature."""

    def __init__(self, features: int, targets: int = 0, gram: Array | None = None) -> None:
        """`gram`: that of the same rows, if it is known already."""
        self._known = gram is not None
        self._gram = np.zeros((features + 1, features + 1)) if gram is None else gram
        self._cross = np.zeros((targets, features + 1))
        self._waiting: list[tuple[Array, Array]] = []

    def add(self, x: Array, t: Array | None = None) -> None:
        t = np.empty((len(x), len(self._cross)), np.float32) if t is None else t
        self._waiting.append((x, t))
        if sum(len(each) for each, _ in self._waiting) >= _CHUNK:
            self._flush()

    def _flush(self) -> None:
        if not self._waiting:
            return
        x, t = (np.concatenate(each).astype(np.float32, copy=False) for each in zip(*self._waiting, strict=True))
        self._waiting = []
        for begin in range(0, len(x), _CHUNK):
            part, those = x[begin : begin + _CHUNK], t[begin : begin + _CHUNK]
            # The mean is taken out first: squares of what is large and hardly varies would drown the rest.
            middle, mean = part.mean(axis=0, dtype=np.float64), those.mean(axis=0, dtype=np.float64)
            part = part - middle.astype(np.float32)
            each = np.append(middle, 1.0)
            if not self._known:
                self._gram[:-1, :-1] += part.T @ part
                self._gram += len(part) * np.outer(each, each)
            if len(self._cross):
                self._cross[:, :-1] += (those - mean.astype(np.float32)).T @ part
                self._cross += len(part) * np.outer(mean, each)

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


def held(products: Array, ridge: float) -> Array:
    """The products with `ridge` of the mean square added to every square, for what the rows did not show."""
    found = products.copy()
    found[np.diag_indices_from(found)] += ridge * max(float(np.trace(found)) / len(found), 1e-30)
    return found


def places(samples: int, first: int, shape: Sequence[int], each: int) -> Array:
    """Where to look in the outputs of samples `first` and on, whose `shape` is that without sample and channel: `each`
    places in every sample, always the same ones for the same sample, evenly over all. A row each: sample, then where.
    """
    size = math.prod(shape)
    if 2 * each >= size:
        chosen = np.tile(np.arange(size), (samples, 1))
    else:
        turns = (first + np.arange(samples))[:, None] * each + np.arange(each)
        chosen = np.floor(np.modf(turns * _GOLDEN)[0] * size).astype(np.int64)
    where = np.unravel_index(chosen.reshape(-1), tuple(shape)) if shape else ()
    sample = np.repeat(np.arange(samples), chosen.shape[1])
    return np.stack([sample, *where], axis=1)


def per_sample(features: int, samples: int, least: int = ROWS) -> int:
    """Places to look at in each sample, for rows enough in all."""
    return max(1, math.ceil(max(least, _ROWS_PER_FEATURE * features) / max(1, samples)))


def seen(
    graph: Graph, observe: Observe, layers: Sequence[Linear], samples: int, least: int = ROWS
) -> Mapping[str, Sums]:
    """Sums over what each layer sees in about `samples` samples, by the name of its node."""
    found = {layer.node.name: Sums(layer.weights.shape[1]) for layer in layers}
    names = sorted({name for layer in layers for name in (layer.node.inputs[0], layer.node.outputs[0])})
    first = 0
    for batch in observe(graph, names):
        count = len(batch[names[0]])
        for layer in layers:
            x, y = batch[layer.node.inputs[0]], batch[layer.node.outputs[0]]
            at = places(count, first, y.shape[2:], per_sample(layer.weights.shape[1], samples, least))
            found[layer.node.name].add(patches(layer, x, at))
        first += count
    return found
