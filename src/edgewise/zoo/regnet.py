"""RegNetX (Radosavovic et al., 2020): residual blocks of grouped convolutions, whose widths follow one rule."""

from __future__ import annotations

from typing import Any

from .layers import Net, Value


def _block(net: Net, x: Value, width: int, group: int, stride: int, gain: float) -> Value:
    y = net.relu(net.conv(x, width))
    y = net.relu(net.conv(y, width, 3, stride, groups=width // group))
    y = net.conv(y, width, gain=gain)
    if stride > 1:
        x = net.conv(x, width, 1, stride)
    return net.relu(net.add(y, x))


def _regnet(net: Net, widths: tuple[int, ...], depths: tuple[int, ...], group: int, classes: int) -> Any:
    """`group`: how many channels a grouped convolution sees at a time."""
    x = net.relu(net.conv(net.input, 32, 3, 2))
    for width, depth in zip(widths, depths, strict=True):
        for index in range(depth):
            x = _block(net, x, width, group, 1 if index else 2, depth**-0.5)
    return net.model(net.linear(net.global_pool(x), classes))


def regnet_x_1_6gf(classes: int = 1000, size: int = 224, seed: int = 0) -> Any:
    return _regnet(Net("regnet_x_1_6gf", size, seed), (72, 168, 408, 912), (2, 4, 10, 2), 24, classes)


def regnet_x_4_0gf(classes: int = 1000, size: int = 224, seed: int = 0) -> Any:
    return _regnet(Net("regnet_x_4_0gf", size, seed), (80, 240, 560, 1360), (2, 5, 14, 2), 40, classes)
