"""How the inputs of a layer vary together: what tells which of its directions matter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from ...core.errors import InputError
from ...model.graph import Array, Graph, Node
from ..observe import Observe
from ..sums import Sums
from .layer import Layer, Window, window

# Some of each sample, rather than all of few: places of one image resemble each other.
_PLACES = 64
MOST_PATCHES = 16384
# Beyond this many inputs or outputs, their products with each other are too many to keep.
WIDEST = 6144
# Of layers seen in one run: more at once is faster, and takes as much memory.
_MOST_BYTES = 1 << 30


def gram(graph: Graph, node: Node, observe: Observe, most_patches: int = MOST_PATCHES) -> Array:
    """The mean of x xᵀ, x being what one output of the layer reads (a patch, in the order of the weights: channel, then
    kernel) and a last 1: the last row has the means. Of the first samples, until there are `most_patches`."""
    total = _Means(node)
    for rows in _patches(graph, node, observe, most_patches):
        total.add(rows)
    return total.own()


def gather(
    graph: Graph, layers: Sequence[Layer], observe: Observe, most_patches: int = MOST_PATCHES
) -> Iterator[tuple[Layer, Array]]:
    """`gram` of each of many layers, several in one run of the network. Of a layer that reads too much at once it is
    that of the products with its weights, which its outputs are but for the bias."""
    for group in _groups(layers):
        readers = [_Reader(graph, layer.node, most_patches) for layer in group]
        totals = [_Means(layer.node) for layer in group]
        for values in observe(graph, list(dict.fromkeys(layer.node.inputs[0] for layer in group))):
            for layer, reader, total in zip(group, readers, totals, strict=True):
                if reader.left > 0:
                    rows = reader.rows(values)
                    total.add(rows @ layer.matrix.T if wide(layer) else rows)
            if not any(reader.left > 0 for reader in readers):
                break
        for layer in group:
            # Given away one by one: they are large.
            yield layer, totals.pop(0).own()


def mixed(
    graph: Graph, other: Graph, node: Node, observe: Observe, most_patches: int = MOST_PATCHES
) -> tuple[Array, Array]:
    """The mean of z xᵀ, x being what the layer reads in `graph` and z what it reads in `other` at the same place of the
    same sample; and that of x xᵀ."""
    total = _Means(node)
    theirs, ours = (_patches(each, node, observe, most_patches) for each in (other, graph))
    for z, x in zip(theirs, ours, strict=True):
        total.add(x, z)
    return total.crossed(), total.own()


def wide(layer: Layer) -> bool:
    """Whether it reads too much at once."""
    return bool(layer.matrix.shape[1] > WIDEST)


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


def _groups(layers: Sequence[Layer]) -> Iterator[list[Layer]]:
    group: list[Layer] = []
    size = 0
    for layer in layers:
        needs = 8 * layer.matrix.shape[0 if wide(layer) else 1] ** 2
        if group and size + needs > _MOST_BYTES:
            yield group
            group, size = [], 0
        group.append(layer)
        size += needs
    if group:
        yield group


class _Reader:
    """What a layer reads, batch by batch; the same places of the same samples each time."""

    def __init__(self, graph: Graph, node: Node, most: int) -> None:
        self._name = node.inputs[0]
        self._window = window(graph, node) if node.operator == "Conv" else None
        self._chance = np.random.default_rng(0)
        self.left = most

    def rows(self, values: Mapping[str, Array]) -> Array:
        given = values[self._name].astype(np.float32, copy=False)
        if self._window is not None:
            rows = patches(given, self._window, self._chance)
        else:
            given = given.reshape(len(given), -1, given.shape[-1])
            rows = given[_chosen(*given.shape[:2], self._chance)]
        rows = rows[: self.left]
        self.left -= len(rows)
        return rows


def _patches(graph: Graph, node: Node, observe: Observe, most: int) -> Iterator[Array]:
    reader = _Reader(graph, node, most)
    for values in observe(graph, [node.inputs[0]]):
        yield reader.rows(values)
        if reader.left <= 0:
            return


class _Means:
    """Of products of what a layer reads with itself, and with what another reads; both with a last 1."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._sums: Sums | None = None

    def add(self, rows: Array, others: Array | None = None) -> None:
        if self._sums is None:
            self._sums = Sums(rows.shape[1], 0 if others is None else others.shape[1])
        self._sums.add(rows, others)

    def own(self) -> Array:
        return self._mean(self._seen.gram)

    def crossed(self) -> Array:
        return self._mean(np.concatenate([self._seen.cross, self._seen.gram[-1:]]))

    @property
    def _seen(self) -> Sums:
        if self._sums is None:
            raise InputError(f"there are no samples to see {self._node.name!r} at work on")
        return self._sums

    def _mean(self, total: Array) -> Array:
        if not np.isfinite(total).all():
            raise InputError(f"what {self._node.name!r} reads on these samples is not finite")
        return np.asarray(total / self._seen.count)
