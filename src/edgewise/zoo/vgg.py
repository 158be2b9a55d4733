"""VGG (Simonyan and Zisserman, 2014): columns of 3x3 convolutions."""

from __future__ import annotations

from typing import Any

from .layers import Net

_CHANNELS = (64, 128, 256, 512, 512)


def _vgg(name: str, depths: tuple[int, ...], classes: int, size: int, seed: int) -> Any:
    """`depths`: convolutions before each halving (the columns A, B, D, E of Table 1 in the paper)."""
    net = Net(name, size, seed)
    x = net.input
    for channels, depth in zip(_CHANNELS, depths, strict=True):
        for _ in range(depth):
            x = net.relu(net.conv(x, channels, 3, then="bias"))
        x = net.max_pool(x, 2)
    x = net.flatten(x)
    for _ in range(2):
        x = net.relu(net.linear(x, 4096))
    return net.model(net.linear(x, classes))


def vgg11(classes: int = 1000, size: int = 224, seed: int = 0) -> Any:
    return _vgg("vgg11", (1, 1, 2, 2, 2), classes, size, seed)


def vgg13(classes: int = 1000, size: int = 224, seed: int = 0) -> Any:
    return _vgg("vgg13", (2, 2, 2, 2, 2), classes, size, seed)


def vgg16(classes: int = 1000, size: int = 224, seed: int = 0) -> Any:
    return _vgg("vgg16", (2, 2, 3, 3, 3), classes, size, seed)


def vgg19(classes: int = 1000, size: int = 224, seed: int = 0) -> Any:
    return _vgg("vgg19", (2, 2, 4, 4, 4), classes, size, seed)
