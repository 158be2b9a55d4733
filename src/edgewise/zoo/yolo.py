"""YOLO detectors: the second version (Redmon and Farhadi, 2016), its small one, and a later kind without anchors.

`yolo_anchor_free_n` has the layers and widths of the smallest YOLOv8, which came without a paper. What is left to the
program around them: boxes from raw values, and which of them to keep.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from .layers import Net, Value
from .moments import Moments, silu
from .tokens import Tokens, reshape, rows, softmax, stack
from .weights import seen

_ANCHORS = 5
_BINS = 16  # a side of a box is a mean over so many distances


def _leaky(net: Net, x: Value, out: int, kernel: int = 3) -> Value:
    return net.leaky_relu(net.conv(x, out, kernel))


def yolov2(classes: int = 20, size: int = 416, seed: int = 0) -> Any:
    """Darknet-19 without its last layer, then detection; a finer map is passed through to the end."""
    net = Net("yolov2", size, seed)
    net.needs_multiple_of(32)
    x = fine = net.input
    for index, widths in enumerate(((32,), (64,), (128, 64, 128), (256, 128, 256), (512, 256) * 2 + (512,))):
        x = net.max_pool(x, 2, 2) if index else x
        for position, width in enumerate(widths):
            x = _leaky(net, x, width, 1 if position % 2 else 3)
    fine, x = x, net.max_pool(x, 2, 2)
    for position, width in enumerate((1024, 512) * 2 + (1024,)):
        x = _leaky(net, x, width, 1 if position % 2 else 3)
    x = _leaky(net, _leaky(net, x, 1024), 1024)
    passed = _leaky(net, fine, 64, 1)
    x = _leaky(net, net.concat(_deeper(net, passed), x), 1024)
    return net.model(map=net.conv(x, _ANCHORS * (5 + classes), then="bias"), preprocess="unit")


def tiny_yolov2(classes: int = 20, size: int = 416, seed: int = 0) -> Any:
    net = Net("tiny_yolov2", size, seed)
    net.needs_multiple_of(32)
    x = net.input
    for width in (16, 32, 64, 128, 256):
        x = net.max_pool(_leaky(net, x, width), 2, 2)
    x = net.max_pool(_leaky(net, x, 512), 2, 1, pad=(0, 0, 1, 1))
    x = _leaky(net, _leaky(net, x, 1024), 1024)
    return net.model(map=net.conv(x, _ANCHORS * (5 + classes), then="bias"), preprocess="unit")


def _deeper(net: Net, x: Value) -> Value:
    """Half the height and width; the four places that become one go side by side."""
    name = net.node("SpaceToDepth", [x.name], blocksize=2)[0]
    moments = x.moments.take(np.tile(np.arange(x.channels), 4))
    return Value(name, 4 * x.channels, x.height // 2, x.width // 2, moments)


def _conv(net: Net, x: Value, out: int, kernel: int = 1, stride: int = 1) -> Value:
    return net.silu(net.conv(x, out, kernel, stride))


def _stage(net: Net, x: Value, out: int, repeats: int, shortcut: bool) -> Value:
    """One half goes through pairs of convolutions; what each pair gives is kept for the last one."""
    parts = list(net.halves(_conv(net, x, out)))
    for _ in range(repeats):
        y = _conv(net, _conv(net, parts[-1], out // 2, 3), out // 2, 3)
        parts.append(net.add(parts[-1], y) if shortcut else y)
    return _conv(net, net.concat(*parts), out)


def _pooled(net: Net, x: Value) -> Value:
    """Largest values over windows of 5, 9 and 13, beside the values themselves."""
    before = net.conv(x, x.channels // 2)
    parts = [net.silu(before)]
    for window in (5, 9, 13):
        largest = before.moments.largest(_inside(x.height, window) * _inside(x.width, window))
        # Such values differ little, and no error in their mean is to be magnified: taken for as varied as before.
        moments = Moments(largest.mean, before.moments.variance).through(silu)
        parts.append(replace(net.max_pool(parts[-1], 5, 1, pad=2), moments=moments))
    return _conv(net, net.concat(*parts), x.channels)


def _inside(size: int, window: int) -> float:
    """How many values a window covers on average, near the edges too."""
    return float(seen(size, window, 1, window // 2, size).sum())


def _neck(net: Net, fine: Value, middle: Value, coarse: Value) -> tuple[Value, Value, Value]:
    """What coarse levels know goes to the fine ones, and back."""
    mixed = _stage(net, net.concat(net.twice(coarse), middle), 128, 1, False)
    fine = _stage(net, net.concat(net.twice(mixed), fine), 64, 1, False)
    middle = _stage(net, net.concat(_conv(net, fine, 64, 3, 2), mixed), 128, 1, False)
    coarse = _stage(net, net.concat(_conv(net, middle, 128, 3, 2), coarse), 256, 1, False)
    return fine, middle, coarse


def _head(net: Net, x: Value, inner: int, out: int) -> Value:
    return net.conv(_conv(net, _conv(net, x, inner, 3), inner, 3), out, then="bias")


def _sides(net: Net, x: Tokens) -> Tokens:
    """Each side of a box as the mean distance, in cells of its level, that its bins speak for."""
    x = softmax(net, x)
    distances = net.constant("distances", np.arange(_BINS, dtype=np.float32)[:, None])
    net.parameters += _BINS
    name = reshape(net, net.node("MatMul", [x.name, distances])[0], x.count // 4, 4)
    return Tokens(name, x.count // 4, 4, Moments(np.full(4, (_BINS - 1) / 2), np.ones(4)))


def yolo_anchor_free_n(classes: int = 80, size: int = 640, seed: int = 0) -> Any:
    net = Net("yolo_anchor_free_n", size, seed)
    net.needs_multiple_of(32)
    x = _conv(net, net.input, 16, 3, 2)
    levels = []
    for width, repeats in ((32, 1), (64, 2), (128, 2), (256, 1)):
        x = _stage(net, _conv(net, x, width, 3, 2), width, repeats, True)
        levels.append(x)
    _, fine, middle, coarse = levels
    neck = _neck(net, fine, middle, _pooled(net, coarse))
    bins = [rows(net, _head(net, level, 4 * _BINS, 4 * _BINS), 4) for level in neck]
    scores = [rows(net, _head(net, level, max(neck[0].channels, min(classes, 100)), classes)) for level in neck]
    every = stack(net, *scores)
    every = replace(every, name=net.node("Sigmoid", [every.name])[0])
    return net.model(boxes=_sides(net, stack(net, *bins)), scores=every, preprocess="unit")
