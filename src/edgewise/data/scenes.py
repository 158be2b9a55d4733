"""The pocket scenes: labelled colour images, each with one handwritten digit in clutter, made from a seed.

The digits are real: the 1,797 images of 8 × 8 that scikit-learn carries, from "Optical Recognition of Handwritten
Digits" by E. Alpaydin and C. Kaynak, UCI Machine Learning Repository (https://doi.org/10.24432/C50P49), CC BY 4.0. No
digit is in two splits. The label of a scene is the digit that is whole and the largest; everything else is a fragment,
a stroke or a patch.

A scene depends on its split, index and difficulty alone and is the same to the bit on every machine: random bits come
straight from PCG64, arrays see only operations that IEEE 754 defines exactly, and what `math` computes is rounded to a
coarse grid first.
"""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from ..core.errors import InputError

Split = Literal["train", "validation", "test"]
SIZE = 64
CLASSES = tuple("0123456789")
TEST_COUNT = 5000
HARDEST = 2.0

_SEED = 20240229
_SHARES = {"test": 0.3, "validation": 0.1}  # of the digits of each class; the rest is for training
_TEXELS = 8  # samples of a digit's texture per pixel of the 8 × 8 original
_SIDE = 10 * _TEXELS  # with an empty border of one pixel
_PLACES = np.arange(SIZE, dtype=np.float32)
_GRID = 5  # cells of the ground's texture

Floats = NDArray[np.float32]


def scenes(
    split: Split, first: int, count: int, *, difficulty: float = 1.0
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Images (count, SIZE, SIZE, 3) and labels of the scenes from `first` on; difficulty 0 is clean, 1 the standard."""
    if split not in get_args(Split):
        raise InputError(f"scenes come in {', '.join(get_args(Split))}; found {split!r}")
    if first < 0 or count < 0:
        raise InputError(f"scenes are counted from 0 on, found first={first} and count={count}")
    if not 0 <= difficulty <= HARDEST:
        raise InputError(f"difficulty lies between 0 and {HARDEST}, found {difficulty}")
    images = np.empty((count, SIZE, SIZE, 3), np.uint8)
    labels = np.empty(count, np.int64)
    for place in range(count):
        labels[place] = _scene(split, first + place, float(difficulty), images[place])
    return images, labels


class _Random:
    """A scene's own stream of numbers, taken one by one, and `hardness` that moves a range from easy to hard."""

    def __init__(self, split: Split, index: int, difficulty: float) -> None:
        # The raw stream of a bit generator is what numpy promises never to change.
        self._bits = np.random.PCG64(np.random.SeedSequence([_SEED, get_args(Split).index(split), index]))
        raw = self._bits.random_raw(256)
        self._numbers = iter(((raw >> np.uint64(32)).astype(np.float64) * 2.0**-32).tolist())
        # The root: more hard scenes than easy ones.
        self.hardness = min(1.0, difficulty * math.sqrt(self()))

    def __call__(self, low: float = 0.0, high: float = 1.0) -> float:
        return low + (high - low) * float(next(self._numbers))

    def either(self, size: float) -> float:
        """From -size to size."""
        return self(-size, size)

    def below(self, count: int) -> int:
        return min(count - 1, int(self() * count))

    def harder(self, easy: float, hard: float) -> float:
        """`easy` in an easy scene; in a hard one somewhere on the way to `hard`, mostly far."""
        return easy + (hard - easy) * self.hardness * self(0.3, 1.0)

    def bytes(self, count: int) -> NDArray[np.uint8]:
        return self._bits.random_raw(count // 8).astype("<u8").view(np.uint8)


def _scene(split: Split, index: int, difficulty: float, out: NDArray[np.uint8]) -> int:
    random = _Random(split, index, difficulty)
    pool = _pool(split)
    chosen = int(pool[random.below(len(pool))])
    ground = [random(0.15, 0.85) for _ in range(3)]
    contrast = random.harder(0.55, 0.10)
    ink = _ink(random, ground, contrast)
    canvas = _ground(random, ground, random.harder(0.0, 0.30))

    pixels = random.harder(random(38.0, 46.0), 18.0)  # the side of the whole 8 × 8 image
    room = (SIZE - pixels) * 0.5
    free = random.harder(0.3, 1.0)
    at = (SIZE * 0.5 + random.either(room * free), SIZE * 0.5 + random.either(room * free))

    for _ in range(3):
        _patch(canvas, random, _ink(random, ground, contrast), random.harder(0.0, 1.0))
    for _ in range(5):
        colour = ink if random() < 0.6 else _ink(random, ground, contrast)
        digit = int(pool[random.below(len(pool))])
        _fragment(canvas, random, digit, colour, pixels, at)
    for _ in range(4):
        _stroke(canvas, random, ink if random() < 0.5 else _ink(random, ground, contrast), 0.9)

    turn, shear = random.either(random.harder(0.05, 0.6)), random.either(random.harder(0.05, 0.45))
    wide = 1.0 + random.either(random.harder(0.05, 0.33))
    bends = tuple(random.either(random.harder(0.0, 0.28)) for _ in range(4))
    _digit(canvas, chosen, at, pixels, (turn, shear, wide), bends, random(0.36, 0.55), ink)

    # In front of the digit: at most one stroke and one small patch, so that most of it stays in sight.
    _stroke(canvas, random, _ink(random, ground, contrast), 0.6)
    side = pixels * random(0.14, 0.32)
    corner = [middle + random.either(pixels * 0.4) - side * 0.5 for middle in at]
    cover = _ink(random, ground, random(0.0, contrast))
    if random() < random.hardness * 0.8:
        _paint(canvas, (corner[0], corner[1], side, side), None, cover)

    _light(canvas, random)
    for _ in range(int(random.harder(0.0, 4.5))):
        canvas = _blurred(canvas)
    noise = random.bytes(4 * SIZE * SIZE).reshape(4, SIZE, SIZE).astype(np.float32)
    canvas += (noise[:3] + noise[3] - 255.0) * (random.harder(0.01, 0.23) / 255.0)
    np.rint(canvas * 255.0, out=canvas)
    np.clip(canvas, 0.0, 255.0, out=canvas)
    out[...] = canvas.transpose(1, 2, 0)
    return int(_digits()[1][chosen])


def _ink(random: _Random, ground: list[float], contrast: float) -> list[float]:
    """A random colour, moved along the greys until its brightness is `contrast` away from the ground's."""
    colour = [level + random.either(0.3) for level in ground]
    brightness = 0.3 * (colour[0] - ground[0]) + 0.59 * (colour[1] - ground[1]) + 0.11 * (colour[2] - ground[2])
    middle = 0.3 * ground[0] + 0.59 * ground[1] + 0.11 * ground[2]
    # Towards the side with more room, or else either: the digit is bright on dark as often as dark on bright.
    sign = -1.0 if middle > 0.6 or (middle > 0.4 and random() < 0.5) else 1.0
    return [level - brightness + sign * contrast for level in colour]


def _ground(random: _Random, colour: list[float], strength: float) -> Floats:
    """The colour with soft cloudy texture of the given strength."""
    knots = random.bytes(96)[: 3 * _GRID * _GRID].reshape(3, _GRID, _GRID).astype(np.float32)
    knots = (knots - 127.5) * (strength / 255.0) + np.array(colour, np.float32)[:, None, None]
    left, share = _cells()
    rows = knots[:, left] + (knots[:, left + 1] - knots[:, left]) * share[:, None]
    return np.ascontiguousarray(rows[:, :, left] + (rows[:, :, left + 1] - rows[:, :, left]) * share)


def _box(x: float, y: float, width: float, height: float) -> tuple[slice, slice]:
    """Rows and columns of the canvas that a rectangle touches."""
    columns = slice(max(0, math.floor(x)), max(0, min(SIZE, math.ceil(x + width))))
    rows = slice(max(0, math.floor(y)), max(0, min(SIZE, math.ceil(y + height))))
    return rows, columns


def _paint(canvas: Floats, box: tuple[float, float, float, float], cover: Any, colour: list[float]) -> None:
    rows, columns = _box(*box)
    part = canvas[:, rows, columns]
    paint = np.array(colour, np.float32)[:, None, None]
    if cover is None:
        part[...] = paint
    else:
        part += (paint - part) * cover


def _patch(canvas: Floats, random: _Random, colour: list[float], chance: float) -> None:
    """A rectangle that shows through."""
    x, y = random(-12.0, SIZE - 8.0), random(-12.0, SIZE - 8.0)
    width, height, cover = random(8.0, 30.0), random(8.0, 30.0), random(0.2, 0.7)
    if random() < chance:
        _paint(canvas, (x, y, width, height), cover, colour)


def _stroke(canvas: Floats, random: _Random, colour: list[float], chance: float) -> None:
    """A straight line with round ends."""
    x, y, angle = random(0.0, SIZE), random(0.0, SIZE), random(0.0, 2.0 * math.pi)
    length, half = random(8.0, 30.0), random(0.7, 1.9)
    if random() >= chance * random.hardness:
        return
    across, down = _rounded(math.cos(angle)), _rounded(math.sin(angle))
    ends = (min(x, x + across * length) - half - 1, min(y, y + down * length) - half - 1)
    box = (*ends, abs(across) * length + 2 * half + 2, abs(down) * length + 2 * half + 2)
    rows, columns = _box(*box)
    dx, dy = _PLACES[None, columns] - x, _PLACES[rows, None] - y
    along = np.clip(dx * across + dy * down, 0.0, length)
    dx, dy = dx - along * across, dy - along * down
    away = np.sqrt(dx * dx + dy * dy)
    _paint(canvas, box, np.clip(half + 0.5 - away, 0.0, 1.0), colour)


def _fragment(
    canvas: Floats, random: _Random, digit: int, colour: list[float], pixels: float, at: tuple[float, float]
) -> None:
    """A part of another digit, smaller than the main one, behind it and to its side."""
    chance = random()
    size = pixels * random(0.40, 0.72)
    angle, away = random(0.0, 2.0 * math.pi), pixels * random(0.50, 0.95)
    middle = (at[0] + away * _rounded(math.cos(angle)), at[1] + away * _rounded(math.sin(angle)))
    shape = (random.either(0.8), random.either(0.4), 1.0 + random.either(0.3))
    thin, cut, deep = random(0.36, 0.55), random(0.0, 2.0 * math.pi), random(0.0, 0.25)
    if chance < random.hardness:
        line = (_rounded(math.cos(cut)), _rounded(math.sin(cut)), deep * size)
        _digit(canvas, digit, middle, size, shape, (0.0, 0.0, 0.0, 0.0), thin, colour, line)


def _digit(
    canvas: Floats,
    digit: int,
    at: tuple[float, float],
    pixels: float,
    shape: tuple[float, float, float],
    bends: tuple[float, ...],
    thin: float,
    colour: list[float],
    cut: tuple[float, float, float] | None = None,
) -> None:
    """Digit number `digit`, its 8 × 8 image `pixels` wide, turned, sheared, widened and bent; cut off along a line."""
    turn, shear, wide = shape
    across, down = _rounded(math.cos(turn)), _rounded(math.sin(turn))
    reach = pixels * 0.75
    box = (at[0] - reach, at[1] - reach, 2 * reach, 2 * reach)
    rows, columns = _box(*box)
    dx, dy = _PLACES[None, columns] - at[0], _PLACES[rows, None] - at[1]
    x, y = dx * (across / wide) + dy * (down / wide), dy * across - dx * down
    x += y * shear
    scale = 8 * _TEXELS / pixels
    x *= scale
    y *= scale
    if any(bends):
        far = 1.0 / (4 * _TEXELS)
        xy, xx, yy = x * y * far, x * x * far, y * y * far
        x, y = x + xy * bends[0] + yy * bends[1], y + xy * bends[2] + xx * bends[3]
    x, y = np.clip(x + _SIDE / 2, 0.0, _SIDE - 1), np.clip(y + _SIDE / 2, 0.0, _SIDE - 1)
    cover = _textures()[digit].take(y.astype(np.int32) * _SIDE + x.astype(np.int32))
    cover = np.clip((cover - thin) * 4.0, 0.0, 1.0)
    if cut is not None:
        cover *= np.clip(dx * cut[0] + dy * cut[1] - cut[2], 0.0, 1.0)
    _paint(canvas, box, cover, colour)


def _light(canvas: Floats, random: _Random) -> None:
    """Brighter towards one side, and sometimes a shadow with a soft edge."""
    slope, angle = random.harder(0.0, 0.45), random(0.0, 2.0 * math.pi)
    across, down = _rounded(math.cos(angle)) / SIZE, _rounded(math.sin(angle)) / SIZE
    middle = SIZE * 0.5
    light = ((_PLACES - middle) * (across * 2.0 * slope) + 1.0)[None, :] + ((_PLACES - middle) * (down * 2.0 * slope))[
        :, None
    ]
    angle, edge, dark = random(0.0, 2.0 * math.pi), random.either(20.0), random(0.2, 0.55)
    if random() < random.hardness * 0.6:
        across, down = _rounded(math.cos(angle)), _rounded(math.sin(angle))
        side = ((_PLACES - middle) * across - edge)[None, :] + ((_PLACES - middle) * down)[:, None]
        light *= 1.0 - np.clip(side * 0.3, 0.0, 1.0) * dark
    canvas *= light


def _blurred(canvas: Floats) -> Floats:
    """Each pixel with its neighbours in the weights 1, 2, 1, down and across; the margin stays."""
    soft = canvas.copy()
    soft[:, 1:-1] = (canvas[:, :-2] + canvas[:, 2:]) * 0.25 + canvas[:, 1:-1] * 0.5
    wide = soft.copy()
    wide[:, :, 1:-1] = (soft[:, :, :-2] + soft[:, :, 2:]) * 0.25 + soft[:, :, 1:-1] * 0.5
    return wide


def _rounded(value: float) -> float:
    """On a grid so coarse that mathematical libraries that differ in the last bit agree."""
    return round(value * 65536.0) / 65536.0


@cache
def _cells() -> tuple[NDArray[np.intp], Floats]:
    """For each column of the canvas: the knot of the ground's texture to its left, and how far it is from it."""
    place = _PLACES * ((_GRID - 1) / SIZE)
    left = place.astype(np.intp)
    return left, place - left.astype(np.float32)


@cache
def _digits() -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    with np.load(Path(__file__).with_name("digits.npz"), allow_pickle=False) as archive:
        return archive["images"], archive["labels"]


@cache
def _pool(split: Split) -> NDArray[np.intp]:
    """The digits that the scenes of a split are made of: of each class the same share."""
    labels = _digits()[1]
    order = np.argsort(np.random.PCG64(np.random.SeedSequence(_SEED)).random_raw(len(labels)), kind="stable")
    chosen = []
    for label in range(len(CLASSES)):
        of_class = order[labels[order] == label]
        test = round(len(of_class) * _SHARES["test"])
        rest = test + round(len(of_class) * _SHARES["validation"])
        chosen.append({"test": of_class[:test], "validation": of_class[test:rest], "train": of_class[rest:]}[split])
    return np.sort(np.concatenate(chosen))


@cache
def _textures() -> Floats:
    """Every digit drawn larger by cubic interpolation (Catmull-Rom), in an empty border; one row of texels each."""
    images = np.pad(_digits()[0], ((0, 0), (1, 1), (1, 1))).astype(np.float64)
    weights = np.zeros((_SIDE, 10))
    unit = 2 * _TEXELS
    for texel in range(_SIDE):
        # In whole numbers: the distance from the pixel to the left in parts of `unit`, weights in parts of 2 * unit³.
        pixel, t = divmod(2 * texel + 1 - _TEXELS, unit)
        near = (
            -(t**3) + 2 * unit * t**2 - unit**2 * t,
            3 * t**3 - 5 * unit * t**2 + 2 * unit**3,
            -3 * t**3 + 4 * unit * t**2 + unit**2 * t,
            t**3 - unit * t**2,
        )
        for step, weight in enumerate(near, pixel - 1):
            if 0 <= step < 10:
                weights[texel, step] = weight
    # Products and sums of whole numbers below 2**53: exact in any order, so any matrix library gives the same.
    drawn = (weights @ images @ weights.T) / (16.0 * (2.0 * unit**3) ** 2)
    drawn[:, [0, -1]] = drawn[:, :, [0, -1]] = 0.0
    return np.clip(drawn, 0.0, 1.0).astype(np.float32).reshape(len(images), -1)
