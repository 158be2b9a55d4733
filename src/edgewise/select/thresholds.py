"""Thresholds of a chain of candidates: of all on a grid, those that cost least and still have enough right."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .table import Flags

Floats = NDArray[np.float64]
# Quantiles of a stage's sureness tried as its threshold, by how many thresholds a chain has: together some ten
# thousand combinations, counted in about a millisecond.
_GRID = {1: 1024, 2: 96, 3: 24, 4: 12}
# Halves of the images that thresholds are searched on, by how much (in log-odds of the share handed on) all are then
# moved, from many to few, and how many neighbours on either side a move is averaged with.
_HALVES = 11
_MOVES = np.arange(4.0, -4.0, -0.03)
_NEIGHBOURS = 8
# Each further look is around the best of the one before, this much closer.
_LOOKS = 3


@dataclass(frozen=True, slots=True)
class Staged:
    """A chain on every image of a table: how sure each stage but the last is, whether each stage's answer is right, and
    what an image costs that ends there."""

    sure: tuple[Floats, ...]
    right: tuple[Flags, ...]
    costs: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Found:
    """`right` is the number of images answered right; `cost` the mean."""

    thresholds: tuple[float, ...]
    cost: float
    right: int


def search(staged: Staged, needed: float, *, looks: int = _LOOKS) -> Found | None:
    """The cheapest with at least `needed` images right, of these the one with most; None where there is none."""
    stages = len(staged.sure)
    if not stages:
        right = int(staged.right[0].sum())
        return Found((), staged.costs[0], right) if right >= needed else None
    size = _GRID.get(stages, 8)
    shares = [np.linspace(0, 1, size) for _ in range(stages)]
    ordered = [np.sort(each) for each in staged.sure]
    best: Found | None = None
    for _ in range(looks):
        edges = [_edges(values, share) for values, share in zip(ordered, shares, strict=True)]
        found = _best(*_sums(staged, edges), edges, needed)
        if found is None:
            break
        if best is None or (found.cost, -found.right) < (best.cost, -best.right):
            best = found
        shares = [
            _around(values, share, threshold)
            for values, share, threshold in zip(ordered, shares, best.thresholds, strict=True)
        ]
    return best


def costs_of(staged: Staged, needs: Sequence[float]) -> list[float | None]:
    """What having so many right costs at the least, by a coarse look: None where it cannot be had."""
    if not staged.sure:
        hits = int(staged.right[0].sum())
        return [staged.costs[0] if hits >= needed else None for needed in needs]
    shares = np.linspace(0, 1, _GRID.get(len(staged.sure), 8))
    edges = [_edges(np.sort(each), shares) for each in staged.sure]
    counts, cost = _sums(staged, edges)
    found = [_best(counts, cost, edges, needed) for needed in needs]
    return [None if each is None else each.cost for each in found]


def steady(staged: Staged, reference: Flags, needed: float) -> Found | None:
    """Thresholds that do not owe their place to a few images: how they stand to each other is the median over random
    halves of the images; then all are moved together as far as leaves enough right, also on the average of their
    neighbours. Searched on all images at once they look better, and are worse on new ones."""
    count = len(reference)
    missing = float(reference.sum()) - needed
    random = np.random.default_rng(0)
    drawn = []
    for _ in range(_HALVES):
        half = np.sort(random.permutation(count)[: max(1, count // 2)])
        part = Staged(
            tuple(sure[half] for sure in staged.sure), tuple(right[half] for right in staged.right), staged.costs
        )
        found = search(part, float(reference[half].sum()) - missing * len(half) / count, looks=2)
        if found is not None:
            drawn.append([float((sure < t).mean()) for sure, t in zip(staged.sure, found.thresholds, strict=True)])
    if not drawn or not staged.sure:
        return search(staged, needed)
    middle = np.clip(np.median(drawn, axis=0), 1 / count, 1 - 1 / count)
    odds = np.log(middle / (1 - middle))[:, None] + _MOVES
    places = np.minimum((count / (1 + np.exp(-odds))).astype(np.int64), count - 1)
    tried = np.stack([np.sort(sure)[place] for sure, place in zip(staged.sure, places, strict=True)], axis=1)
    rights = np.array([float(answered(staged, each).sum()) for each in tried])
    padded = np.pad(rights, _NEIGHBOURS, mode="edge")
    smooth = np.convolve(padded, np.full(2 * _NEIGHBOURS + 1, 1 / (2 * _NEIGHBOURS + 1)), mode="valid")
    fits = np.flatnonzero((rights >= needed) & (smooth >= needed - 1e-6))
    if not len(fits):
        return search(staged, needed)
    chosen = tuple(float(threshold) for threshold in tried[fits[-1]])
    cost = float(np.array(staged.costs)[answered_at(staged, chosen)].mean())
    return Found(chosen, cost, int(rights[fits[-1]]))


def answered_at(staged: Staged, thresholds: Sequence[float]) -> NDArray[np.int64]:
    """The stage at which each image is answered."""
    count = len(staged.right[0])
    passed = [sure < threshold for sure, threshold in zip(staged.sure, thresholds, strict=False)]
    table = np.stack([*passed, np.zeros(count, np.bool_)])
    found: NDArray[np.int64] = table.argmin(axis=0)
    return found


def answered(staged: Staged, thresholds: Sequence[float]) -> Flags:
    """Whether each image is answered right."""
    right = np.stack(staged.right)
    found: Flags = right[answered_at(staged, thresholds), np.arange(right.shape[1])]
    return found


def _edges(ordered: Floats, shares: Floats) -> Floats:
    """Thresholds to try: each answers nothing, everything, or those from a quantile on."""
    places = np.minimum((shares * len(ordered)).astype(np.int64), len(ordered) - 1)
    return np.concatenate([[-np.inf], np.unique(ordered[places]), [np.inf]])


def _around(ordered: Floats, shares: Floats, threshold: float) -> Floats:
    """As many shares, between the neighbours of the one that was best."""
    here = np.searchsorted(ordered, threshold) / len(ordered)
    width = shares[1] - shares[0]
    near: Floats = np.linspace(max(0.0, here - width), min(1.0, here + width), len(shares))
    return near


def _sums(staged: Staged, edges: Sequence[Floats]) -> tuple[Floats, Floats]:
    """How many images every combination has right, and what it costs. Images are counted in the cells between
    thresholds; sums of cells then give all combinations at once."""
    count = len(staged.right[0])
    sizes = [len(each) for each in edges]
    # An image in cell b is answered by thresholds 0 to b: its sureness is at least theirs.
    cells = [np.searchsorted(edge, sure, side="right") - 1 for edge, sure in zip(edges, staged.sure, strict=True)]
    right = np.zeros(sizes)
    cost = np.full(sizes, staged.costs[0])
    place = np.zeros(count, np.int64)
    for stage, (cell, size) in enumerate(zip(cells, sizes, strict=True)):
        shape = sizes[: stage + 1]
        place = place * size + cell
        here = _passed(_counted(place, staged.right[stage], shape), stage)
        # From a threshold's own cell on.
        here = np.flip(np.cumsum(np.flip(here, axis=stage), axis=stage), axis=stage)
        there = _passed(_counted(place, np.ones(count, np.bool_), shape), stage + 1)
        further = (staged.costs[stage + 1] - staged.costs[stage]) / count
        wide = (*shape, *[1] * (len(sizes) - len(shape)))
        right += here.reshape(wide)
        cost += further * there.reshape(wide)
    right += _passed(_counted(place, staged.right[-1], sizes), len(sizes))
    return right, cost


def _best(right: Floats, cost: Floats, edges: Sequence[Floats], needed: float) -> Found | None:
    enough = right >= needed - 1e-6
    if not enough.any():
        return None
    # Of those that cost the same, the one with most right: less than any difference in cost.
    masked = np.where(enough, cost, np.inf)
    cheapest = masked.min()
    tied = np.flatnonzero(masked.ravel() <= cheapest * (1 + 1e-12))
    chosen = int(tied[np.argmax(right.ravel()[tied])])
    indices = np.unravel_index(chosen, right.shape)
    thresholds = tuple(float(edge[index]) for edge, index in zip(edges, indices, strict=True))
    return Found(thresholds, float(cost.ravel()[chosen]), round(float(right.ravel()[chosen])))


def _counted(place: NDArray[np.int64], flags: Flags, shape: Sequence[int]) -> Floats:
    """How many images with the flag are in each cell."""
    return np.bincount(place[flags], minlength=math.prod(shape)).reshape(shape).astype(np.float64)


def _passed(cells: Floats, axes: int) -> Floats:
    """Sums over the cells below each threshold, along the first axes: images that were handed on there."""
    for axis in range(axes):
        cells = np.cumsum(cells, axis=axis) - cells
    return cells
