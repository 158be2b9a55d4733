"""MobileNetV2 (Sandler et al., 2018): inverted residuals with linear bottlenecks."""

from __future__ import annotations

from typing import Any

from .layers import Net

# expansion, channels, repeats, stride of the first: Table 2 of the paper.
_BLOCKS = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


def mobilenet_v2(classes: int = 1000, size: int = 224, seed: int = 0) -> Any:
    net = Net("mobilenet_v2", size, seed)
    x = net.relu6(net.conv(net.input, 32, 3, 2))
    for expansion, channels, repeats, first_stride in _BLOCKS:
        for index in range(repeats):
            stride = first_stride if index == 0 else 1
            y = net.relu6(net.conv(x, x.channels * expansion)) if expansion > 1 else x
            y = net.relu6(net.conv(y, y.channels, 3, stride, groups=y.channels))
            y = net.conv(y, channels)
            x = net.add(x, y) if stride == 1 and x.channels == channels else y
    x = net.relu6(net.conv(x, 1280))
    return net.model(net.linear(net.global_pool(x), classes))
