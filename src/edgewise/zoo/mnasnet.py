"""MnasNet-B1 (Tan et al., 2018): inverted residuals of 3x3 and 5x5, found by search on a phone."""

from __future__ import annotations

from typing import Any

from .layers import Net

# expansion, channels, repeats, stride of the first, kernel: Figure 7 of the paper, without squeeze-and-excitation.
_BLOCKS = (
    (3, 24, 3, 2, 3),
    (3, 40, 3, 2, 5),
    (6, 80, 3, 2, 5),
    (6, 96, 2, 1, 3),
    (6, 192, 4, 2, 5),
    (6, 320, 1, 1, 3),
)


def mnasnet1_0(classes: int = 1000, size: int = 224, seed: int = 0) -> Any:
    net = Net("mnasnet1_0", size, seed)
    x = net.relu(net.conv(net.input, 32, 3, 2))
    x = net.relu(net.conv(x, 32, 3, groups=32))
    x = net.conv(x, 16)
    for expansion, channels, repeats, first_stride, kernel in _BLOCKS:
        for index in range(repeats):
            y = net.relu(net.conv(x, x.channels * expansion))
            y = net.relu(net.conv(y, y.channels, kernel, first_stride if index == 0 else 1, groups=y.channels))
            y = net.conv(y, channels)
            x = net.add(x, y) if index else y
    x = net.relu(net.conv(x, 1280))
    return net.model(net.linear(net.global_pool(x), classes))
