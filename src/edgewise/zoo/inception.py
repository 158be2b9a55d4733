"""Inception v3 (Szegedy et al., 2015) and v4 (2016): branches of convolutions, side by side.

A branch is written as its convolutions, (channels, kernel) or (channels, kernel, stride); stride 2 goes unpadded.
The auxiliary head of v3 serves training only and is left out.
"""

from __future__ import annotations

from typing import Any

from .layers import Net, Pad, Value

_Kernel = int | tuple[int, int]
_Step = tuple[int, _Kernel] | tuple[int, _Kernel, int]
_ROW, _COLUMN = (1, 7), (7, 1)
_FLAT, _TALL = (1, 3), (3, 1)
# Normalized around zero, a ReLU lets a small difference grow by a fifth, beside what comes out of it: by the root of
# π / (π - 1) (Yang et al., 2019, 1902.08129). No other network here has as many in a row without a shortcut: rounding
# errors would grow a thousandfold, and engines differ by more than the tolerance of fp32. Lifted, a ReLU cuts off less.
_V4_LIFT = 0.5


def _conv(net: Net, x: Value, out: int, kernel: _Kernel = 1, stride: int = 1, pad: Pad = None) -> Value:
    return net.relu(net.conv(x, out, kernel, stride, pad=0 if stride > 1 else pad))


def _branch(net: Net, x: Value, *steps: _Step) -> Value:
    for step in steps:
        x = _conv(net, x, *step)
    return x


def _forked(net: Net, x: Value, out: int, *steps: _Step) -> Value:
    """A branch that ends in a flat and a tall convolution, both kept."""
    x = _branch(net, x, *steps)
    return net.concat(_conv(net, x, out, _FLAT), _conv(net, x, out, _TALL))


def _v3_a(net: Net, x: Value, pooled: int) -> Value:
    return net.concat(
        _conv(net, x, 64),
        _branch(net, x, (48, 1), (64, 5)),
        _branch(net, x, (64, 1), (96, 3), (96, 3)),
        _conv(net, net.average_pool(x, count=True), pooled),
    )


def _v3_b(net: Net, x: Value, middle: int) -> Value:
    return net.concat(
        _conv(net, x, 192),
        _branch(net, x, (middle, 1), (middle, _ROW), (192, _COLUMN)),
        _branch(net, x, (middle, 1), (middle, _COLUMN), (middle, _ROW), (middle, _COLUMN), (192, _ROW)),
        _conv(net, net.average_pool(x, count=True), 192),
    )


def _v3_c(net: Net, x: Value) -> Value:
    return net.concat(
        _conv(net, x, 320),
        _forked(net, x, 384, (384, 1)),
        _forked(net, x, 384, (448, 1), (384, 3)),
        _conv(net, net.average_pool(x, count=True), 192),
    )


def inception_v3(classes: int = 1000, size: int = 299, seed: int = 0) -> Any:
    net = Net("inception_v3", size, seed)
    x = _conv(net, net.input, 32, 3, 2)
    x = _conv(net, _conv(net, x, 32, 3, pad=0), 64, 3)
    x = _conv(net, net.max_pool(x), 80)
    x = net.max_pool(_conv(net, x, 192, 3, pad=0))
    for pooled in (32, 64, 64):
        x = _v3_a(net, x, pooled)
    x = net.concat(_conv(net, x, 384, 3, 2), _branch(net, x, (64, 1), (96, 3), (96, 3, 2)), net.max_pool(x))
    for middle in (128, 160, 160, 192):
        x = _v3_b(net, x, middle)
    x = net.concat(
        _branch(net, x, (192, 1), (320, 3, 2)),
        _branch(net, x, (192, 1), (192, _ROW), (192, _COLUMN), (192, 3, 2)),
        net.max_pool(x),
    )
    for _ in range(2):
        x = _v3_c(net, x)
    return net.model(net.linear(net.global_pool(x), classes), preprocess="inception")


def _v4_stem(net: Net) -> Value:
    x = _conv(net, net.input, 32, 3, 2)
    x = _conv(net, _conv(net, x, 32, 3, pad=0), 64, 3)
    x = net.concat(net.max_pool(x), _conv(net, x, 96, 3, 2))
    short = _conv(net, _conv(net, x, 64), 96, 3, pad=0)
    long = _conv(net, _branch(net, x, (64, 1), (64, _ROW), (64, _COLUMN)), 96, 3, pad=0)
    x = net.concat(short, long)
    return net.concat(_conv(net, x, 192, 3, 2), net.max_pool(x))


def _v4_a(net: Net, x: Value) -> Value:
    return net.concat(
        _conv(net, x, 96),
        _branch(net, x, (64, 1), (96, 3)),
        _branch(net, x, (64, 1), (96, 3), (96, 3)),
        _conv(net, net.average_pool(x), 96),
    )


def _v4_b(net: Net, x: Value) -> Value:
    return net.concat(
        _conv(net, x, 384),
        _branch(net, x, (192, 1), (224, _ROW), (256, _COLUMN)),
        _branch(net, x, (192, 1), (192, _COLUMN), (224, _ROW), (224, _COLUMN), (256, _ROW)),
        _conv(net, net.average_pool(x), 128),
    )


def _v4_c(net: Net, x: Value) -> Value:
    return net.concat(
        _conv(net, x, 256),
        _forked(net, x, 256, (384, 1)),
        _forked(net, x, 256, (384, 1), (448, _TALL), (512, _FLAT)),
        _conv(net, net.average_pool(x), 256),
    )


def inception_v4(classes: int = 1000, size: int = 299, seed: int = 0) -> Any:
    net = Net("inception_v4", size, seed, lift=_V4_LIFT)
    x = _v4_stem(net)
    for _ in range(4):
        x = _v4_a(net, x)
    x = net.concat(_conv(net, x, 384, 3, 2), _branch(net, x, (192, 1), (224, 3), (256, 3, 2)), net.max_pool(x))
    for _ in range(7):
        x = _v4_b(net, x)
    x = net.concat(
        _branch(net, x, (192, 1), (192, 3, 2)),
        _branch(net, x, (256, 1), (256, _ROW), (320, _COLUMN), (320, 3, 2)),
        net.max_pool(x),
    )
    for _ in range(3):
        x = _v4_c(net, x)
    return net.model(net.linear(net.global_pool(x), classes), preprocess="inception")
