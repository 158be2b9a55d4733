"""A few small convolutions: enough of a network to try things out on in milliseconds."""

from __future__ import annotations

from typing import Any

from .layers import Net


def tiny(classes: int = 10, size: int = 32, seed: int = 0) -> Any:
    net = Net("tiny", size, seed)
    x = net.relu(net.conv(net.input, 16, 3, 2))
    x = net.relu(net.conv(x, 16, 3, groups=16))
    y = net.relu(net.conv(x, 32))
    x = net.add(x, net.conv(y, 16, 3))
    x = net.relu(net.conv(x, 32, 3, 2))
    return net.model(net.linear(net.global_pool(x), classes))
