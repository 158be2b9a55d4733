"""Xception (Chollet, 2017): separable convolutions throughout, with residuals."""

from __future__ import annotations

from typing import Any

from .layers import Net, Value


def _separable(net: Net, x: Value, out: int) -> Value:
    return net.conv(net.conv(x, x.channels, 3, groups=x.channels, then="nothing"), out)


def _block(net: Net, x: Value, channels: tuple[int, ...], stride: int, first_relu: bool = True) -> Value:
    y = x
    for index, out in enumerate(channels):
        y = _separable(net, net.relu(y) if index or first_relu else y, out)
    if stride > 1:
        y = net.max_pool(y, 3, stride, pad=1)
    if stride > 1 or x.channels != y.channels:
        x = net.conv(x, y.channels, 1, stride)
    return net.add(y, x)


def xception(classes: int = 1000, size: int = 299, seed: int = 0) -> Any:
    net = Net("xception", size, seed)
    x = net.relu(net.conv(net.input, 32, 3, 2, pad=0))
    x = net.relu(net.conv(x, 64, 3, pad=0))
    x = _block(net, x, (128, 128), 2, first_relu=False)
    x = _block(net, x, (256, 256), 2)
    x = _block(net, x, (728, 728), 2)
    for _ in range(8):
        x = _block(net, x, (728, 728, 728), 1)
    x = _block(net, x, (728, 1024), 2)
    x = net.relu(_separable(net, x, 1536))
    x = net.relu(_separable(net, x, 2048))
    return net.model(net.linear(net.global_pool(x), classes), preprocess="inception")
