"""A small convolutional network for yes or no, on a thumbnail: three stages, each a convolution of 3 × 3 pixels and
the largest of 2 × 2, then one sum. In numpy, since a premodel is fitted where there may be no other library.

What goes from stage to stage has a row for each channel and pixel, a column for each image, and a last row of zeros: it
is what a convolution sees beyond the border. So a convolution is rows looked up and one matrix product, forwards and
backwards, for one image or many.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.errors import InputError
from .features.reduce import PIXELS, THUMB
from .table import Flags

Thumbnails = NDArray[Any]  # a row for each image, from 0 to 255: bytes, or as numbers
Floats = NDArray[Any]  # of 32 bits; of 64 where gradients are checked
Places = NDArray[np.intp]

# Of the thumbnail, then after each stage.
CHANNELS = (3, 8, 16, 16)
STAGES = len(CHANNELS) - 1
_LAST = CHANNELS[-1] * (THUMB >> STAGES) ** 2
SHAPES: tuple[tuple[int, ...], ...] = (
    *(shape for old, new in pairwise(CHANNELS) for shape in ((new, 9 * old), (new,))),
    (_LAST,),
    (1,),
)
NAMES = tuple(f"{kind}{layer}" for layer in range(STAGES + 1) for kind in ("weights", "biases"))
# So many images at a time, and every image so often, but in so many steps at least, and at most: about a second.
BATCH = 64
EPOCHS = 10
FEWEST, MOST = 60, 300
# Adam's (Kingma and Ba, 2015), the rate falling to nothing along half a cosine.
_RATE, _FIRST, _SECOND, _SMALL = 3e-3, 0.9, 0.999, 1e-8


@dataclass(frozen=True, slots=True)
class Network:
    """Weights and biases of each layer, in turn."""

    layers: tuple[Floats, ...]

    def answers(self, thumbnails: Thumbnails) -> Flags:
        """One by one: taken together they would be rounded otherwise than each by itself."""
        return np.array([self.sure(image) > 0 for image in thumbnails], np.bool_)

    def sure(self, thumbnail: Thumbnails) -> float:
        """The logarithm of the odds that this one's answer is yes."""
        values = values_of(thumbnail[None], np.float32)
        for stage in range(STAGES):
            weights, biases = self.layers[2 * stage : 2 * stage + 2]
            values, _, _ = _forwards(stage, weights, biases, values)
        return float(self.layers[-2] @ values[:-1, 0]) + float(self.layers[-1][0])

    def arrays(self) -> Mapping[str, NDArray[Any]]:
        return dict(zip(NAMES, self.layers, strict=True))


def values_of(thumbnails: Thumbnails, kind: type[np.floating[Any]]) -> Floats:
    """From -1 to 1, turned: what the first stage takes."""
    values = np.zeros((PIXELS + 1, len(thumbnails)), kind)
    values[:-1] = thumbnails.T
    values[:-1] *= kind(1 / 127.5)
    values[:-1] -= kind(1)
    return values


def train(thumbnails: Thumbnails, yes: Flags, *, seed: int = 0) -> Network:
    """The same for the same images, in the same order."""
    random = np.random.default_rng(seed)
    layers = beginning(random, yes)
    first = [np.zeros_like(each) for each in layers]
    second = [np.zeros_like(each) for each in layers]
    values = values_of(thumbnails, np.float32)
    steps = min(MOST, max(FEWEST, EPOCHS * len(yes) // BATCH))
    for step, drawn in zip(range(steps), _batches(len(yes), random), strict=False):
        rate = _RATE * 0.5 * (1 + math.cos(math.pi * step / steps))
        slopes, _ = gradients(layers, values.take(drawn, axis=1), yes[drawn])
        scale = rate * math.sqrt(1 - _SECOND ** (step + 1)) / (1 - _FIRST ** (step + 1))
        for layer, slope in enumerate(slopes):
            first[layer] += (1 - _FIRST) * (slope - first[layer])
            second[layer] += (1 - _SECOND) * (slope * slope - second[layer])
            layers[layer] -= scale * first[layer] / (np.sqrt(second[layer]) + _SMALL)
    return Network(tuple(layers))


def beginning(random: np.random.Generator, yes: Flags) -> list[Floats]:
    """Weights as He and others (2015) draw them; the last bias is how often the answer is yes, so that a level with few
    images of its own does not begin by claiming half of all."""
    layers: list[Floats] = []
    for weights, biases in zip(SHAPES[::2], SHAPES[1::2], strict=True):
        drawn = math.sqrt(2 / weights[-1]) * random.standard_normal(weights)
        layers += [drawn.astype(np.float32), np.zeros(biases, np.float32)]
    ones = int(yes.sum())
    layers[-1][0] = math.log((ones + 0.5) / (len(yes) - ones + 0.5))
    return layers


def gradients(layers: Sequence[Floats], values: Floats, yes: Flags) -> tuple[list[Floats], float]:
    """Of the mean logistic loss, by each layer, and that."""
    seen = []
    for stage in range(STAGES):
        values, columns, four = _forwards(stage, layers[2 * stage], layers[2 * stage + 1], values)
        seen.append((columns, four, values))
    sure = layers[-2] @ values[:-1] + layers[-1][0]
    loss = float(np.logaddexp(0, np.where(yes, -sure, sure)).mean())
    off = ((0.5 * (1 + np.tanh(0.5 * sure)) - yes) / len(yes)).astype(values.dtype)
    slopes: list[Floats] = [values[:-1] @ off, off.sum(keepdims=True)]
    back = layers[-2][:, None] * off
    for stage in reversed(range(STAGES)):
        back, weights, biases = _backwards(stage, layers[2 * stage], *seen[stage], back)
        slopes[:0] = [weights, biases]
    return slopes, loss


def _forwards(stage: int, weights: Floats, biases: Floats, values: Floats) -> tuple[Floats, Floats, Floats]:
    """What comes out, and on the way to it: what the weights were multiplied with, and the products of each four pixels
    of which the largest goes on."""
    size, images = (THUMB >> stage) ** 2, values.shape[1]
    columns = values.take(_around(stage), axis=0).reshape(-1, size * images)
    four = _product(weights, columns, images).reshape(len(weights), 4, -1)
    after = np.zeros((len(weights) * size // 4 + 1, images), values.dtype)
    most = after[:-1].reshape(len(weights), -1)
    np.add(np.maximum.reduce(four, axis=1), biases[:, None], out=most)
    np.maximum(most, 0, out=most)
    return after, columns, four


def _backwards(
    stage: int, weights: Floats, columns: Floats, four: Floats, after: Floats, back: Floats
) -> tuple[Floats, Floats, Floats]:
    """From how the loss changes with what came out, `back`, to how it does with what went in, weights and biases."""
    size, images = (THUMB >> stage) ** 2, after.shape[1]
    most = (back * (after[:-1] > 0)).reshape(len(weights), -1)
    slopes = np.zeros((len(weights) * size + 1, images), after.dtype)
    each = slopes[:-1].reshape(four.shape)
    # Of four alike the first one counts, and it alone.
    upper, lower = np.maximum(four[:, 0], four[:, 1]), np.maximum(four[:, 2], four[:, 3])
    above = np.where(upper >= lower, most, 0)
    below = most - above
    each[:, 0] = np.where(four[:, 0] >= four[:, 1], above, 0)
    each[:, 1] = above - each[:, 0]
    each[:, 2] = np.where(four[:, 2] >= four[:, 3], below, 0)
    each[:, 3] = below - each[:, 2]
    parted = each.reshape(len(weights), images, -1).swapaxes(0, 1)
    own = np.matmul(parted, columns.reshape(len(columns), images, -1).transpose(1, 2, 0)).sum(axis=0)
    if not stage:
        return back[:0], own, most.sum(axis=1)
    turned = weights.reshape(len(weights), -1, 3, 3)[:, :, ::-1, ::-1].swapaxes(0, 1).reshape(CHANNELS[stage], -1)
    behind = _product(turned, slopes.take(_behind(stage), axis=0).reshape(-1, size * images), images)
    return behind.reshape(-1, images), own, most.sum(axis=1)


def _product(one: Floats, other: Floats, parts: int) -> Floats:
    """In so many parts: a product no larger than that for one image is left to one thread by numpy's library. Where
    several take turns on one core, as when a process is pinned to it, they wait for each other, and it takes tens of
    times as long."""
    found = np.empty((len(one), parts, other.shape[1] // parts), one.dtype)
    np.matmul(one, other.reshape(len(other), parts, -1).swapaxes(0, 1), out=found.swapaxes(0, 1))
    return found.reshape(len(one), -1)


@cache
def _around(stage: int) -> Places:
    """For each channel and neighbour (row) of each pixel (column) its row in what goes in. Pixels are in an order in
    which those come together that are first, second, third and last of the four of which one goes on."""
    return _looked_up(_neighbours(stage)[:, _fours(stage)], CHANNELS[stage])


@cache
def _behind(stage: int) -> Places:
    """The same for the way back: rows of what came out, for each pixel of what went in."""
    neighbours = _neighbours(stage)
    rank = _fours(stage).argsort()
    return _looked_up(np.where(neighbours < 0, -1, rank[neighbours]), CHANNELS[stage + 1])


def _neighbours(stage: int) -> Places:
    """The nine pixels around each, itself included; -1 beyond the border."""
    side = THUMB >> stage
    y, x = np.divmod(np.arange(side * side), side)
    found = []
    for place in range(9):
        down, across = y + place // 3 - 1, x + place % 3 - 1
        inside = (down >= 0) & (down < side) & (across >= 0) & (across < side)
        found.append(np.where(inside, down * side + across, -1))
    return np.stack(found)


def _fours(stage: int) -> Places:
    half = THUMB >> (stage + 1)
    return np.arange(4 * half * half).reshape(half, 2, half, 2).transpose(1, 3, 0, 2).ravel()


def _looked_up(places: Places, channels: int) -> Places:
    size = places.shape[1]
    each = np.arange(channels)[:, None, None] * size + places
    found: Places = np.where(places < 0, channels * size, each).reshape(-1, size)
    return found


def _batches(count: int, random: np.random.Generator) -> Iterator[Places]:
    """Every image once, in an order drawn by lot, then again in another; what does not fill a batch waits for the next
    draw."""
    size = min(BATCH, count)
    while True:
        order = random.permutation(count)
        yield from (order[at : at + size] for at in range(0, count - size + 1, size))


def load(arrays: Mapping[str, NDArray[Any]]) -> Network:
    """From its arrays, checked."""
    layers = tuple(arrays[name] for name in NAMES if name in arrays)
    if [each.shape for each in layers] != list(SHAPES) or not all(
        each.dtype == np.float32 and np.isfinite(each).all() for each in layers
    ):
        raise InputError("a convolutional network whose layers do not fit together")
    return Network(layers)
