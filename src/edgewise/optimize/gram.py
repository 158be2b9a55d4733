"""How the inputs of a layer vary together: what tells which of its directions matter."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from ..core.errors import InputError
from ..model.graph import Array, Graph, Node
from .layer import Window, window
from .observe import Observe

# Some of each sample, rather than all of few: places of one image resemble each other.
_PLACES = 64
MOST_PATCHES = 16384


def gram(graph: Graph, node: Node, observe: Observe, most_patches: int = MOST_PATCHES) -> Array:
    """The mean of x xᵀ, x being what one output of the layer reads (a patch, in the order of the weights: channel, then
    kernel) and a last 1: the last row has the means. Of the first samples, until there are `most_patches`."""
    return _mean(((rows, rows) for rows in _patches(graph, node, observe, most_patches)), node)


def grams(graph: Graph, other: Graph, node: Node, observe: Observe, most_patches: int = MOST_PATCHES) -> Array:
    """The mean of z xᵀ, x being what the layer reads in `graph` and z what it reads in `other`, and then x again:
    [2, inputs + 1, inputs + 1], mixed first."""
    pairs = zip(_patches(other, node, observe, most_patches), _patches(graph, node, observe, most_patches), strict=True)
    return _mean(((np.stack([z, x]), x) for z, x in pairs), node)


def answers(graph: Graph, node: Node, weights: Array, observe: Observe, most_patches: int = MOST_PATCHES) -> Array:
    """`gram` of the products with the weights [made, inputs] instead of what goes into them: for layers that read too
    much at once."""
    seen = (rows[:, :-1] @ weights.T for rows in _patches(graph, node, observe, most_patches))
    return _mean(((rows, rows) for rows in map(_one, seen)), node)


def patches(values: Array, of: Window, chance: np.random.Generator) -> Array:
    """Some of the patches a convolution reads in values [samples, channels, *space], one per row."""
    axes = len(of.kernel)
    margins = [(0, 0), (0, 0), *zip(of.before, of.after, strict=True)]
    extents = tuple(dilation * (k - 1) + 1 for dilation, k in zip(of.dilations, of.kernel, strict=True))
    view = sliding_window_view(np.pad(values, margins), extents, tuple(range(2, 2 + axes)))
    steps = (*(slice(None, None, each) for each in of.strides), *(slice(None, None, each) for each in of.dilations))
    view = np.moveaxis(view[(slice(None), slice(None), *steps)], 1, 1 + axes)
    sample, place = _chosen(len(values), int(np.prod(view.shape[1 : 1 + axes])), chance)
    at = np.unravel_index(place, view.shape[1 : 1 + axes])
    found: Array = view[(sample, *at)]
    return found.reshape(len(found), -1)


def _chosen(samples: int, places: int, chance: np.random.Generator) -> tuple[Array, Array]:
    if places <= _PLACES:
        at = np.tile(np.arange(places), (samples, 1))
    else:
        at = chance.integers(0, places, (samples, _PLACES))
    return np.repeat(np.arange(samples), at.shape[1]), at.reshape(-1)


def _patches(graph: Graph, node: Node, observe: Observe, most: int) -> Iterator[Array]:
    chance = np.random.default_rng(0)
    of = window(graph, node) if node.operator == "Conv" else None
    left = most
    for values in observe(graph, [node.inputs[0]]):
        given = values[node.inputs[0]].astype(np.float32, copy=False)
        if of is not None:
            rows = patches(given, of, chance)
        else:
            given = given.reshape(len(given), -1, given.shape[-1])
            rows = given[_chosen(*given.shape[:2], chance)]
        yield _one(rows[:left])
        left -= len(rows)
        if left <= 0:
            return


def _one(rows: Array) -> Array:
    return np.concatenate([rows, np.ones((len(rows), 1), rows.dtype)], axis=1)


def _mean(pairs: Iterator[tuple[Array, Array]], node: Node) -> Array:
    total: Array | None = None
    count = 0
    for left, right in pairs:
        # A batch in single precision, the sum of many in double.
        product = np.swapaxes(left, -1, -2) @ right
        total = product.astype(np.float64) if total is None else np.add(total, product, out=total)
        count += len(right)
    if total is None:
        raise InputError(f"there are no samples to see {node.name!r} at work on")
    if not np.isfinite(total).all():
        raise InputError(f"what {node.name!r} reads on these samples is not finite")
    return total / count
