"""AlexNet (Krizhevsky, 2014): the one-tower form that frameworks ship."""

from __future__ import annotations

from typing import Any

from .layers import Net


def alexnet(classes: int = 1000, size: int = 224, seed: int = 0) -> Any:
    net = Net("alexnet", size, seed)
    x = net.relu(net.conv(net.input, 64, 11, 4, pad=2, then="bias"))
    x = net.relu(net.conv(net.max_pool(x), 192, 5, then="bias"))
    x = net.max_pool(x)
    for channels in (384, 256, 256):
        x = net.relu(net.conv(x, channels, 3, then="bias"))
    x = net.flatten(net.max_pool(x))
    for _ in range(2):
        x = net.relu(net.linear(x, 4096))
    return net.model(net.linear(x, classes))
