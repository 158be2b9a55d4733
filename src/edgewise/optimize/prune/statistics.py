"""What layers see while a network works: places to look at, and sums of products over all of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from ...model.graph import Array, Graph
from ..observe import Observe
from ..sums import Sums
from .linear import Linear, patches

# Rows of features looked at for a layer: these many, or these many times its features, whichever are more.
ROWS = 20_000
_ROWS_PER_FEATURE = 6
_GOLDEN = (math.sqrt(5) - 1) / 2


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
    found = {layer.name: Sums(layer.weights.shape[1]) for layer in layers}
    names = sorted({name for layer in layers for name in (layer.node.inputs[0], layer.node.outputs[0])})
    first = 0
    for batch in observe(graph, names):
        count = len(batch[names[0]])
        for layer in layers:
            x, y = batch[layer.node.inputs[0]], batch[layer.node.outputs[0]]
            at = places(count, first, y.shape[2:], per_sample(layer.weights.shape[1], samples, least))
            found[layer.name].add(patches(layer, x, at))
        first += count
    return found
