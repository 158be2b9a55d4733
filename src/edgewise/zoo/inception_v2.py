"""Inception v2 (Ioffe and Szegedy, 2015), as TensorFlow released it: two 3x3 convolutions in place of one 5x5."""

from __future__ import annotations

from typing import Any

from .layers import Net, Value, same

# 1x1, a 3x3 after its reduction, two 3x3 after theirs, and what follows the pooling.
_Module = tuple[int, tuple[int, int], tuple[int, int], int]
_THREE: tuple[_Module, ...] = ((64, (64, 64), (64, 96), 32), (64, (64, 96), (64, 96), 64))
_FOUR: tuple[_Module, ...] = (
    (224, (64, 96), (96, 128), 128),
    (192, (96, 128), (96, 128), 128),
    (160, (128, 160), (128, 160), 96),
    (96, (128, 192), (160, 192), 96),
)
_FIVE: tuple[_Module, ...] = ((352, (192, 320), (160, 224), 128), (352, (192, 320), (192, 224), 128))


def _conv(net: Net, x: Value, out: int, kernel: int = 1, stride: int = 1) -> Value:
    return net.relu(net.conv(x, out, kernel, stride, pad=same(x, kernel, stride)))


def _module(net: Net, x: Value, module: _Module, largest: bool = False) -> Value:
    """`largest`: the last branch takes the largest of its places, not their average."""
    alone, (reduced, once), (narrowed, twice), pooled = module
    return net.concat(
        _conv(net, x, alone),
        _conv(net, _conv(net, x, reduced), once, 3),
        _conv(net, _conv(net, _conv(net, x, narrowed), twice, 3), twice, 3),
        _conv(net, net.max_pool(x, 3, 1, pad=1) if largest else net.average_pool(x), pooled),
    )


def _halved(net: Net, x: Value, once: tuple[int, int], twice: tuple[int, int]) -> Value:
    return net.concat(
        _conv(net, _conv(net, x, once[0]), once[1], 3, 2),
        _conv(net, _conv(net, _conv(net, x, twice[0]), twice[1], 3), twice[1], 3, 2),
        net.max_pool(x, pad=same(x, 3, 2)),
    )


def inception_v2(classes: int = 1000, size: int = 224, seed: int = 0) -> Any:
    net = Net("inception_v2", size, seed)
    # Eight filters per colour, then one convolution over all of them, the only one that is not normalized.
    x = net.conv(net.input, 24, 7, 2, groups=3, pad=same(net.input, 7, 2), then="nothing")
    x = net.relu(net.conv(x, 64, then="bias"))
    x = _conv(net, net.max_pool(x, pad=same(x, 3, 2)), 64)
    x = _conv(net, x, 192, 3)
    x = net.max_pool(x, pad=same(x, 3, 2))
    for module in _THREE:
        x = _module(net, x, module)
    x = _halved(net, x, (128, 160), (64, 96))
    for module in _FOUR:
        x = _module(net, x, module)
    x = _halved(net, x, (128, 192), (192, 256))
    first, last = _FIVE
    x = _module(net, _module(net, x, first), last, largest=True)
    return net.model(net.linear(net.global_pool(x), classes), preprocess="inception")
